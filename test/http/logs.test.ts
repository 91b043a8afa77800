import { describe, expect, it } from "vitest";
import { HttpBench } from "../support/http-bench.ts";

const AT_ONCE = ["--restart-backoff-ms", "1", "--restart-max-ms", "1"];

describe("the log", () => {
  it.each(["info", "debug"])("at level %s the log contains neither message contents nor session ids", async (level) => {
    await using sidecar = await HttpBench.start({ flags: [...AT_ONCE, "--log-level", level] });
    const client = await sidecar.client();
    expect(await client.toolText("echo", { text: "PAYLOAD-argument" })).toBe("PAYLOAD-argument");
    await client.callTool("raw_result", { result: '{"content":[{"type":"text","text":"PAYLOAD-result"}]}' }, "PAYLOAD-id");
    await client.request("tools/call", { name: "progress", arguments: {}, _meta: { progressToken: "PAYLOAD-token" } });
    await client.callTool("raw_line", { line: '{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"PAYLOAD-error"}}' });
    expect((await client.post('{"PAYLOAD-invalid":1}')).status).toBe(400);
    expect((await client.post('{"PAYLOAD-broken')).status).toBe(400);
    await client.notify("notifications/message", { data: "PAYLOAD-notification" });
    const cancel = {
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: "PAYLOAD-cancel", reason: "PAYLOAD-reason" },
    };
    const waiting = {
      jsonrpc: "2.0",
      id: "PAYLOAD-cancel",
      method: "tools/call",
      params: { name: "wait_for_file", arguments: { path: "/never" } },
    };
    const cancelled = client.post(waiting);
    await sidecar.waitForLog("waiting for /never");
    await client.post(cancel);
    expect((await cancelled).status).toBe(202);
    expect((await client.callTool("exit", { code: 1, text: "PAYLOAD-crash" })).error?.data?.["code"]).toBe("UPSTREAM_EXITED");
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    await sidecar.stop();
    expect(client.sessionId).not.toBe("");
    expect(sidecar.transcript()).not.toContain(client.sessionId);
    expect(sidecar.transcript()).not.toContain("PAYLOAD");
  });

  it("only the level debug shows dropped notifications", async () => {
    const dropped = "server notification dropped";
    await using debug = await HttpBench.start({ flags: ["--log-level", "debug"] });
    await (await debug.client()).toolText("progress");
    expect(await debug.waitForLog(dropped)).toMatchObject({ level: "debug", method: "notifications/progress" });
    await using info = await HttpBench.start();
    const client = await info.client();
    await client.toolText("progress");
    await client.toolText("stderr", { text: "afterwards" });
    await info.waitForLog("afterwards");
    expect(info.logLines.map(({ msg }) => msg)).not.toContain(dropped);
  });
});
