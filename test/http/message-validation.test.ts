import { expect, it, describe } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { HttpBench } from "../support/http-bench.ts";
import { initializeRequest, McpClient } from "../support/mcp-client.ts";

const PARSE_ERROR = errorReply(400, -32700, "PARSE_ERROR");
const NESTED = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
const INVALID_REQUEST = errorReply(400, -32600, "INVALID_REQUEST");

const sidecar = disposeAfterAll(await HttpBench.start());
const client = await sidecar.client();

it.each([
  ["an empty body", ""],
  ["a truncated message", '{"jsonrpc":"2.0","id":1,"method":"ping"'],
  ["two lines", '{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}'],
  ["a byte order mark", '\uFEFF{"jsonrpc":"2.0","id":1,"method":"ping"}'],
  ["a bare control character in a string", '{"jsonrpc":"2.0","id":1,"method":"pi\u0001ng"}'],
  ["a NUL", '{"jsonrpc":"2.0","id":1,"method":"ping"}\0'],
  ["a hundred thousand open objects", '{"id":'.repeat(100_000)],
])("the response to %s is a parse error", async (_what, body) => {
  expect(readError(await client.post(body))).toStrictEqual(PARSE_ERROR);
});

it.each([
  ["a byte that UTF-8 never has", [0xff]],
  ["a lone continuation byte", [0x80]],
  ["a truncated character", [0xe2, 0x82]],
  ["an overlong encoding", [0xc0, 0xaf]],
  ["an encoded surrogate", [0xed, 0xa0, 0x80]],
])("the response to %s in UTF-8 is a parse error", async (_what, bytes) => {
  const body = Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":1,"method":"'), Buffer.from(bytes), Buffer.from('"}')]);
  expect(readError(await client.post(body))).toStrictEqual(PARSE_ERROR);
});

it.each([
  ["a number", "42"],
  ["an empty batch", "[]"],
  ["a batch", '[{"jsonrpc":"2.0","id":1,"method":"ping"}]'],
  ["a null id", '{"jsonrpc":"2.0","id":null,"method":"ping"}'],
  ["an id of a hundred thousand nested arrays", `{"jsonrpc":"2.0","id":${NESTED},"method":"ping"}`],
  ["a batch of a hundred thousand nested arrays", NESTED],
  ["two ids, one of them escaped", String.raw`{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}`],
  ["a response with a boolean id", '{"jsonrpc":"2.0","id":false,"result":{}}'],
])("the error for %s has no id", async (_what, body) => {
  expect(readError(await client.post(body))).toStrictEqual(INVALID_REQUEST);
});

it.each([
  ["another version", '{"jsonrpc":"1.0","id":7,"method":"ping"}'],
  ["neither a method nor a result", '{"jsonrpc":"2.0","id":7}'],
  ["a notification with an id", '{"jsonrpc":"2.0","id":7,"method":"notifications/cancelled","params":{"requestId":1}}'],
  ["params that are an array", '{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}'],
  ["two versions", '{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"method":"ping"}'],
  ["two params", '{"jsonrpc":"2.0","id":7,"method":"ping","params":{},"params":{}}'],
  ["a foreign member with an escape", String.raw`{"jsonrpc":"2.0","id":7,"method":"ping","re\u0073ults":1}`],
  ["a result beside the method", '{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}'],
  ["a response with an error beside the result", '{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"no"}}'],
  ["a response with params", '{"jsonrpc":"2.0","id":7,"result":{},"params":{}}'],
  ["a response with a foreign member", '{"jsonrpc":"2.0","id":7,"result":{},"foreign":1}'],
])("the error for %s has the request's id", async (_what, body) => {
  expect(readError(await client.post(body))).toStrictEqual(errorReply(400, -32600, "INVALID_REQUEST", { id: 7 }));
});

it("an id with a fraction is rejected, and other numbers are answered as they are spelled", async () => {
  const rejected = await client.post('{"jsonrpc":"2.0","id":1.5,"method":"ping"}');
  expect(readError(rejected)).toStrictEqual(errorReply(400, -32600, "INVALID_REQUEST", { id: 1.5 }));
  for (const id of ["1.0", "-0", "1e2", "9007199254740993"]) {
    expect((await client.post(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`)).body).toContain(`"id":${id},`);
  }
});

it.each([
  ["a cancellation of an object", "cancelled", { requestId: {} }],
  ["a cancellation of null", "cancelled", { requestId: null }],
  ["a cancellation with a reason that is a number", "cancelled", { requestId: 1, reason: 5 }],
  ["progress without a token", "progress", { progress: 1 }],
  ["progress without a number", "progress", { progressToken: 1 }],
  ["progress that is a text", "progress", { progressToken: 1, progress: "1" }],
  ["progress with a null total", "progress", { progressToken: 1, progress: 1, total: null }],
  ["progress without params", "progress", undefined],
  ["a _meta that is null", "initialized", { _meta: null }],
])("a notification of %s is rejected, and does not reach the server", async (_what, name, params) => {
  const before = await client.toolText("seen");
  const reply = await client.notify(`notifications/${name}`, params);
  expect(readError(reply)).toStrictEqual(errorReply(400, -32602, "INVALID_PARAMS"));
  const [seen, calls] = [JSON.parse(await client.toolText("seen")), JSON.parse(before)] as [string[], string[]];
  expect(seen.slice(calls.length)).toEqual(["tools/call"]);
});

it("a hundred thousand nested arrays are forwarded", async () => {
  const text = await client.post(
    `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"received","arguments":{"deep":${NESTED}}}}`,
  );
  expect(text.status).toBe(200);
  expect(text.body).toContain(`"deep\\":${NESTED}}`);
});

/** A secret in the environment, so that messages about the server are masked. */
const env = { SOME_API_KEY: "a-secret-of-some-length" };

/** Returns the command of a server that rejects clients that can be asked with an error of this depth, and accepts the sidecar itself. */
function refusingServer(levels: number): readonly string[] {
  const script = `
    const data = "[".repeat(${levels}) + JSON.stringify(process.env.SOME_API_KEY) + "]".repeat(${levels});
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method, params } = JSON.parse(line);
      if (id === undefined) return;
      const isClient = method === "initialize" && params.capabilities.sampling !== undefined;
      const result = method === "initialize" ? { protocolVersion: "2025-11-25", capabilities: {} } : { echo: params.text };
      const answer = isClient || method === "refuse" ? '"error":{"code":-1,"message":"no","data":' + data + "}" : '"result":' + JSON.stringify(result);
      console.log('{"jsonrpc":"2.0","id":' + id + "," + answer + "}");
    });`;
  return [process.execPath, "-e", script];
}

describe.each([8000, 1_000_000])("an error that is nested %d levels deep", (levels) => {
  it("a client whose server rejects initialize gets the error; other clients are unaffected", async () => {
    await using refusing = await HttpBench.start({ command: refusingServer(levels), env });
    const bystander = await refusing.client();
    const reply = await new McpClient(refusing.url).post(initializeRequest({ sampling: {} }));
    expect(reply.body).toMatch(/^\{"jsonrpc":"2\.0","id":1,"error":\{/);
    expect(reply.body).not.toContain(env.SOME_API_KEY);
    expect((await bystander.request("x/echo", { text: "still here" })).result).toEqual({ echo: "still here" });
  });
});

it("a deep error response to initialize restarts the server and is logged", async () => {
  const script = refusingServer(8000).map((part) => part.replace("!== undefined", "=== undefined"));
  await using refusing = await HttpBench.start({ command: script, env, untilReady: false });
  const exit = await refusing.waitForLog("mcp server exited");
  expect(exit).toMatchObject({ kind: "handshake-refused" });
  expect(String(exit["reason"])).toMatch(/^the MCP server answered initialize with an error: \{"code":-1,"message":"no","data":\[\[/);
});

/** An object that makes the engine misread later objects, for any reader: see test/support/poison.js. */
const POISON = String.raw`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":1,"i\\":{"jsonrpc":"2.0","method":"","params":{},"i\\":1}}}`;

describe("escaped names", async () => {
  const attacker = await sidecar.client();
  await attacker.post(POISON);

  it.each([
    ["jsonrpc", String.raw`{"jsonrp\u0063":"2.0","id":5,"method":"ping","params":{}}`],
    ["id", String.raw`{"jsonrpc":"2.0","i\u0064":5,"method":"ping","params":{}}`],
    ["method", String.raw`{"jsonrpc":"2.0","id":5,"m\u0065thod":"ping","params":{}}`],
    ["params", String.raw`{"jsonrpc":"2.0","id":5,"method":"ping","p\u0061rams":{}}`],
  ])("the escaped name %s is read like the plain name", async (_name, body) => {
    const reply = await attacker.post(body);
    expect([reply.status, JSON.parse(reply.body)]).toEqual([200, { jsonrpc: "2.0", id: 5, result: {} }]);
  });

  it("a server's response with an escaped id reaches the request that it names", async () => {
    const line = String.raw`{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"mine"}]},"i\u0064":$ID}`;
    expect(await client.toolText("raw_line", { line })).toBe("mine");
  });
});

it("a server's response with two ids is dropped", async () => {
  await using impatient = await HttpBench.start({ env: { CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS: "1000" } });
  const call = (await impatient.client()).callTool("raw_line", { line: '{"jsonrpc":"2.0","id":$ID,"result":{},"id":$ID}' });
  await impatient.waitForLog("stdout line skipped: not json-rpc", ({ reason }) => reason === '"id" occurs twice');
  expect((await call).error?.data).toMatchObject({ code: "REQUEST_TIMEOUT" });
});
