import { describe, expect, it } from "vitest";
import { type HttpReply, send } from "../support/http-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { NO_RESTART } from "../support/fixture-server.ts";

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

const TOKEN = "s3cret-Token.0123456789";
const STATE_ONLY = { status: "not-ready", state: "backing-off" };
const LAST_WORDS = "the last words of the server";
const DETAILS = ["details", "details"];
const ONLY_STATE = Array.from(DETAILS, () => ({ status: 503, origin: undefined, body: STATE_ONLY }));

async function start(flags: readonly string[], token?: string): Promise<RunningSidecar> {
  const env = { CLAW_MCP_STDIO_AUTH_TOKEN: token ?? "" };
  const sidecar = await HttpBench.start({ flags: [...NO_RESTART, ...flags], env });
  const client = await sidecar.client({ token });
  await client.toolText("stderr", { text: LAST_WORDS });
  await client.callTool("exit", { code: 3 });
  await sidecar.waitForLog("mcp server will be restarted");
  return sidecar;
}

function ask({ origin }: RunningSidecar, path: string, headers: Readonly<Record<string, string>>): Promise<HttpReply> {
  return send(`${origin}${path}`, { method: "GET", headers });
}

/** Returns what a request with these headers gets of each path: only the state, or all details. */
function answersFor(sidecar: RunningSidecar, headers: Readonly<Record<string, string>>): Promise<unknown[]> {
  return Promise.all(
    ["/readyz", "/healthz"].map(async (path) => {
      const { status, body, headers: answered } = await ask(sidecar, path, headers);
      if (body.includes(LAST_WORDS)) return "details";
      return { status, origin: answered["access-control-allow-origin"], body: JSON.parse(body) as unknown };
    }),
  );
}

describe("a sidecar on loopback", () => {
  it("with a token, only a client with the token gets all details, and no web page", async () => {
    await using sidecar = await start([], TOKEN);
    const authorized = { Authorization: `Bearer ${TOKEN}` };
    expect(await answersFor(sidecar, authorized)).toEqual(DETAILS);
    for (const headers of [
      {},
      { Authorization: "Bearer wrong" },
      { Authorization: "Bearer" },
      { Authorization: TOKEN },
      { Host: "evil.com", ...authorized },
      { Origin: "https://evil.com", ...authorized },
    ])
      expect(await answersFor(sidecar, headers)).toStrictEqual(ONLY_STATE);
  });

  it("without a token, a local client gets all details, and a DNS-rebinding page only the state", async () => {
    await using sidecar = await start([]);
    expect(await answersFor(sidecar, {})).toEqual(DETAILS);
    const rebound = `rebound.evil.com:${new URL(sidecar.origin).port}`;
    for (const headers of [{ Host: rebound }, { Origin: "https://evil.com" }, { Origin: "null" }])
      expect(await answersFor(sidecar, headers)).toStrictEqual(ONLY_STATE);
  });

  it("a request to an unlisted host gets only the state", async () => {
    await using sidecar = await start(["--allowed-hosts", "mcp.example"]);
    expect(await answersFor(sidecar, { Host: "mcp.example" })).toEqual(DETAILS);
    // A kubelet's probe has such a host.
    expect(await answersFor(sidecar, { Host: "10.1.2.3:8080" })).toStrictEqual(ONLY_STATE);
  });
});

describe("a sidecar that listens beyond loopback", () => {
  it("a DNS-rebinding page gets only the state, and no /status", async () => {
    await using sidecar = await start(["--addr", "0.0.0.0:0"]);
    for (const Host of ["10.1.2.3:8080", "mcp-sidecar:8080"]) {
      for (const path of ["/readyz", "/status"]) expect((await ask(sidecar, path, { Host })).body).toContain(LAST_WORDS);
    }
    const rebound = { Host: "rebound.evil.com:8080" };
    expect(await answersFor(sidecar, rebound)).toStrictEqual(ONLY_STATE);
    const { status, body } = await ask(sidecar, "/status", rebound);
    expect([status, body]).toEqual([403, expect.stringContaining("HOST_NOT_ALLOWED")]);
  });

  it("a client with the token gets /status under any host name", async () => {
    await using sidecar = await start(["--addr", "0.0.0.0:0"], TOKEN);
    const headers = { Host: "mcp.example", Authorization: `Bearer ${TOKEN}` };
    expect((await ask(sidecar, "/status", headers)).body).toContain(LAST_WORDS);
  });
});
