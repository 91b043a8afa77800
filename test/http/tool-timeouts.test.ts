import { describe, expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import { waitForHanging, waitForSeen } from "../support/in-flight.ts";
import { readMessages } from "../support/json-rpc.ts";
import { LANE_CLIENTS } from "../support/lanes.ts";
import { waitForGeneration } from "../support/readiness.ts";
import { HttpBench } from "../support/http-bench.ts";

const HANG = { jsonrpc: "2.0", id: 5, method: "tools/call", params: { name: "hang", arguments: {} } };

describe.each(LANE_CLIENTS)("a tool timeout of a $lane server", ({ connect }) => {
  it("a call times out before REQUEST_TIMEOUT_MS with its limit, and is cancelled", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--tool-timeouts-ms", "ha*=200,*=10000"] });
    const client = await connect(sidecar);
    const reply = await client.post(HANG);
    const data = { sent: true, retrySafe: false, timeoutMs: 200 };
    expect(readError(reply)).toStrictEqual(errorReply(200, -32001, "REQUEST_TIMEOUT", { id: 5, data }));
    expect(reply.body).toContain("The MCP server did not answer tools/call of hang within 0.2 s (CLAW_MCP_STDIO_TOOL_TIMEOUTS_MS).");
    expect(await sidecar.waitForLog("request given up")).toMatchObject({ tool: "hang", setting: "TOOL_TIMEOUTS_MS" });
    const [wireId] = JSON.parse(await client.toolText("hanging")) as number[];
    await waitForSeen(client, `notifications/cancelled ${wireId}`);
  });

  it("a limit above REQUEST_TIMEOUT_MS applies to its tool only", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--tool-timeouts-ms", "hang=20000", "--request-timeout-ms", "1000"] });
    const client = await connect(sidecar);
    const hanging = client.callTool("hang");
    await waitForHanging(client, 1);
    const other = await client.callTool("wait_for_file", { path: "/no such file" });
    expect(other.error?.data).toMatchObject({ code: "REQUEST_TIMEOUT", timeoutMs: 1000 });
    await client.toolText("release");
    expect((await hanging).result).toBeDefined();
  });
});

describe("a tool timeout", () => {
  it("progress extends the limit by the tool's own time", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--tool-timeouts-ms", "slow_progress=1000"] });
    const client = await sidecar.client();
    const params = { name: "slow_progress", arguments: { steps: 15, intervalMs: 100 }, _meta: { progressToken: "mine" } };
    const messages = readMessages(await client.post({ jsonrpc: "2.0", id: 5, method: "tools/call", params }));
    expect(messages).toHaveLength(16);
    expect(messages.at(-1)).toMatchObject({ id: 5, result: { content: [{ text: "done" }] } });
  });

  it("an unresponsive server times out its calls early, and is restarted after REQUEST_TIMEOUT_MS", async () => {
    const flags = ["--tool-timeouts-ms", "block=100", "--request-timeout-ms", "1000", "--hung-timeouts", "1"];
    await using sidecar = await HttpBench.start({ flags: [...flags, "--restart-backoff-ms", "1", "--restart-max-ms", "20"] });
    const client = await sidecar.client();
    const codes: unknown[] = [];
    const hasExited = (): boolean => sidecar.logLines.some(({ msg }) => msg === "mcp server exited");
    while (!hasExited()) codes.push((await client.callTool("block")).error?.data?.["code"]);
    // The first call blocks the server. Of the second of silence, each later call takes a tenth.
    expect(codes.filter((code) => code === "REQUEST_TIMEOUT").length).toBeGreaterThanOrEqual(5);
    expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({ kind: "hung" });
    await waitForGeneration(sidecar, 2);
    expect(await client.toolText("echo", { text: "again" })).toBe("again");
  });
});
