import { describe, expect, it } from "vitest";
import { Gate } from "../support/gate.ts";
import { send } from "../support/http-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";

/** A pause so long that no restart happens. */
const NO_RESTART = ["--restart-backoff-ms", "600000", "--restart-max-ms", "600000"];
const AT_ONCE = ["--restart-backoff-ms", "1", "--restart-max-ms", "1"];
const BOTH = ["/readyz", "/healthz"];

interface Health {
  readonly lastExit: { readonly at: string } | null;
  readonly nextRetryAt: string | null;
}

async function health(sidecar: RunningSidecar, path: string): Promise<{ readonly status: number; readonly body: Health }> {
  const { status, body, headers } = await send(`${sidecar.origin}${path}`, { method: "GET" });
  expect(headers["content-type"]).toBe("application/json; charset=utf-8");
  expect(headers["cache-control"]).toBe("no-store");
  return { status, body: JSON.parse(body) as Health };
}

/** Makes the server exit by a call of this tool; returns when the exit has been logged. */
async function endServer(sidecar: RunningSidecar, tool: string, args: object): Promise<LogLine> {
  const client = await sidecar.client();
  await client.callTool(tool, args);
  return sidecar.waitForLog("mcp server will be restarted");
}

describe("the health endpoints", () => {
  it("the sidecar is live during the handshake, and ready after it", async () => {
    await using gate = await Gate.create();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, untilReady: false });
    await sidecar.waitForLog("mcp server started");
    const starting = {
      status: "not-ready",
      state: "starting",
      pid: sidecar.childPid,
      generation: 1,
      restarts: 0,
      lastExit: null,
      nextRetryAt: null,
    };
    for (const path of BOTH) expect(await health(sidecar, path)).toEqual({ status: 503, body: starting });
    expect(await health(sidecar, "/livez")).toEqual({ status: 200, body: { status: "live" } });

    await gate.open();
    await sidecar.waitForLog("mcp server ready");
    const ready = { ...starting, status: "ready", state: "ready" };
    for (const path of BOTH) expect(await health(sidecar, path)).toEqual({ status: 200, body: ready });
    expect(await health(sidecar, "/livez")).toEqual({ status: 200, body: { status: "live" } });
  });

  it("an exit is reported with its code, stderr and the time of the restart", async () => {
    await using sidecar = await HttpBench.start({ flags: NO_RESTART });
    const client = await sidecar.client();
    const before = Date.now();
    await client.toolText("stderr", { text: "the database is gone", count: 3 });
    await endServer(sidecar, "exit", { code: 3 });
    const { status, body } = await health(sidecar, "/healthz");
    expect({ status, body }).toEqual({
      status: 503,
      body: {
        status: "not-ready",
        state: "backing-off",
        pid: null,
        generation: 1,
        restarts: 0,
        lastExit: {
          generation: 1,
          exitCode: 3,
          signal: null,
          kind: "crash",
          reason: "exited with code 3",
          at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
          stderrTail: ["the database is gone", "the database is gone", "the database is gone"],
          likelyCause: null,
          stderrLastLine: "the database is gone",
        },
        nextRetryAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
      },
    });
    const exitedAt = Date.parse(String(body.lastExit?.at));
    expect(exitedAt).toBeGreaterThanOrEqual(before);
    expect(exitedAt).toBeLessThanOrEqual(Date.now());
    expect(Date.parse(String(body.nextRetryAt))).toBeGreaterThanOrEqual(exitedAt + 600_000);
    expect(await health(sidecar, "/readyz")).toEqual({ status, body });
    expect(await health(sidecar, "/livez")).toEqual({ status: 200, body: { status: "live" } });
  });

  it("an exit by a signal is reported", async () => {
    await using sidecar = await HttpBench.start({ flags: NO_RESTART });
    await endServer(sidecar, "kill", { signal: "SIGKILL" });
    expect(await health(sidecar, "/healthz")).toMatchObject({
      status: 503,
      body: { state: "backing-off", lastExit: { exitCode: null, signal: "SIGKILL", reason: "ended by SIGKILL", stderrLastLine: null } },
    });
  });

  it("an exit before the handshake is reported", async () => {
    await using sidecar = await HttpBench.start({ mode: "exit-at-initialize", flags: NO_RESTART, untilReady: false });
    await sidecar.waitForLog("mcp server will be restarted");
    expect(await health(sidecar, "/healthz")).toMatchObject({
      status: 503,
      body: { state: "backing-off", pid: null, lastExit: { exitCode: 3, signal: null, stderrLastLine: "cannot open the database" } },
    });
  });

  it("a restarted server is ready, and its last exit is still reported", async () => {
    await using sidecar = await HttpBench.start({ flags: AT_ONCE });
    await endServer(sidecar, "exit", { code: 1 });
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    expect(await health(sidecar, "/healthz")).toMatchObject({
      status: 200,
      body: {
        status: "ready",
        state: "ready",
        pid: sidecar.childPid,
        generation: 2,
        restarts: 1,
        lastExit: { generation: 1, exitCode: 1 },
        nextRetryAt: null,
      },
    });
  });

  it("HEAD gets the same status without a body", async () => {
    await using sidecar = await HttpBench.start({ flags: NO_RESTART });
    const head = async (path: string): Promise<object> => {
      const { status, body } = await send(`${sidecar.origin}${path}`, { method: "HEAD" });
      return { status, body };
    };
    for (const path of [...BOTH, "/livez"]) expect(await head(path)).toEqual({ status: 200, body: "" });
    await endServer(sidecar, "exit", {});
    for (const path of BOTH) expect(await head(path)).toEqual({ status: 503, body: "" });
    expect(await head("/livez")).toEqual({ status: 200, body: "" });
  });

  describe("credentials in health details", () => {
    const secret = "k-0123456789-abcdef";

    it.each(["MY_API_KEY", "TOKEN"])("the value of %s is masked in the last lines of stderr", async (variable) => {
      await using sidecar = await HttpBench.start({ flags: NO_RESTART, env: { [variable]: secret } });
      await (await sidecar.client()).toolText("stderr", { text: `login with ${secret} failed: ${secret}` });
      await endServer(sidecar, "exit", { code: 1 });
      expect(await health(sidecar, "/healthz")).toMatchObject({
        body: { lastExit: { stderrTail: ["login with *** failed: ***"], stderrLastLine: "login with *** failed: ***" } },
      });
      expect(sidecar.transcript()).not.toContain(secret);
    });

    it("a secret in a handshake error is masked", async () => {
      // The fixture rejects initialize with the words "no license", which are a secret here.
      await using sidecar = await HttpBench.start({
        mode: "refuse",
        flags: NO_RESTART,
        env: { MY_PASSWORD: "no license" },
        untilReady: false,
      });
      await sidecar.waitForLog("mcp server will be restarted");
      expect(JSON.stringify(await health(sidecar, "/healthz"))).not.toContain("no license");
      expect(sidecar.transcript()).not.toContain("no license");
    });
  });
});
