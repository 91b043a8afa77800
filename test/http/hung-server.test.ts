import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { errorData } from "../support/error-reply.ts";
import { readSeen, readWhere, timeoutFlags } from "../support/in-flight.ts";
import { LANES, useLane } from "../support/lanes.ts";
import type { ModernClient } from "../support/modern-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { readReadiness } from "../support/readiness.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import { isAlive } from "../support/sidecar.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];
const REQUEST_TIMEOUT_MS = 3000;
/** A call of `hang` times out, and a ping is sent, which has as much time. */
const UNANSWERED = [...QUICK_RESTART, "--hung-timeouts", "1", ...timeoutFlags(REQUEST_TIMEOUT_MS)];
/** STOP_GRACES of `child-process.ts`: 1 s after the end of stdin, 2 s after SIGTERM; doubled for a busy machine. */
const GRACES_MS = 2 * (1000 + 2000);

/**
 * Lets two calls time out. The second one is sent after the ping that follows the first one, so it times out after the ping's time. Without an
 * answer to that ping, it would fail with the server. The server writes nothing else meanwhile.
 */
async function timeOutBeyondPing(client: Pick<McpClient, "callTool"> | Pick<ModernClient, "callTool">): Promise<void> {
  for (let times = 0; times < 2; times++) expect((await client.callTool("hang")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
}

async function countSeen(client: Pick<McpClient, "toolText">, method: string): Promise<number> {
  return (await readSeen(client)).filter((each) => each === method).length;
}

describe.concurrent.each(LANES)("an unresponsive %s server", (kind) => {
  it("a ping without an answer restarts the server, and calls in flight fail at once", async () => {
    const limits = ["--request-timeout-ms", String(REQUEST_TIMEOUT_MS), "--tool-timeouts-ms", "hang=60000", "--hung-timeouts", "2"];
    await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, ...limits] });
    const { client, childPid, waitForLog } = await useLane(sidecar, kind);
    signalServer(childPid, "SIGSTOP");
    for (let times = 0; times < 2; times++) expect((await client.callTool("echo")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    const { error } = await client.callTool("hang");
    // Only SIGKILL ends a stopped process, and it has not been sent yet.
    expect(isAlive(childPid)).toBe(true);
    const reason = "hung: no output while tools/call timed out, the last of 2 timeouts in a row, nor for 3 s after ping";
    expect(error?.data).toEqual(errorData("UPSTREAM_EXITED", { sent: true, retrySafe: false }));
    expect(error?.message).toContain(`(${reason})`);

    const exited = await waitForLog("mcp server exited");
    expect(exited).toMatchObject({ level: "warn", childPid, generation: 1, kind: "hung", reason });
    const next = await waitForLog("mcp server started", (line) => line["generation"] === 2);
    expect(isAlive(childPid)).toBe(false);
    expect(Date.parse(String(next["time"])) - Date.parse(String(exited["time"]))).toBeLessThan(GRACES_MS);
    expect((await readWhere(client)).pid).toBe(next["childPid"]);
  });

  it("calls whose clients give up before their time reveal it too", async () => {
    const limits = ["--request-timeout-ms", String(REQUEST_TIMEOUT_MS), "--hung-timeouts", "1"];
    await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, ...limits] });
    const { client, childPid, waitForLog } = await useLane(sidecar, kind);
    signalServer(childPid, "SIGSTOP");
    const over = new AbortController();
    const exited = waitForLog("mcp server exited").finally(() => over.abort());
    while (!over.signal.aborted) await client.callTool("echo", {}, 2, { signal: AbortSignal.timeout(500) }).catch(() => undefined);
    expect(await exited).toMatchObject({ kind: "hung", childPid });
  });

  it("a server that does not answer pings is restarted without any calls", async () => {
    const flags = [...QUICK_RESTART, "--ping-interval-ms", "300", "--request-timeout-ms", String(REQUEST_TIMEOUT_MS)];
    await using sidecar = await HttpBench.start({ flags });
    const { client, childPid, waitForLog } = await useLane(sidecar, kind);
    signalServer(childPid, "SIGSTOP");
    const reason = "hung: no output while ping timed out, the last of 3 timeouts in a row, nor for 3 s after ping";
    expect(await waitForLog("mcp server exited")).toMatchObject({ kind: "hung", reason });
    await waitForLog("mcp server ready", (line) => line["generation"] === 2);
    expect(isAlive(childPid)).toBe(false);
    expect(await client.toolText("echo", { text: "back" })).toBe("back");
  });

  it("a server that reads pings but does not answer is restarted", async () => {
    const limits = ["--ping-interval-ms", "400", "--hung-timeouts", "2", "--request-timeout-ms", String(REQUEST_TIMEOUT_MS)];
    await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, ...limits] });
    const { client, childPid, waitForLog } = await useLane(sidecar, kind);
    await client.callTool("mute", { method: "ping" });
    await waitForLog("mcp server exited", (line) => line["kind"] === "hung");
    await waitForLog("mcp server ready", (line) => line["generation"] === 2);
    await groupEnd(childPid);
    expect(await client.toolText("echo", { text: "back" })).toBe("back");
  });
});

describe.concurrent.each(LANES)("a responsive %s server", (kind) => {
  it.each(["a result", "an error"])("calls without an answer restart nothing if a ping gets %s", async (answer) => {
    await using sidecar = await HttpBench.start({ flags: UNANSWERED });
    const { client, childPid, logLines } = await useLane(sidecar, kind);
    if (answer === "an error") await client.callTool("refuse", { method: "ping" });
    await timeOutBeyondPing(client);
    expect((await readWhere(client)).pid).toBe(childPid);
    expect(await countSeen(client, "ping")).toBeGreaterThan(0);
    expect(logLines("mcp server exited")).toEqual([]);
  });
});

describe("a server without sessions", () => {
  it("calls without an answer restart nothing if a discovery gets one", async () => {
    await using sidecar = await HttpBench.start({ mode: "modern-only", flags: UNANSWERED });
    const client = sidecar.modernClient();
    const { pid } = await readWhere(client);
    const before = await countSeen(client, "server/discover");
    await timeOutBeyondPing(client);
    expect((await readWhere(client)).pid).toBe(pid);
    expect(await countSeen(client, "server/discover")).toBeGreaterThan(before);
  });

  it("a discovery without an answer after a timeout restarts the server", async () => {
    const flags = [...QUICK_RESTART, "--request-timeout-ms", String(REQUEST_TIMEOUT_MS), "--hung-timeouts", "1"];
    await using sidecar = await HttpBench.start({ mode: "modern-only", flags });
    const client = sidecar.modernClient();
    signalServer(sidecar.childPid, "SIGSTOP");
    expect((await client.callTool("echo")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    const reason = "hung: no output while tools/call timed out, nor for 3 s after server/discover";
    expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({ kind: "hung", reason });
  });
});

describe("a server that does not read", () => {
  it("a server that reads no ping and writes nothing is restarted", async () => {
    const flags = [...QUICK_RESTART, "--request-timeout-ms", String(REQUEST_TIMEOUT_MS), "--hung-timeouts", "1"];
    await using sidecar = await HttpBench.start({ flags });
    const client = await sidecar.client();
    await client.toolText("stop_reading");
    const stuck = await Promise.all([1, 2, 3].map((id) => client.callTool("echo", { padding: "p".repeat(300_000) }, id)));
    for (const { error } of stuck) expect(error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    const reason = "hung: no output while tools/call timed out, and no input read for 3 s";
    expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({ kind: "hung", reason });
  });
});

describe("a blocked server", () => {
  it("a blocked server exits by SIGTERM, and readiness reports it", async () => {
    await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, "--hung-timeouts", "1", "--request-timeout-ms", "500"] });
    const client = await sidecar.client();
    expect((await client.callTool("block")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    expect((await readReadiness(sidecar)).lastExit).toMatchObject({ generation: 1, kind: "hung", exitCode: null, signal: "SIGTERM" });
  });
});

describe("a responsive server", () => {
  it("a call that never returns does not restart the server", async () => {
    await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, "--hung-timeouts", "1", "--request-timeout-ms", "1500"] });
    const client = await sidecar.client();
    const { pid } = await readWhere(client);
    const hanging = { isOver: false };
    const calls = Promise.all([client.callTool("hang"), client.callTool("hang")]).finally(() => (hanging.isOver = true));
    while (!hanging.isOver) await client.toolText("echo", { text: "on" });
    for (const { error } of await calls) expect(error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    expect((await readWhere(client)).pid).toBe(pid);
  });

  it.each(["with a result", "with an error"])("a server that answers pings %s is not restarted", async (how) => {
    await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, "--ping-interval-ms", "400"] });
    const client = await sidecar.client();
    const { pid } = await readWhere(client);
    if (how === "with an error") await client.callTool("refuse", { method: "ping" });
    // Pings are sent while the server is idle. If its responses did not count, it would be restarted by the fifth interval.
    await delay(8 * 400);
    expect(await countSeen(client, "ping")).toBeGreaterThanOrEqual(2);
    expect((await readWhere(client)).pid).toBe(pid);
  });
});
