import { describe, expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import { waitForSeen } from "../support/in-flight.ts";
import { LANE_CLIENTS } from "../support/lanes.ts";
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
});
