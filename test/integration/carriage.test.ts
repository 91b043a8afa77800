import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { McpClient } from "../support/mcp-client.ts";
import { Sidecar } from "../support/sidecar.ts";

/** What a JSON parser and writer in the middle would change. */
const JSON_TEXTS = [
  ["an integer over 2^53", "9007199254740993"],
  ["a whole number with a fraction", "1.0"],
  ["a number over the largest double", "1e400"],
  ["more digits than a double has", "0.10000000000000000000000000001"],
  ["an exponent", "-1.50E+2"],
  ["minus zero", "-0"],
  ["an escaped letter", String.raw`"caf\u00e9 caf\u00E9"`],
  ["an escaped slash", String.raw`"a\/b"`],
  ["a lone surrogate", String.raw`"\ud800"`],
  ["an emoji, raw and escaped", String.raw`"😀 \ud83d\ude00"`],
  ["an escaped NUL", String.raw`"a\u0000b"`],
  ["escaped newlines and quotes", String.raw`"a\nb\r\n\"c\" \\"`],
  ["brackets within text", String.raw`"}]\"{[,:"`],
  ["DEL and a no-break space", `"\u007f\u00a0"`],
  ["keys out of order, numeric and empty", `{"b":1,"10":2,"2":3,"a":4,"":5}`],
  ["a repeated key", `{"a":1,"a":2}`],
  ["keys that mean something to JavaScript", `{"__proto__":{"x":1},"constructor":2,"toString":3}`],
  ["keys of the envelope, deeper", `{"id":1,"method":"x","params":{"_meta":{"progressToken":"t"}},"jsonrpc":"1"}`],
  ["white space between tokens", `{ "a" :\t[ 1 ,2,  3 ] }`],
  ["deep nesting", `${"[".repeat(500)}${"]".repeat(500)}`],
] as const;
const SEPARATORS = ["separators that are line ends elsewhere", `"\u2028\u2029\u0085"`] as const;

describe("carriage", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ mode: "newline-only" }));
  const client = await sidecar.client();

  /** The line that the server received for this body, whose id has to be 2, and the id that it has there. */
  async function received(body: string): Promise<{ line: string; wireId: string }> {
    const reply = await client.post(body);
    expect(reply.status).toBe(200);
    const { result } = JSON.parse(reply.body) as { result: { content: readonly { text: string }[] } };
    const line = result.content[0]?.text ?? "";
    return { line, wireId: String((JSON.parse(line) as { id: number }).id) };
  }

  it.each(JSON_TEXTS)("carries %s in arguments as it was sent", async (_what, json) => {
    const before = `{"jsonrpc":"2.0","id":`;
    const after = `,"method":"tools/call","params":{"name":"received","arguments":{"value":${json}}}}`;
    const { line, wireId } = await received(`${before}2${after}`);
    expect(line).toBe(`${before}${wireId}${after}`);
  });

  it("writes U+2028 and U+2029 as escapes to the server", async () => {
    const body = (id: string, [line, paragraph]: readonly [string, string]): string =>
      `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"received","arguments":{"a${line}":"${paragraph}\u0085"}}}`;
    const { line, wireId } = await received(body("2", ["\u2028", "\u2029"]));
    expect(line).toBe(body(wireId, [String.raw`\u2028`, String.raw`\u2029`]));
  });

  it.each([
    ["a name of the envelope", String.raw`"\u0069d":2,"params":{"name":"received"}`, `"id":2,"params":{"name":"received"}`],
    ["a name of params", String.raw`"id":2,"params":{"n\u0061me":"received"}`, `"id":2,"params":{"name":"received"}`],
    [
      "names within arguments",
      String.raw`"id":2,"params":{"name":"received","arguments":{"f\u006frce":{"\/a":[{"\u00e9\uD83D\uDE00":1}]}}}`,
      `"id":2,"params":{"name":"received","arguments":{"force":{"/a":[{"é😀":1}]}}}`,
    ],
  ])("writes %s that is spelled with escapes plainly to the server", async (_what, sent, expected) => {
    const body = (members: string): string => `{"jsonrpc":"2.0","method":"tools/call",${members}}`;
    const { line, wireId } = await received(body(sent));
    expect(line).toBe(body(expected).replace('"id":2', `"id":${wireId}`));
  });

  it("carries names that cannot be spelled without escapes, and values, as they were sent", async () => {
    const json = String.raw`{"i\n":1,"a\"b":2,"\\":3,"\u0000\u0061":4,"\ud800":5,"x":"\u0061\/","y":["\u0062"]}`;
    const body = (id: string): string =>
      `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"received","arguments":${json}}}`;
    const { line, wireId } = await received(body("2"));
    expect(line).toBe(body(wireId));
  });

  it.each([...JSON_TEXTS, SEPARATORS])("carries %s in a result as it was sent", async (_what, json) => {
    const reply = await client.post({
      jsonrpc: "2.0",
      id: 2,
      method: "tools/call",
      params: { name: "raw_result", arguments: { result: json } },
    });
    expect(reply.status).toBe(200);
    expect(reply.body).toBe(`{"jsonrpc":"2.0","id":2,"result":${json}}`);
  });

  it("keeps unknown keys, order and white space of a request's envelope", async () => {
    const body = ` {"x-before" : 1.0, "params":{"arguments":{},"x-a":null ,"name":"received"},\t"method":"tools/call","id" : 2 ,"jsonrpc":"2.0","z":[]} `;
    const { line, wireId } = await received(body);
    expect(line).toBe(body.replace(`"id" : 2 `, `"id" : ${wireId} `));
  });

  it("keeps unknown keys, order and white space of a response's envelope", async () => {
    const line = `{ "result" : {"b":1,"a":1.0},"x-after":9007199254740993 ,"id" :$ID,"jsonrpc":"2.0" }`;
    const reply = await client.post({
      jsonrpc: "2.0",
      id: "my id",
      method: "tools/call",
      params: { name: "raw_line", arguments: { line } },
    });
    expect(reply.body).toBe(line.replace("$ID", `"my id"`));
  });

  it("carries an error response of the server at HTTP 200 as it was sent", async () => {
    const line = String.raw`{"jsonrpc":"2.0","id":$ID,"error":{"message":"no\u0020such","code":-32602,"data":{"big":9007199254740993},"x":1.0}}`;
    const reply = await client.post({ jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "raw_line", arguments: { line } } });
    expect(reply.status).toBe(200);
    expect(reply.body).toBe(line.replace("$ID", "2"));
  });

  it.each(["\n", "\r\n", "\r"])("makes one line of a body broken by %j, and changes nothing else", async (lineEnd) => {
    const body = [
      `{`,
      `\t"jsonrpc": "2.0",`,
      `  "id": 2,`,
      `  "method": "tools/call",`,
      String.raw`  "params": { "name": "received", "arguments": { "text": "a\nb\r\nc", "n": 1.0 } }`,
      `}`,
      ``,
    ].join(lineEnd);
    const { line, wireId } = await received(body);
    expect(line).toBe(body.replaceAll(/[\r\n]/g, " ").replace(`"id": 2,`, `"id": ${wireId},`));
  });

  it.each([`"a token"`, `"\\u00e9\\/"`, `""`, `7`, `9007199254740993`, `1.50`])(
    "replaces the progress token %s, and nothing else that is named so",
    async (token) => {
      const body = (id: string, progressToken: string): string =>
        `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"progressToken":${token},"name":"received","_meta":{"x":1.0,"progressToken": ${progressToken} ,"y":{"progressToken":${token}}},"arguments":{"_meta":{"progressToken":${token}}}}}`;
      const { line, wireId } = await received(body("2", token));
      expect(line).toBe(body(wireId, wireId));
    },
  );

  it.each([`{"x":1}`, `null`, `[]`, `"progressToken"`])("leaves a _meta without a progress token alone: %s", async (meta) => {
    const body = (id: string): string =>
      `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"_meta":${meta},"name":"received","arguments":{}}}`;
    const { line, wireId } = await received(body("2"));
    expect(line).toBe(body(wireId));
  });

  it.each([
    `"abc"`,
    `""`,
    `"2"`,
    String.raw`"\u00e9\/\ud800"`,
    `0`,
    `-0`,
    `2`,
    `2.0`,
    `0.5`,
    `-1.50e-3`,
    `1e400`,
    `9007199254740993`,
    `123456789012345678901234567890`,
  ])("gives the id %s back as it was spelled", async (id) => {
    const reply = await client.post(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`);
    expect(reply.status).toBe(200);
    expect(reply.body).toBe(`{"jsonrpc":"2.0","id":${id},"result":{}}`);
  });

  it("gives the id of initialize back as it was spelled", async () => {
    const params = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`;
    const reply = await new McpClient(sidecar.url).post(`{"jsonrpc":"2.0","id":9007199254740993,"method":"initialize","params":${params}}`);
    expect(reply.status).toBe(200);
    expect(reply.body).toMatch(/^\{"jsonrpc":"2.0","id":9007199254740993,"result":\{"protocolVersion":"2025-11-25",/);
  });

  it("gives each of many concurrent calls with one id in one session its own result", async () => {
    const texts = Array.from({ length: 200 }, (_, index) => `call ${index}`);
    const replies = await Promise.all(texts.map((text) => client.callTool("echo", { text }, 2)));
    expect(replies.map((reply) => reply.result?.content?.[0]?.text)).toEqual(texts);
    expect(new Set(replies.map((reply) => reply.id))).toEqual(new Set([2]));
  });

  it("gives equal ids of different sessions, and of different types, their own results", async () => {
    const clients = await Promise.all(Array.from({ length: 10 }, () => sidecar.client()));
    const calls = clients.flatMap((each, index) => [
      { each, id: 2, text: `${index} by number` },
      { each, id: "2", text: `${index} by text` },
    ]);
    const replies = await Promise.all(calls.map(({ each, id, text }) => each.callTool("echo", { text }, id)));
    expect(replies.map((reply) => [reply.id, reply.result?.content?.[0]?.text])).toEqual(calls.map(({ id, text }) => [id, text]));
  });

  it("passes any method on", async () => {
    const reply = await client.request("x-vendor/anything", { a: 1 }, "abc");
    expect(reply).toMatchObject({ status: 200, id: "abc", result: { method: "x-vendor/anything", params: { a: 1 } } });
  });

  it("passes a request without params on without them", async () => {
    const reply = await client.post(`{"jsonrpc":"2.0","id":2,"method":"x-vendor/plain"}`);
    expect(reply.body).toBe(`{"jsonrpc":"2.0","id":2,"result":{"method":"x-vendor/plain"}}`);
  });

  it("passes a client's notification on as it was sent", async () => {
    const notification = `{ "method":"notifications/x-vendor","params":{"a":1.0,"b":"\\u00e9"}, "jsonrpc":"2.0"}`;
    const reply = await client.post(notification);
    expect([reply.status, reply.body]).toEqual([202, ""]);
    expect(JSON.parse(await client.toolText("notifications"))).toContain(notification);
  });
});
