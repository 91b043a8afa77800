import { describe, expect, it } from "vitest";
import { QUICK_RESTART, timeoutFlags } from "../support/fixture-server.ts";
import { LANES, useLane } from "../support/lane-client.ts";
import { readReadiness } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";

const REQUEST_TIMEOUT_MS = 3000;

describe.concurrent.each(LANES)("an unresponsive %s server", (kind) => {
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
});

describe.concurrent("a server without sessions", () => {
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

describe.concurrent("a server that does not read", () => {
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

describe.concurrent("a blocked server", () => {
  it("a blocked server exits by SIGTERM, and readiness reports it", async () => {
    await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, "--hung-timeouts", "1", ...timeoutFlags(1000)] });
    const client = await sidecar.client();
    expect((await client.callTool("block")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    expect((await readReadiness(sidecar)).lastExit).toMatchObject({ generation: 1, kind: "hung", exitCode: null, signal: "SIGTERM" });
  });
});
