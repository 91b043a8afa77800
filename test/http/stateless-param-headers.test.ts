import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { HEADER_MISMATCH, failureOf } from "../support/error-reply.ts";
import { readSeen } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { type ListedTool, ListedTools } from "../support/listed-tools.ts";
import { type ModernCall, type ModernClient, headerValue } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";

type Headers = Readonly<Record<string, string>>;

function base64(text: string): string {
  return `=?base64?${Buffer.from(text).toString("base64")}?=`;
}

/** Returns a tool whose argument `argument` is repeated in the header `Mcp-Param-Where`. */
function tool(name: string, argument: string): ListedTool {
  return { name, inputSchema: { type: "object", properties: { [argument]: { type: "string", "x-mcp-header": "Where" } } } };
}

/** Calls a tool that returns its arguments. @returns the status, and the arguments as the server got them. */
async function call(client: ModernClient, name: string, args: object, headers: ModernCall["headers"] = {}): Promise<readonly unknown[]> {
  const reply = await client.callTool(name, args, { headers });
  return reply.error === undefined ? [reply.status, JSON.parse(reply.result?.content?.[0]?.text ?? "")] : failureOf(reply);
}

describe("headers that repeat arguments", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();

  it.each<[what: string, args: object, headers: Headers]>([
    ["a text", { region: "eu west" }, { "Mcp-Param-Region": "eu west" }],
    ["a text in base64 form", { region: "größe" }, { "Mcp-Param-Region": headerValue("größe") }],
    ["an empty text", { region: "" }, { "Mcp-Param-Region": "" }],
    ["an integer", { count: 5 }, { "Mcp-Param-Count": "5" }],
    ["an integer with a fraction of zero", { count: 5 }, { "Mcp-Param-Count": "5.0" }],
    ["a negative integer", { count: -7 }, { "Mcp-Param-Count": "-7" }],
    ["an integer in base64 form", { count: 5 }, { "Mcp-Param-Count": base64("5") }],
    ["a boolean", { urgent: false }, { "Mcp-Param-Urgent": "false" }],
    ["a nested argument", { options: { tier: "gold" } }, { "Mcp-Param-Tier": "gold" }],
    ["several arguments", { region: "eu", count: 1 }, { "Mcp-Param-Region": "eu", "Mcp-Param-Count": "1" }],
    ["an absent argument", {}, {}],
    ["an argument that is null", { region: null, options: null }, {}],
    ["an argument without a header", { other: "x" }, {}],
    ["a header of no argument", { other: "x" }, { "Mcp-Param-Unknown": "y" }],
  ])("%s is accepted", async (_what, args, headers) => {
    expect(await call(client, "with_headers", args, headers)).toEqual([200, args]);
  });

  it.each<[what: string, args: object, headers: Headers]>([
    ["a missing header", { region: "eu" }, {}],
    ["a missing header of a false boolean", { urgent: false }, {}],
    ["a missing header of zero", { count: 0 }, {}],
    ["a missing header of a nested argument", { options: { tier: "gold" } }, {}],
    ["a missing header of one of two arguments", { region: "eu", count: 1 }, { "Mcp-Param-Region": "eu" }],
    ["another text", { region: "eu" }, { "Mcp-Param-Region": "us" }],
    ["a text in another case", { region: "eu" }, { "Mcp-Param-Region": "EU" }],
    ["another integer", { count: 5 }, { "Mcp-Param-Count": "6" }],
    ["an integer with a sign", { count: 5 }, { "Mcp-Param-Count": "+5" }],
    ["a hexadecimal integer", { count: 5 }, { "Mcp-Param-Count": "0x5" }],
    ["an empty integer", { count: 0 }, { "Mcp-Param-Count": "" }],
    ["a boolean in another case", { urgent: true }, { "Mcp-Param-Urgent": "True" }],
  ])("%s is rejected", async (_what, args, headers) => {
    expect(await call(client, "with_headers", args, headers)).toEqual(HEADER_MISMATCH);
  });

  it("the call of an unknown tool is not checked", async () => {
    expect((await client.callTool("unknown", { region: "eu" })).status).toBe(200);
  });

  it("a rejected call is not sent", async () => {
    const control = await LaneClient.connectShared(sidecar);
    await call(client, "with_headers", { region: "x-not-sent" });
    expect(await control.toolText("lines")).not.toContain("x-not-sent");
  });

  it("a session's call needs no such header", async () => {
    const session = await sidecar.client();
    expect(await session.toolText("with_headers", { region: "eu" })).toBe('{"region":"eu"}');
  });
});

async function lists(control: LaneClient): Promise<number> {
  return (await readSeen(control)).filter((method) => method === "tools/list").length;
}

describe("the list of tools behind these headers", () => {
  const WHERE = { "Mcp-Param-Where": "here" };

  it("all pages count, and one list serves many calls", async () => {
    await using tools = await ListedTools.create([tool("first", "a")], [tool("second", "b")]);
    await using sidecar = await HttpBench.start({ env: tools.env });
    const [client, control] = [sidecar.modernClient(), await LaneClient.connectShared(sidecar)];
    expect(await call(client, "second", { b: "here" }, WHERE)).toEqual([200, { b: "here" }]);
    const before = await lists(control);
    for (let round = 0; round < 3; round++) expect(await call(client, "first", { a: "here" }, WHERE)).toEqual([200, { a: "here" }]);
    expect([before, await lists(control)]).toEqual([2, 2]);
  });

  it("calls at the same time share the first list", async () => {
    await using tools = await ListedTools.create([tool("first", "a")]);
    await using sidecar = await HttpBench.start({ env: tools.env });
    const [client, control] = [sidecar.modernClient(), await LaneClient.connectShared(sidecar)];
    const calls = Array.from({ length: 5 }, () => call(client, "first", { a: "here" }, WHERE));
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 5 }, () => [200, { a: "here" }]));
    expect(await lists(control)).toBe(1);
  });

  it("the tools are listed again after their change", async () => {
    await using tools = await ListedTools.create([tool("moving", "a")]);
    await using sidecar = await HttpBench.start({ env: tools.env });
    const [client, control] = [sidecar.modernClient(), await LaneClient.connectShared(sidecar)];
    expect(await call(client, "moving", { b: "there" })).toEqual([200, { b: "there" }]);
    await tools.list([tool("moving", "b")]);
    await control.write({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
    // The list of before would accept this call.
    await control.toolText("seen");
    expect(await call(client, "moving", { b: "there" })).toEqual(HEADER_MISMATCH);
    expect(await call(client, "moving", { b: "here" }, WHERE)).toEqual([200, { b: "here" }]);
  });

  it("the tools are listed once more before a rejection", async () => {
    await using tools = await ListedTools.create([tool("moving", "a")]);
    await using sidecar = await HttpBench.start({ env: tools.env });
    const [client, control] = [sidecar.modernClient(), await LaneClient.connectShared(sidecar)];
    expect(await call(client, "moving", { a: "here" }, WHERE)).toEqual([200, { a: "here" }]);
    expect(await lists(control)).toBe(1);
    // Between two lists, there is a pause.
    while ((await lists(control)) < 2) expect(await call(client, "moving", { a: "here" })).toEqual(HEADER_MISMATCH);
    // The server changes its tools without a notification.
    await tools.list([tool("moving", "b")]);
    while ((await lists(control)) < 3) await call(client, "moving", { a: "here" });
    expect(await call(client, "moving", { a: "here" })).toEqual([200, { a: "here" }]);
  });

  it("a restarted server lists its tools again", async () => {
    await using tools = await ListedTools.create([tool("moving", "a")]);
    await using sidecar = await HttpBench.start({ env: tools.env, flags: ["--restart-backoff-ms", "1"] });
    const client = sidecar.modernClient();
    expect(await call(client, "moving", { b: "there" })).toEqual([200, { b: "there" }]);
    await tools.list([tool("moving", "b")]);
    await client.callTool("exit");
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    expect(await call(client, "moving", { b: "there" })).toEqual(HEADER_MISMATCH);
  });

  it("a call is sent unchecked within its time if the server does not answer tools/list", async () => {
    await using tools = await ListedTools.create();
    await tools.fallSilent();
    await using sidecar = await HttpBench.start({ env: tools.env, flags: ["--request-timeout-ms", "8000"] });
    expect(await call(sidecar.modernClient(), "with_headers", { region: "eu" })).toEqual([200, { region: "eu" }]);
  });

  it("a call is sent unchecked if the server rejects tools/list", async () => {
    await using tools = await ListedTools.create();
    await tools.refuse();
    await using sidecar = await HttpBench.start({ env: tools.env });
    expect(await call(sidecar.modernClient(), "with_headers", { region: "eu" })).toEqual([200, { region: "eu" }]);
  });
});
