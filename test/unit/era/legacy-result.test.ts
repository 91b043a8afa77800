import { describe, expect, it } from "vitest";
import { findResult } from "../../../src/era/results/found-result.ts";
import { responseToModernClient, type ResultShape, serverInfoOf } from "../../../src/era/legacy-server/legacy-result.ts";

const SERVER = { "io.modelcontextprotocol/serverInfo": { name: "s", version: "1" } };
const SERVER_INFO = serverInfoOf('{"serverInfo":{"name":"s","version":"1"}}');
const SHAPE: ResultShape = { method: "tools/call", serverInfo: SERVER_INFO, uriText: undefined, declaresUrl: false };

function rewritten(body: string, shape: Partial<ResultShape>): string {
  return responseToModernClient(body, findResult(body, "1", undefined), { ...SHAPE, ...shape });
}

function shaped(member: "result" | "error", text: string, shape: Partial<ResultShape> = {}): unknown {
  return JSON.parse(rewritten(`{"jsonrpc":"2.0","id":1, "${member}": ${text} }`, shape));
}

describe("a response of a server with sessions", () => {
  it.each([
    ["{}", {}],
    ["{ }", {}],
    ['{"content":[{"a":1}]}', { content: [{ a: 1 }] }],
    ['{"_meta":{"x":1},"a":2}', { a: 2, _meta: { x: 1 } }],
    ['{"resultType":"odd","a":{"resultType":"kept"}}', { a: { resultType: "kept" } }],
  ])("the result %s gets its type and the server's name", (text, members) => {
    const expected = { resultType: "complete", ...members, _meta: { ...(members as Record<string, object>)["_meta"], ...SERVER } };
    expect(shaped("result", text)).toEqual({ jsonrpc: "2.0", id: 1, result: expected });
  });

  it.each([
    ['{"name":"s","version":"1","icons":["' + "x".repeat(512) + '"]}', { name: "s", version: "1" }],
    ['{"name":"' + "x".repeat(512) + '","version":"1"}', undefined],
    ['["s"]', undefined],
    ['"s"', undefined],
  ])("the server's name in each result is short: %j", (serverInfo, shown) => {
    const result = shaped("result", "{}", { serverInfo: serverInfoOf(`{"serverInfo":${serverInfo}}`) }) as { result: { _meta?: object } };
    expect(result.result["_meta"]).toEqual(shown && { "io.modelcontextprotocol/serverInfo": shown });
  });

  it("a text in a result keeps its bytes", () => {
    const text = String.raw`{"content":[{"type":"text","text":"\u00e4 \ud83d"}], "big":9007199254740993}`;
    expect(rewritten(`{"jsonrpc":"2.0","id":1,"result":${text}}`, { serverInfo: serverInfoOf("{}") })).toBe(
      `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",${text.slice(1)}}`,
    );
  });

  it.each(["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"])(
    "the result of %s may not be cached",
    (method) => {
      expect(shaped("result", "{}", { method })).toMatchObject({ result: { ttlMs: 0, cacheScope: "private" } });
    },
  );

  it("the result of a tool has no cache hints", () => {
    expect(shaped("result", "{}")).not.toHaveProperty("result.ttlMs");
  });

  it("a resource that does not exist has the code of invalid params, and its URI", () => {
    const error = shaped("error", '{"code":-32002,"message":"no"}', { uriText: '"x:1"' });
    expect(error).toMatchObject({ error: { code: -32_602, message: "no", data: { uri: "x:1" } } });
  });

  it.each([-32_020, -32_042, -32_099])("the code %i has another meaning in this revision, so it is replaced", (code) => {
    const text = JSON.stringify({ code, message: "no", data: 1 });
    const expected = code === -32_042 ? { code: -32_021 } : { code: -32_603, data: { original: { code, message: "no", data: 1 } } };
    expect(shaped("error", text)).toMatchObject({ error: { message: "no", ...expected } });
  });

  it.each([-32_000, -32_601, -32_602, -32_603, -32_700, 7])("the code %i stays", (code) => {
    expect(shaped("error", JSON.stringify({ code, message: "no" }))).toMatchObject({ error: { code } });
  });

  it("a server that needs a visit to a URL asks a client that can do that", () => {
    const elicitations = [{ mode: "url", elicitationId: "e", url: "https://a.example", message: "Sign in" }];
    const text = JSON.stringify({ code: -32_042, message: "no", data: { elicitations } });
    const params = { mode: "url", url: "https://a.example", message: "Sign in" };
    expect(shaped("error", text, { declaresUrl: true })).toEqual({
      jsonrpc: "2.0",
      id: 1,
      result: { resultType: "input_required", inputRequests: { "url-1": { method: "elicitation/create", params } }, _meta: SERVER },
    });
  });
});
