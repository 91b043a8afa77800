import { describe, expect, it } from "vitest";
import { failureOf } from "../support/error-reply.ts";
import { send } from "../support/http-client.ts";
import { readSeen } from "../support/fixture-server.ts";
import { readResponse, resultText } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { type ListedTool, listedTool, ListedTools } from "../support/listed-tools.ts";
import { META, type ModernClient } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const TOOL_NOT_FOUND = [200, -32602, "TOOL_NOT_FOUND"];

async function listedNames(client: ModernClient): Promise<unknown[]> {
  const { result } = await client.request("tools/list");
  return ((result?.["tools"] ?? []) as readonly ListedTool[]).map(({ name }) => name);
}

describe("hidden tools for clients without a session", () => {
  it("a hidden tool is neither listed nor called, as an unknown one", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--allow-tools", "echo,seen,lines"] });
    const client = sidecar.modernClient();
    expect(await listedNames(client)).toEqual(["lines", "echo", "seen"]);
    const [hidden, unknown] = [await client.callTool("where", { text: "x-hidden" }), await client.callTool("there", { text: "x-hidden" })];
    expect([failureOf(hidden), failureOf(unknown)]).toEqual([TOOL_NOT_FOUND, TOOL_NOT_FOUND]);
    expect(hidden.error?.message.replace("where", "there")).toBe(unknown.error?.message);
    expect(await client.toolText("lines")).not.toContain("x-hidden");
    expect(await client.toolText("echo", { text: "hi" })).toBe("hi");
  });

  it("the headers of a hidden tool's arguments are not checked", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--deny-tools", "with_headers"] });
    const reply = await sidecar.modernClient().callTool("with_headers", { region: "eu" });
    expect(failureOf(reply)).toEqual(TOOL_NOT_FOUND);
  });
});

describe("the argument check for clients without a session", () => {
  it("a call with invalid arguments gets a complete result with the problem", async () => {
    const schema = { type: "object", properties: { query: { type: "string" } }, required: ["query"] };
    await using tools = await ListedTools.create([{ name: "search", inputSchema: schema }, listedTool("lines")]);
    await using sidecar = await HttpBench.start({ env: tools.env, flags: ["--argument-check", "enforce"] });
    const client = sidecar.modernClient();
    const { status, result } = await client.callTool("search", { query: 7, mark: "x-invalid" });
    expect([status, result]).toMatchObject([200, { isError: true, resultType: "complete" }]);
    expect(result?.["_meta"]).toEqual({ [META.serverInfo]: { name: "fixture", version: "1.0.0" } });
    expect(result?.content?.[0]?.text).toContain("query");
    expect(await client.toolText("lines")).not.toContain("x-invalid");
    expect(await client.toolText("search", { query: "ok" })).toBe('{"query":"ok"}');
  });
});

describe("MAX_RESULT_BYTES for clients without a session", () => {
  it("a long result is truncated, and gets the members of its revision", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-result-bytes", "16384", "--stream-after-ms", "1"] });
    const { headers, body } = sidecar.modernClient().compose("tools/call", { name: "big", arguments: { length: 50_000 } });
    const reply = await send(sidecar.url, { headers, body });
    expect(Buffer.byteLength(reply.body)).toBeLessThanOrEqual(16_384);
    const response = readResponse(reply);
    expect(resultText(response)).toMatch(/^x{10000,}\n\[truncated: /);
    expect(response.result).toMatchObject({ resultType: "complete", _meta: { [META.serverInfo]: { name: "fixture" } } });
  });
});

describe("the limits of tools for clients without a session", () => {
  it("a tool's concurrency covers sessions and clients without one", async () => {
    await using sidecar = await HttpBench.start({
      flags: ["--child-era", "legacy", "--tool-concurrency", "hang=1", "--hold-timeout-ms", "200"],
    });
    const control = await LaneClient.connectShared(sidecar);
    const held = control.callTool("hang");
    while ((JSON.parse(await control.toolText("hanging")) as unknown[]).length === 0);
    const reply = await sidecar.modernClient().callTool("hang");
    expect([...failureOf(reply), reply.headers["retry-after"]]).toEqual([503, -32603, "OVERLOADED", "1"]);
    await control.toolText("release");
    expect((await held).status).toBe(200);
    expect((await readSeen(control)).filter((method) => method.startsWith("notifications/cancelled"))).toEqual([]);
  });
});
