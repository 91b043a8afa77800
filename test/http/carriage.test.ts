import * as fc from "fast-check";
import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { say } from "../support/held-call.ts";
import { messageTexts } from "../support/json-rpc.ts";
import { JSON_HEADERS, McpClient, toolCall } from "../support/mcp-client.ts";
import { headBytes, RawConnection } from "../support/raw-connection.ts";
import { eventIdAt } from "../support/status.ts";
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
  ["fields of an event stream", String.raw`["c\rd\u000ae","\n\ndata: x\nid: 1\nevent: end\n: comment"," \uFEFF x"]`],
] as const;
const SEPARATORS = ["separators that are line ends elsewhere", `"\u2028\u2029\u0085"`] as const;

const IN_STREAM = `[${[...JSON_TEXTS, SEPARATORS].map(([, json]) => json).join()}]`;
const FIVE_MB = 5_000_000;

// This server splits its input at newlines only.
const sidecar = disposeAfterAll(await HttpBench.start({ mode: "newline-only", flags: ["--max-body-bytes", "40000000"] }));
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

async function answered(lines: readonly string[]): Promise<string[]> {
  return messageTexts(await client.post(toolCall("raw_line", { line: lines.join("\n") }, "my id", { progressToken: "t" })));
}

it("the client gets each text as the server sent it, in progress and response", async () => {
  const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":${IN_STREAM},"progressToken":$ID,"progress":1}}`;
  const response = `{"jsonrpc":"2.0","result":{"x":${IN_STREAM}} ,"id": $ID}`;
  expect(await answered([progress, response])).toEqual([progress.replace("$ID", `"t"`), response.replace("$ID", `"my id"`)]);
});

it("a GET stream forwards each text as the server sent it", async () => {
  const own = await sidecar.client();
  using stream = await own.openStream();
  const line = `{ "jsonrpc":"2.0" ,"method":"notifications/tools/list_changed","params":{"x":${IN_STREAM}}}`;
  await say(client, line);
  expect(await stream.nextText()).toBe(line);
  using again = await own.openStream({ lastEventId: await eventIdAt(sidecar, "s1-0") });
  expect(await again.nextText()).toBe(line);
});

// An event stream takes a carriage return for the end of a line.
it("a carriage return between tokens becomes a space, and nothing else changes", async () => {
  const progress = `{"jsonrpc":"2.0",\r"method":"notifications/progress",\r\r"params":{"progressToken":$ID,"message":"a\\rb","progress":1}}\r`;
  const response = `{"jsonrpc":"2.0","id":$ID,\r"result":{"text":"\\r"}}\r`;
  const [first, last] = await answered([progress, response]);
  expect(first?.trimEnd()).toBe(progress.trimEnd().replaceAll("\r", " ").replace("$ID", `"t"`));
  expect(last?.trimEnd()).toBe(response.trimEnd().replaceAll("\r", " ").replace("$ID", `"my id"`));
});

it("a message above the limit for slow readers is forwarded, and so are later ones", async () => {
  await using roomy = await HttpBench.start({ flags: ["--max-body-bytes", "100000000"] });
  const own = await roomy.client();
  const text = "€".repeat(10_000_000);
  const progress = (step: number, message: string): string =>
    `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":${step},"message":"${message}"}}`;
  const line = [progress(1, text), progress(2, ""), progress(3, ""), `{"jsonrpc":"2.0","id":$ID,"result":{}}`].join("\n");
  using stream = await own.begin("raw_line", { line }, 7, { progressToken: "t" });
  const messages = await stream.rest();
  expect(messages.map((message) => message.params?.["progress"])).toEqual([1, 2, 3, undefined]);
  expect(messages[0]?.params?.["message"] === text).toBe(true);
});

// Pipes and sockets cut at powers of two, so nearly every cut falls inside a character of three bytes.
it("a request and a result of 5 MB stay whole, with their characters", async () => {
  const text = "€".repeat(FIVE_MB / 3);
  expect((await client.toolText("echo", { text })) === text).toBe(true);
});

it("characters stay whole if the body arrives byte by byte", async () => {
  const body = Buffer.from(`{"jsonrpc":"2.0","id":"ï","method":"tools/call","params":{"name":"echo","arguments":{"text":"é€😀"}}}`);
  using connection = await RawConnection.open(sidecar.origin);
  const headers = { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId, "Content-Length": String(body.length) };
  await connection.write(headBytes("POST /mcp", headers));
  for (const byte of body) await connection.write(Buffer.from([byte]));
  expect((await connection.reply()).body).toBe(`{"jsonrpc":"2.0","id":"ï","result":{"content":[{"type":"text","text":"é€😀"}]}}`);
});

it("a response written in pieces arrives whole, even with characters and line ends split", async () => {
  const text = fc.string({ unit: fc.constantFrom("a", "é", "€", "😀", "👩‍👩‍👧", "\u2028"), minLength: 1, maxLength: 20 });
  const lineEnd = fc.constantFrom("\n", "\r\n");
  const cuts = fc.array(fc.nat({ max: 200 }), { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(fc.record({ text, lineEnd, cuts }), async (args) => {
      expect(await client.toolText("cut_answer", args)).toBe(args.text);
    }),
    { numRuns: 60 },
  );
  expect(sidecar.logLines.filter(({ level }) => level === "warn")).toEqual([]);
});
