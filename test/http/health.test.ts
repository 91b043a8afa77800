import { expect, it } from "vitest";
import { send } from "../support/http-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

/** A pause so long that no restart happens. */
const NO_RESTART = ["--restart-backoff-ms", "600000", "--restart-max-ms", "600000"];

async function health({ origin }: RunningSidecar, path: string): Promise<{ readonly status: number; readonly body: unknown }> {
  const { status, body, headers } = await send(`${origin}${path}`, { method: "GET" });
  expect(headers).toMatchObject({ "content-type": "application/json; charset=utf-8", "cache-control": "no-store" });
  return { status, body: JSON.parse(body) as unknown };
}

it("an exit is reported with its code, stderr and the time of the restart", async () => {
  await using sidecar = await HttpBench.start({ flags: NO_RESTART });
  const client = await sidecar.client();
  const before = Date.now();
  await client.toolText("stderr", { text: "the database is gone", count: 2 });
  await client.callTool("exit", { code: 3 });
  await sidecar.waitForLog("mcp server will be restarted");
  const { status, body } = await health(sidecar, "/healthz");
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;
  const lastExit = {
    generation: 1,
    exitCode: 3,
    signal: null,
    kind: "crash",
    reason: "exited with code 3",
    at: time,
    stderrTail: ["the database is gone", "the database is gone"],
    likelyCause: null,
    stderrLastLine: "the database is gone",
  };
  expect({ status, body }).toEqual({
    status: 503,
    body: {
      status: "not-ready",
      state: "backing-off",
      pid: null,
      generation: 1,
      restarts: 0,
      readyAt: null,
      lastExit,
      nextRetryAt: time,
    },
  });
  const times = body as { readonly lastExit: { readonly at: string }; readonly nextRetryAt: string };
  const [exitedAt, nextRetryAt] = [Date.parse(times.lastExit.at), Date.parse(times.nextRetryAt)];
  expect(exitedAt).toBeGreaterThanOrEqual(before);
  expect(exitedAt).toBeLessThanOrEqual(Date.now());
  expect(nextRetryAt).toBeGreaterThanOrEqual(exitedAt + 600_000);
  expect(await health(sidecar, "/readyz")).toEqual({ status, body });
  expect(await health(sidecar, "/livez")).toEqual({ status: 200, body: { status: "live" } });
});
