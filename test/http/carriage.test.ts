import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { McpClient, toolCall } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";

/** Texts that a parser and writer of JSON would change. */
const JSON_TEXTS = [
  ["numbers", "[9007199254740993,1.0,1e400,0.10000000000000000000000000001,-1.50E+2,-0]"],
  ["escapes", String.raw`["caf\u00e9 caf\u00E9","a\/b","\ud800","😀 \ud83d\ude00","a\u0000b","a\nb\r\n\"c\" \\","}]\"{[,:"]`],
  ["DEL and a no-break space", `"\u007f\u00a0"`],
  ["keys out of order, numeric, empty and repeated", `{"b":1,"10":2,"2":3,"a":4,"a":5,"":6}`],
  ["keys with a meaning in JavaScript", `{"__proto__":{"x":1},"constructor":2,"toString":3}`],
  ["keys of the envelope at a deeper level", `{"id":1,"method":"x","params":{"_meta":{"progressToken":"t"}},"jsonrpc":"1"}`],
  ["white space between tokens", `{ "a" :\t[ 1 ,2,  3 ] }`],
  ["deep nesting", `${"[".repeat(500)}${"]".repeat(500)}`],
] as const;
const SEPARATORS = ["separators that are line ends elsewhere", `"\u2028\u2029\u0085"`] as const;

const sidecar = disposeAfterAll(await HttpBench.start({ mode: "newline-only" }));
const client = await sidecar.client();

/** Returns the line that the server received for this body, and the id in it. The id of the body must be 2. */
async function received(body: string): Promise<{ line: string; wireId: string }> {
  const reply = await client.post(body);
  expect(reply.status).toBe(200);
  const { result } = JSON.parse(reply.body) as { result: { content: readonly { text: string }[] } };
  const line = result.content[0]?.text ?? "";
  return { line, wireId: String((JSON.parse(line) as { id: number }).id) };
}

it.each(JSON_TEXTS)("arguments with %s are forwarded as they were sent", async (_what, json) => {
  const before = `{"jsonrpc":"2.0","id":`;
  const after = `,"method":"tools/call","params":{"name":"received","arguments":{"value":${json}}}}`;
  const { line, wireId } = await received(`${before}2${after}`);
  expect(line).toBe(`${before}${wireId}${after}`);
});

it("U+2028 and U+2029 reach the server as escapes", async () => {
  const body = (id: string, [line, paragraph]: readonly [string, string]): string =>
    `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"received","arguments":{"a${line}":"${paragraph}\u0085"}}}`;
  const { line, wireId } = await received(body("2", ["\u2028", "\u2029"]));
  expect(line).toBe(body(wireId, [String.raw`\u2028`, String.raw`\u2029`]));
});

it.each([
  ["in the envelope", String.raw`"\u0069d":2,"params":{"name":"received"}`, `"id":2,"params":{"name":"received"}`],
  ["in params", String.raw`"id":2,"params":{"n\u0061me":"received"}`, `"id":2,"params":{"name":"received"}`],
  [
    "in arguments",
    String.raw`"id":2,"params":{"name":"received","arguments":{"f\u006frce":{"\/a":[{"\u00e9\uD83D\uDE00":1}]}}}`,
    `"id":2,"params":{"name":"received","arguments":{"force":{"/a":[{"é😀":1}]}}}`,
  ],
])("an escaped name %s reaches the server without escapes", async (_what, sent, expected) => {
  const body = (members: string): string => `{"jsonrpc":"2.0","method":"tools/call",${members}}`;
  const { line, wireId } = await received(body(sent));
  expect(line).toBe(body(expected).replace('"id":2', `"id":${wireId}`));
});

it.each([...JSON_TEXTS, SEPARATORS])("a result with %s is forwarded unchanged", async (_what, json) => {
  const reply = await client.post(toolCall("raw_result", { result: `{"x":${json}}` }));
  expect(reply.status).toBe(200);
  expect(reply.body).toBe(`{"jsonrpc":"2.0","id":2,"result":{"x":${json}}}`);
});

it("a request keeps the unknown keys of its params, order and white space", async () => {
  const body = ` { "params":{"arguments":{},"x-a":null ,"name":"received"},\t"method":"tools/call","id" : 2 ,"jsonrpc":"2.0"} `;
  const { line, wireId } = await received(body);
  expect(line).toBe(body.replace(`"id" : 2 `, `"id" : ${wireId} `));
});

it.each(["\n", "\r\n", "\r"])("a body with the line ends %j becomes one line without other changes", async (lineEnd) => {
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

it.each([`"a token"`, `"\\u00e9\\/"`, `""`, `7`, `9007199254740993`, `1.50e1`])(
  "the progress token %s is replaced, and other members of that name are not",
  async (token) => {
    const body = (id: string, progressToken: string): string =>
      `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"progressToken":${token},"name":"received","_meta":{"x":1.0,"progressToken": ${progressToken} ,"y":{"progressToken":${token}}},"arguments":{"_meta":{"progressToken":${token}}}}}`;
    const { line, wireId } = await received(body("2", token));
    expect(line).toBe(body(wireId, wireId));
  },
);

it.each(['""', '"2"', String.raw`"\u00e9\/\ud800"`, "-0", "2.0", "50e-1", "-1.50e+3", "1e400", "123456789012345678901234567890"])(
  "a response has the id %s with its spelling unchanged",
  async (id) => {
    expect((await client.post(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`)).body).toBe(`{"jsonrpc":"2.0","id":${id},"result":{}}`);
  },
);

it("the response to initialize has the id with its spelling unchanged", async () => {
  const params = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`;
  const reply = await new McpClient(sidecar.url).post(`{"jsonrpc":"2.0","id":9007199254740993,"method":"initialize","params":${params}}`);
  expect(reply.status).toBe(200);
  expect(reply.body).toMatch(/^\{"jsonrpc":"2.0","id":9007199254740993,"result":\{"protocolVersion":"2025-11-25",/);
});

it("a request without params is forwarded without params", async () => {
  const reply = await client.post(`{"jsonrpc":"2.0","id":2,"method":"x-vendor/plain"}`);
  expect(reply.body).toBe(`{"jsonrpc":"2.0","id":2,"result":{"method":"x-vendor/plain"}}`);
});

it("a client's notification is forwarded unchanged", async () => {
  const notification = `{ "method":"notifications/x-vendor","params":{"a":1.0,"b":"\\u00e9"}, "jsonrpc":"2.0"}`;
  const reply = await client.post(notification);
  expect([reply.status, reply.body]).toEqual([202, ""]);
  expect(JSON.parse(await client.toolText("notifications"))).toContain(notification);
});
