import { describe, expect, it } from "vitest";
import { ChosenServer } from "../support/chosen-server.ts";
import { errorData } from "../support/error-reply.ts";
import type { HttpReply } from "../support/http-client.ts";
import { LANES, useLane } from "../support/lanes.ts";
import { initializeRequest, McpClient } from "../support/mcp-client.ts";
import { readReadiness } from "../support/readiness.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import type { LogLine } from "../support/running-sidecar.ts";

const FAILED = "mcp server failed: crash loop";
/** Long enough for a request of a busy machine. */
const LONGEST_PAUSE_MS = 900;
/** At the level `debug`, exits that are alike are logged too. */
const CRASH_LOOP = `--crash-loop-exits 3 --restart-backoff-ms 20 --restart-max-ms ${LONGEST_PAUSE_MS} --log-level debug`.split(" ");
/** No request times out in these tests. */
const PATIENT = ["--hold-timeout-ms", "600000", "--request-timeout-ms", "600000"];

function exitOf(generation: number): (line: LogLine) => boolean {
  return (line) => line["generation"] === generation;
}

function errorOf({ status, headers, body }: HttpReply): object {
  const { error } = JSON.parse(body) as { readonly error: { readonly message: string; readonly data: object } };
  return { status, retryAfter: Number(headers["retry-after"]), message: error.message, data: error.data };
}

const REFUSED = {
  status: 503,
  retryAfter: 1,
  message:
    "The MCP server keeps failing (last exit: exited with code 3 before it answered initialize). The request was not sent; it is safe to retry.",
  data: errorData("UPSTREAM_FAILED", { exitCode: 3, stderrTail: ["cannot open the database"], retryAfterSeconds: 1 }),
};

describe("a crash loop", () => {
  it("a crash loop is logged once with its cause, and reported by readiness", async () => {
    await using server = await ChosenServer.create();
    await server.chooseExit(3);
    await using sidecar = await HttpBench.start({ command: server.command, flags: CRASH_LOOP, untilReady: false });
    const stderrTail = ["cannot open the database"];
    const known = { kind: "crash", exitCode: 3, reason: "exited with code 3 before it answered initialize", stderrTail };
    expect(await sidecar.waitForLog(FAILED)).toMatchObject({ level: "error", generation: 3, ...known });
    expect(await readReadiness(sidecar)).toMatchObject({
      httpStatus: 503,
      state: "failed",
      pid: null,
      generation: 3,
      restarts: 2,
      lastExit: { generation: 3, stderrLastLine: stderrTail[0], ...known },
      nextRetryAt: expect.any(String) as string,
    });

    // Further exits are alike, so they are only counted, and the pauses stay long.
    const later = await sidecar.waitForLog("mcp server exited", exitOf(5));
    expect(later["level"]).toBe("debug");
    const pauses = sidecar.logLines.filter(({ msg }) => msg === "mcp server will be restarted").slice(2);
    expect(pauses.length).toBeGreaterThanOrEqual(2);
    for (const { state, pauseMs } of pauses) {
      expect(state).toBe("failed");
      expect(pauseMs).toBeGreaterThanOrEqual(0.75 * LONGEST_PAUSE_MS);
    }
    expect(sidecar.logLines.filter(({ level }) => level === "error")).toHaveLength(1);
    expect(sidecar.logLines.filter(({ level, msg }) => level === "warn" && msg === "mcp server exited")).toHaveLength(1);
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server exited again").map(({ count }) => count)).toEqual([2, 4]);
  });

  it("an initialize request for a private server is rejected at once", async () => {
    await using server = await ChosenServer.create();
    await server.chooseExit(3);
    await using sidecar = await HttpBench.start({ command: server.command, flags: [...CRASH_LOOP, ...PATIENT], untilReady: false });
    expect(errorOf(await new McpClient(sidecar.url).post(initializeRequest({ roots: {} })))).toEqual(REFUSED);
  });

  describe.each(LANES)("a crash loop of a %s server", (kind) => {
    it("held and new requests are rejected at once; the session survives until recovery", async () => {
      await using server = await ChosenServer.create();
      // The first pauses are long enough for a request to arrive.
      const flags = [...CRASH_LOOP.slice(0, 2), "--restart-backoff-ms", "300", "--restart-max-ms", "700", ...PATIENT];
      await using sidecar = await HttpBench.start({ command: server.command, flags });
      const { client, childPid, waitForLog, logLines } = await useLane(sidecar, kind);
      await server.chooseExit(3);
      signalServer(childPid, "SIGKILL");
      await waitForLog("mcp server exited");
      const call = { jsonrpc: "2.0", id: 7, method: "tools/call", params: { name: "echo", arguments: { text: "held" } } };
      const held = client.post(call);
      expect(logLines(FAILED)).toEqual([]);
      expect(errorOf(await held)).toEqual(REFUSED);
      await waitForLog(FAILED);
      expect(errorOf(await client.post(call))).toEqual(REFUSED);

      await server.chooseMode("normal");
      await waitForLog("mcp server has recovered");
      expect(await client.toolText("echo", { text: "back" })).toBe("back");
      expect((await readReadiness(sidecar)).state).toBe("ready");
      expect(logLines(FAILED)).toHaveLength(1);
    });
  });

  it("a server that exits again after recovery returns to the failed state", async () => {
    await using sidecar = await HttpBench.start({ mode: "crash-loop", flags: CRASH_LOOP, untilReady: false });
    await sidecar.waitForLog(FAILED);
    await sidecar.waitForLog("mcp server has recovered");
    const { level } = await sidecar.waitForLog("mcp server exited", exitOf(5));
    expect(level).toBe("info");
    const { state } = await sidecar.waitForLog("mcp server will be restarted", (line) => line["restarts"] === 5);
    expect(state).toBe("failed");
    expect(sidecar.logLines.filter(({ msg }) => msg === FAILED)).toHaveLength(1);
  });

  it("the failed state persists while a generation starts, and requests are rejected", async () => {
    await using server = await ChosenServer.create();
    await server.chooseExit(3);
    await using sidecar = await HttpBench.start({ command: server.command, flags: [...CRASH_LOOP, ...PATIENT], untilReady: false });
    await sidecar.waitForLog(FAILED);
    await server.chooseMode("silent");
    for (;;) {
      const before = await readReadiness(sidecar);
      const refused = await new McpClient(sidecar.url).post(initializeRequest());
      const after = await readReadiness(sidecar);
      // A generation from before this choice may still be seen before its exit.
      if (before.pid === null || before.pid !== after.pid) continue;
      expect(errorOf(refused)).toEqual(REFUSED);
      expect(before).toMatchObject({ httpStatus: 503, state: "failed", lastExit: { exitCode: 3 }, nextRetryAt: null });
      break;
    }
  });

  it("errors and log messages of a crash loop mask secrets", async () => {
    const secret = "k-0123456789-abcdef";
    await using server = await ChosenServer.create();
    await server.chooseExit(3, `login with ${secret} failed`);
    await using sidecar = await HttpBench.start({
      command: server.command,
      flags: CRASH_LOOP,
      env: { MY_API_KEY: secret },
      untilReady: false,
    });
    await sidecar.waitForLog(FAILED);
    const reply = await new McpClient(sidecar.url).post(initializeRequest());
    expect(errorOf(reply)).toMatchObject({ data: { code: "UPSTREAM_FAILED", stderrTail: ["login with *** failed"] } });
    expect(await readReadiness(sidecar)).toMatchObject({ lastExit: { stderrTail: ["login with *** failed"] } });
    expect(sidecar.transcript()).not.toContain(secret);
  });

  it("rare exits are not a crash loop", async () => {
    const pauses = ["--restart-backoff-ms", "10", "--restart-max-ms", "10"];
    const flags = ["--crash-loop-exits", "2", "--crash-loop-period-ms", "1", ...pauses, "--log-level", "debug"];
    await using sidecar = await HttpBench.start({ mode: "exit-at-initialize", flags, untilReady: false });
    await sidecar.waitForLog("mcp server exited", exitOf(6));
    expect(sidecar.logLines.filter(({ level }) => level === "error")).toEqual([]);
    expect(["starting", "backing-off"]).toContain((await readReadiness(sidecar)).state);
  });
});
