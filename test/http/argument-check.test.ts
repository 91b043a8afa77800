import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { crashProcess } from "../support/crash.ts";
import { readWhere } from "../support/in-flight.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import type { LaneClient } from "../support/lane-client.ts";
import { LANE_CLIENTS } from "../support/lanes.ts";
import { type ListedTool, ListedTools, WITNESSES } from "../support/listed-tools.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { InteropClient, SDKS } from "../support/sdk-clients.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];
const SEARCH = withSchema("search", {
  type: "object",
  properties: { query: { type: "string", minLength: 1 }, limit: { type: "integer", maximum: 100 } },
  required: ["query"],
  additionalProperties: false,
});

function withSchema(name: string, inputSchema: unknown): ListedTool {
  return { name, inputSchema };
}

function start(mode: "off" | "warn" | "enforce", listed: ListedTools, flags: readonly string[] = QUICK_RESTART): Promise<RunningSidecar> {
  return HttpBench.start({ flags: ["--argument-check", mode, ...flags], env: listed.env });
}

function call(name: string, args: unknown, id: string | number = 2): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } };
}

/** The text of a rejection; undefined for a response of the server. */
function refusalOf({ result }: JsonRpcMessage): string | undefined {
  const { isError, content } = CallToolResultSchema.parse(result);
  return isError === true && content[0]?.type === "text" ? content[0].text : undefined;
}

/** Returns the arguments of each call of this tool that the client's server has received. */
async function receivedArgs(client: McpClient, name: string): Promise<unknown[]> {
  const lines = JSON.parse(await client.toolText("lines")) as string[];
  const messages = lines.map((line) => JSON.parse(line) as { readonly params?: { readonly name?: unknown; readonly arguments?: unknown } });
  return messages.filter(({ params }) => params?.name === name).map(({ params }) => params?.arguments);
}

async function invalidArguments(sidecar: RunningSidecar): Promise<unknown> {
  const { counters } = (await readStatus(sidecar)) as unknown as { counters: { policy: Record<string, unknown> } };
  return counters.policy["invalidArguments"];
}

function linesOf(sidecar: RunningSidecar, message: string): LogLine[] {
  return sidecar.logLines.filter(({ msg }) => msg === message);
}

/** Crashes the client's server; returns when the next generation answers a call. */
async function restart(sidecar: RunningSidecar, client: McpClient): Promise<void> {
  const { pid } = await readWhere(client);
  await crashProcess(sidecar, pid);
  await readWhere(client);
}

describe("the argument check in enforce mode", () => {
  it.each([
    ['{"query":"a","query":"b"}', '"query" occurs twice in one object'],
    ['{"query":"a","Query":"b"}', '"Query" must be spelled "query"'],
  ])("arguments that a server might read differently are rejected: %s", async (args, problem) => {
    await using listed = await ListedTools.create([...WITNESSES, SEARCH]);
    await using sidecar = await start("enforce", listed);
    const client = await sidecar.client();
    const { body } = await client.post(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"search","arguments":${args}}}`);
    expect(refusalOf(JSON.parse(body) as JsonRpcMessage)).toContain(`- ${problem}\n`);
    expect(await receivedArgs(client, "search")).toEqual([]);
  });

  it("arguments that fail one of two tools with the same name are rejected", async () => {
    const other = withSchema("search", { type: "object", properties: { query: { maxLength: 3 } } });
    await using listed = await ListedTools.create([...WITNESSES, SEARCH, other]);
    await using sidecar = await start("enforce", listed);
    const client = await sidecar.client();
    for (const query of ["", "four"]) expect(refusalOf(await client.callTool("search", { query }))).toContain("query");
    expect(refusalOf(await client.callTool("search", { query: "abc" }))).toBeUndefined();
    expect(await receivedArgs(client, "search")).toEqual([{ query: "abc" }]);
  });

  it.each(LANE_CLIENTS)("the rejection lists each wrong field, and the call is not sent ($lane)", async ({ connect }) => {
    await using listed = await ListedTools.create([...WITNESSES, SEARCH]);
    await using sidecar = await start("enforce", listed);
    const client: LaneClient = await connect(sidecar);
    const reply = await client.callTool("search", { limit: 500, querry: "secret words" }, "id-1");
    expect([reply.status, reply.id]).toEqual([200, "id-1"]);
    expect(refusalOf(reply)).toBe(
      [
        'INVALID_ARGS: the arguments do not match the input schema of the tool "search". The call was not sent to the server.',
        "- `query` is required (a string)",
        '- `querry` is unknown; known names: "query", "limit"',
        "- `limit` must be <= 100",
        "Correct the arguments and call the tool again.",
      ].join("\n"),
    );
    expect(await receivedArgs(client, "search")).toEqual([]);
    expect(await invalidArguments(sidecar)).toBe(1);
    expect(sidecar.transcript()).not.toContain("secret words");
  });

  it.each(LANE_CLIENTS)("valid arguments are forwarded as they were written ($lane)", async ({ connect }) => {
    await using listed = await ListedTools.create([
      ...WITNESSES,
      withSchema("sum", { properties: { n: { type: "number" }, d: { default: 1 } } }),
    ]);
    await using sidecar = await start("enforce", listed);
    const client: LaneClient = await connect(sidecar);
    const args = '{ "n":1.50,"big":9007199254740993, "t":"\\u00e9" }';
    await client.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sum","arguments":${args}}}`);
    expect((await client.lines()).some((line) => line.includes(args))).toBe(true);
    expect(await invalidArguments(sidecar)).toBe(0);
  });

  it.each(SDKS)("the official client gets the rejection as a tool result (%s)", async (sdk) => {
    await using listed = await ListedTools.create([...WITNESSES, SEARCH]);
    await using sidecar = await start("enforce", listed);
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane: "shared" });
    const refused = await client.callTool("search", { query: 5 });
    expect(refused.isError).toBe(true);
    expect(refused.content[0]?.text).toContain("`query` must be a string, not a number");
    const accepted = await client.callTool("search", { query: "x" });
    expect([accepted.isError ?? false, accepted.content[0]?.text]).toEqual([false, '{"query":"x"}']);
  });

  it("missing arguments, and arguments that are not an object, are rejected", async () => {
    await using listed = await ListedTools.create([...WITNESSES, SEARCH]);
    await using sidecar = await start("enforce", listed);
    const client = await sidecar.client();
    for (const args of [[], "x", null, 5])
      expect(refusalOf(await client.request("tools/call", { name: "search", arguments: args }))).toContain("must be an object");
    expect(refusalOf(await client.request("tools/call", { name: "search" }))).toContain("`query` is required");
    expect(await receivedArgs(client, "search")).toEqual([]);
  });

  it("the calls of a batch are checked one by one", async () => {
    await using listed = await ListedTools.create([...WITNESSES, SEARCH]);
    await using sidecar = await start("enforce", listed);
    const client = await sidecar.client({ protocolVersion: "2025-03-26" });
    const { body } = await client.post([
      call("search", {}, "wrong"),
      call("search", { query: "x" }, "right"),
      call("search", { query: 1 }, "wrong too"),
    ]);
    const replies = new Map((JSON.parse(body) as JsonRpcMessage[]).map((reply) => [reply.id, refusalOf(reply)]));
    expect(replies.get("wrong")).toContain("`query` is required");
    expect(replies.get("wrong too")).toContain("`query` must be a string");
    expect(replies.get("right")).toBeUndefined();
    expect(await receivedArgs(client, "search")).toEqual([{ query: "x" }]);
  });

  it("a held call is checked before it is sent", async () => {
    await using listed = await ListedTools.create([...WITNESSES, SEARCH]);
    await using sidecar = await start("enforce", listed, ["--restart-backoff-ms", "300"]);
    const client = await sidecar.client();
    await crashProcess(sidecar, sidecar.childPid);
    const [wrong, right] = await Promise.all([client.callTool("search", { query: 1 }, 3), client.callTool("search", { query: "x" }, 4)]);
    expect(refusalOf(wrong)).toContain("`query` must be a string");
    expect(refusalOf(right)).toBeUndefined();
    expect(await receivedArgs(client, "search")).toEqual([{ query: "x" }]);
  });
});

describe("the argument check in warn mode", () => {
  it.each(LANE_CLIENTS)("wrong arguments are forwarded and logged ($lane)", async ({ connect }) => {
    await using listed = await ListedTools.create([...WITNESSES, SEARCH]);
    await using sidecar = await start("warn", listed);
    const client: LaneClient = await connect(sidecar);
    const args = { limit: 500, querry: "secret words" };
    expect(JSON.parse(await client.toolText("search", args))).toEqual(args);
    const line = await sidecar.waitForLog("arguments violate the schema");
    expect(line).toMatchObject({ level: "warn", tool: "search", count: 3, reason: "`query` is required (a string)" });
    expect(await receivedArgs(client, "search")).toEqual([args]);
    expect(await invalidArguments(sidecar)).toBe(1);
    expect(sidecar.transcript()).not.toContain("secret words");
  });
});

describe("a disabled argument check", () => {
  it("wrong arguments are forwarded and not logged", async () => {
    await using listed = await ListedTools.create([...WITNESSES, SEARCH]);
    await using sidecar = await start("off", listed);
    const client = await sidecar.client();
    expect(await client.toolText("search", { limit: "x" })).toBe('{"limit":"x"}');
    expect(await invalidArguments(sidecar)).toBe(0);
    expect(linesOf(sidecar, "arguments violate the schema")).toEqual([]);
  });
});

describe("an input schema", () => {
  it("an unusable schema is logged once, and calls of its tool are forwarded", async () => {
    await using listed = await ListedTools.create([
      ...WITNESSES,
      withSchema("broken", { type: "objekt" }),
      withSchema("remote", { $ref: "https://127.0.0.1:1/x" }),
    ]);
    await using sidecar = await start("enforce", listed);
    const client = await sidecar.client();
    for (const name of ["broken", "broken", "remote"]) expect(await client.toolText(name, { a: 1 })).toBe('{"a":1}');
    await restart(sidecar, client);
    for (const name of ["remote", "broken"]) expect(await client.toolText(name, { a: 1 })).toBe('{"a":1}');
    await sidecar.stop();
    const skipped = linesOf(sidecar, "argument schema skipped");
    expect(skipped.map(({ tool }) => tool)).toEqual(["broken", "remote"]);
    expect(skipped[0]).toMatchObject({ level: "warn", reason: expect.stringContaining("it is not a JSON Schema") as string });
  });

  it("a schema is read as 2020-12 if it names that dialect or none", async () => {
    const schema = {
      properties: { pair: { prefixItems: [{ type: "string" }, { type: "integer" }], items: false } },
      dependentRequired: { card: ["address"] },
      allOf: [{ properties: { card: { type: "string" } } }, { properties: { address: { type: "string" } } }],
      unevaluatedProperties: false,
    };
    const named = { ...schema, $schema: "https://json-schema.org/draft/2020-12/schema" };
    await using listed = await ListedTools.create([...WITNESSES, withSchema("plain", schema), withSchema("named", named)]);
    await using sidecar = await start("enforce", listed);
    const client = await sidecar.client();
    for (const name of ["plain", "named"]) {
      const text = refusalOf(await client.callTool(name, { pair: [1, 2, 3], card: "x", other: 1 }));
      expect(
        text
          ?.split("\n")
          .filter((line) => line.startsWith("- "))
          .toSorted(),
      ).toEqual([
        "- `address` is required if `card` is given",
        "- `other` is unknown",
        "- `pair[0]` must be a string, not a number",
        "- `pair` must have at most 2 items",
      ]);
      expect(refusalOf(await client.callTool(name, { pair: ["x", 2], card: "x", address: "y" }))).toBeUndefined();
    }
    expect(linesOf(sidecar, "argument schema skipped")).toEqual([]);
  });

  it("a schema may use draft-07", async () => {
    const schema = {
      $schema: "http://json-schema.org/draft-07/schema#",
      definitions: { text: { type: "string" } },
      properties: { pair: { items: [{ $ref: "#/definitions/text" }, { type: "integer" }], additionalItems: false } },
      dependencies: { card: ["address"], both: { required: ["pair"] } },
    };
    await using listed = await ListedTools.create([...WITNESSES, withSchema("old", schema)]);
    await using sidecar = await start("enforce", listed);
    const client = await sidecar.client();
    const text = refusalOf(await client.callTool("old", { pair: [1, 2, 3], card: "x" }));
    for (const part of ["`address` is required if `card` is given", "`pair` must have at most 2 items", "`pair[0]` must be a string"])
      expect(text).toContain(part);
    expect(refusalOf(await client.callTool("old", { both: 1 }))).toContain("`pair` is required");
    expect(refusalOf(await client.callTool("old", { pair: ["x", 2], card: "x", address: 1, both: 1 }))).toBeUndefined();
  });

  it.each(LANE_CLIENTS)("arguments are checked against the schema of the current generation ($lane)", async ({ connect }) => {
    const takes = (type: string): ListedTool => withSchema("store", { properties: { value: { type } } });
    await using listed = await ListedTools.create([...WITNESSES, takes("string")]);
    await using sidecar = await start("enforce", listed);
    const client: LaneClient = await connect(sidecar);
    expect(refusalOf(await client.callTool("store", { value: "x" }))).toBeUndefined();
    expect(refusalOf(await client.callTool("store", { value: 1 }))).toContain("must be a string");
    await listed.list([...WITNESSES, takes("integer")]);
    await restart(sidecar, client);
    expect(refusalOf(await client.callTool("store", { value: 1 }))).toBeUndefined();
    expect(refusalOf(await client.callTool("store", { value: "x" }))).toContain("must be an integer");
  });
});
