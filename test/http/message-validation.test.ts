import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { HttpBench } from "../support/http-bench.ts";

const PARSE_ERROR = errorReply(400, -32700, "PARSE_ERROR");
const INVALID_REQUEST = errorReply(400, -32600, "INVALID_REQUEST");

describe("message validation", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = await sidecar.client();

  it.each([
    ["an empty body", ""],
    ["white space", " \r\n\t "],
    ["a truncated message", '{"jsonrpc":"2.0","id":1,"method":"ping"'],
    ["a word", "ping"],
    ["single quotes", "{'jsonrpc':'2.0','id':1,'method':'ping'}"],
    ["a trailing comma", '{"jsonrpc":"2.0","id":1,"method":"ping",}'],
    ["two messages", '{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}'],
    ["two lines", '{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}'],
    ["a byte order mark", '\uFEFF{"jsonrpc":"2.0","id":1,"method":"ping"}'],
    ["a bare control character in a string", '{"jsonrpc":"2.0","id":1,"method":"pi\u0001ng"}'],
    ["NaN", '{"jsonrpc":"2.0","id":NaN,"method":"ping"}'],
    ["a NUL", '{"jsonrpc":"2.0","id":1,"method":"ping"}\0'],
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

  it("a notification with an id is rejected, because a server might act on it", async () => {
    const reply = await client.post({ jsonrpc: "2.0", id: 5, method: "notifications/cancelled", params: { requestId: 1 } });
    expect(readError(reply)).toStrictEqual(errorReply(400, -32600, "INVALID_REQUEST", { id: 5 }));
  });

  it.each([
    ["a number", "42"],
    ["a string", '"ping"'],
    ["null", "null"],
    ["a boolean", "true"],
    ["an empty batch", "[]"],
    ["a batch", '[{"jsonrpc":"2.0","id":1,"method":"ping"}]'],
    ["an empty object", "{}"],
    ["a null id", '{"jsonrpc":"2.0","id":null,"method":"ping"}'],
    ["a boolean id", '{"jsonrpc":"2.0","id":true,"method":"ping"}'],
    ["an object as id", '{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}'],
    ["an array as id", '{"jsonrpc":"2.0","id":[1],"method":"ping"}'],
    ["two ids", '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}'],
    ["two ids, one of them escaped", String.raw`{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}`],
    ["a response with a boolean id", '{"jsonrpc":"2.0","id":false,"result":{}}'],
  ])("the error for %s has no id", async (_what, body) => {
    expect(readError(await client.post(body))).toStrictEqual(INVALID_REQUEST);
  });

  it.each([
    ["a missing version", '{"id":7,"method":"ping"}'],
    ["another version", '{"jsonrpc":"1.0","id":7,"method":"ping"}'],
    ["a version that is a number", '{"jsonrpc":2.0,"id":7,"method":"ping"}'],
    ["neither a method nor a result", '{"jsonrpc":"2.0","id":7}'],
    ["a method that is not a string", '{"jsonrpc":"2.0","id":7,"method":7}'],
    ["a null method", '{"jsonrpc":"2.0","id":7,"method":null}'],
    ["params that are an array", '{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}'],
    ["params that are null", '{"jsonrpc":"2.0","id":7,"method":"ping","params":null}'],
    ["params that are a string", '{"jsonrpc":"2.0","id":7,"method":"ping","params":"x"}'],
    ["two versions", '{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"method":"ping"}'],
    ["two methods", '{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call"}'],
    ["two methods, one of them escaped", String.raw`{"jsonrpc":"2.0","id":7,"method":"ping","m\u0065thod":"tools/call"}`],
    ["two params", '{"jsonrpc":"2.0","id":7,"method":"ping","params":{},"params":{}}'],
    ["a foreign member", '{"jsonrpc":"2.0","id":7,"method":"ping","foreign":null}'],
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

  it.each(["9007199254740993", "1.0", "-0", "1e2", '""', '"7"', String.raw`"\u00e9/"`, '"€"'])(
    "the error for the id %s has the id with its spelling unchanged",
    async (id) => {
      const reply = await client.post(`{"jsonrpc":"1.0","id":${id},"method":"ping"}`);
      expect(reply.status).toBe(400);
      expect(reply.body).toContain(`"id":${id},`);
    },
  );

  it("a rejected message does not reach the server", async () => {
    const method = "x-test/invalid";
    for (const body of [
      `{"jsonrpc":"1.0","id":1,"method":"${method}"}`,
      `{"jsonrpc":"2.0","id":1,"method":"ping","method":"${method}"}`,
      `{"jsonrpc":"2.0","id":1,"method":"${method}","params":[]}`,
      `{"jsonrpc":"2.0","id":null,"method":"${method}"}`,
      `[{"jsonrpc":"2.0","id":1,"method":"${method}"}]`,
    ]) {
      expect(readError(await client.post(body))).toMatchObject({ status: 400, body: { error: { code: -32600 } } });
    }
    expect(JSON.parse(await client.toolText("seen"))).not.toContain(method);
  });

  it("a message with white space around and inside it is forwarded as one line", async () => {
    const body = '\r\n {\n"jsonrpc" : "2.0",\r\n"id" : 7,\n"method" : "tools/call",\n"params" : {"name":"received","arguments":{}}\n}\n';
    const reply = await client.post(body);
    expect(reply.status).toBe(200);
    const [{ text }] = (JSON.parse(reply.body) as { result: { content: [{ text: string }] } }).result.content;
    expect(JSON.parse(text)).toMatchObject({ method: "tools/call", params: { name: "received", arguments: {} } });
  });

  it("a hundred thousand nested arrays are forwarded", async () => {
    const nested = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const reply = await client.post(
      `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"received","arguments":{"deep":${nested}}}}`,
    );
    expect(reply.status).toBe(200);
    const [{ text }] = (JSON.parse(reply.body) as { result: { content: [{ text: string }] } }).result.content;
    expect(text).toContain(`"arguments":{"deep":${nested}}`);
  });

  it.each([
    ["a hundred thousand open brackets", "[".repeat(100_000), PARSE_ERROR],
    ["a hundred thousand open objects", '{"id":'.repeat(100_000), PARSE_ERROR],
    ["a batch of a hundred thousand nested arrays", `${"[".repeat(100_000)}${"]".repeat(100_000)}`, INVALID_REQUEST],
    [
      "an id of a hundred thousand nested arrays",
      `{"jsonrpc":"2.0","id":${"[".repeat(100_000)}${"]".repeat(100_000)},"method":"ping"}`,
      INVALID_REQUEST,
    ],
  ])("the sidecar rejects %s and stays usable", async (_what, body, expected) => {
    expect(readError(await client.post(body))).toStrictEqual(expected);
    expect(await client.request("ping")).toEqual({ status: 200, jsonrpc: "2.0", id: 2, result: {} });
  });
});
