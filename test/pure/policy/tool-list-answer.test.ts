import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isJsonObject, type JsonObject } from "../../../src/mcp/message.ts";
import { filterToolsList, withoutOutputSchemas } from "../../../src/policy/tools.ts";
import { nodeOf, poisonEngine, referenceValue } from "../../support/json-reference.ts";
import { keyText, memberText, objectText, otherMembers, valueText, whitespace } from "../../support/json-text.ts";

const HIDDEN = "hidden";

function isVisible({ name }: JsonObject): boolean {
  return typeof name === "string" && !name.startsWith(HIDDEN);
}

function filtered(body: string): string {
  return filterToolsList(body, isVisible);
}

function listOf(...tools: readonly string[]): string {
  return `{"jsonrpc":"2.0","id":1,"result":{"tools":[${tools.join(",")}]}}`;
}

const toolText = fc
  .subarray(["description", "inputSchema", "annotations", "x", "Y"])
  .chain((names) => {
    const name = memberText(keyText("name"), fc.constantFrom('"hidden"', '"\\u0068idden_x"', '"seen"', '"other"', "1", "null"));
    return fc.tuple(name, ...names.map((other) => memberText(keyText(other), valueText)));
  })
  .chain((members) => objectText(fc.shuffledSubarray(members, { minLength: members.length })));

/** An element of a list, with the white space around it. */
const elementText = fc
  .tuple(whitespace, fc.oneof({ weight: 5, arbitrary: toolText }, valueText), whitespace)
  .map((parts) => parts.join(""));

function isSeen(text: string): boolean {
  const tool = referenceValue(text);
  return isJsonObject(tool) && isVisible(tool) && colonsIn(text) === colonsIn(JSON.stringify(tool));
}

/** One item for each member. */
function colonsIn(text: string): number {
  return text.replaceAll(/"(?:\\.|[^"\\])*"/g, "").split(":").length;
}

describe("the answer to tools/list", () => {
  it("hidden tools are removed, and every other byte stays", () => {
    const body =
      '{ "result" : {"_meta":{"n":1.0,"big":123456789012345678901},"tools" : [ {"name":"hidden-1"} ,\n {"name":"a\\u0062","x":1e400} , {"name":"hidden-2"},{"inputSchema":{},"name":"c"}\t, {"name":"hidden-3"} ],"nextCursor":"\\u0032"}, "id":"\\u0041" ,"jsonrpc":"2.0"} ';
    expect(filtered(body)).toBe(
      '{ "result" : {"_meta":{"n":1.0,"big":123456789012345678901},"tools" : [ {"name":"a\\u0062","x":1e400} , {"inputSchema":{},"name":"c"} ],"nextCursor":"\\u0032"}, "id":"\\u0041" ,"jsonrpc":"2.0"} ',
    );
  });

  it.each([
    '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"tools","data":{"tools":[{"name":"hidden"}]}}}',
    '{"jsonrpc":"2.0","id":1,"result":{}}',
    '{"jsonrpc":"2.0","id":1,"result":null}',
    "[]",
    "null",
  ])("an answer without a list is unchanged: %s", (body) => {
    expect(filtered(body)).toBe(body);
  });

  it.each([
    '"result":{"tools":{"0":{"name":"hidden"}}}',
    '"result":{"tools":[{"name":"hidden"}],"tools":[]}',
    '"result":{"tools":[{"name":"hidden"}],"\\u0074ools":[]}',
    '"result":{"tools":[],"Tools":[{"name":"hidden"}]}',
    '"result":{"toolſ":[{"name":"hidden"}]}',
    '"result":{"tools":[{"name":"hidden"}]},"result":{"tools":[]}',
    '"result":{"tools":[]},"Result":{"tools":[{"name":"hidden"}]}',
    '"RESULT":{"tools":[{"name":"hidden"}]}',
    '"error":{"code":1,"message":""},"Result":{"tools":[{"name":"hidden"}]}',
  ])("an answer that readers may understand differently becomes an empty list: %s", (members) => {
    expect(filtered(`{"id" : 1.0 ,${members}}`)).toBe('{"jsonrpc":"2.0","id":1.0,"result":{"tools":[]}}');
  });

  it.each([
    '"a"',
    "null",
    "{}",
    '{"name":1}',
    '{"name":"a","Name":"hidden"}',
    '{"name":"hidden","name":"a"}',
    '{"name":"a","\\u006eame":"b"}',
    '{"name":"a","description":"reviewed","Description":"not reviewed"}',
    '{"name":"a","annotations":{},"annotationſ":{}}',
    '{"name":"a","inputSchema":{},"inputSchema":{}}',
  ])("an element that is not clearly a tool is removed: %s", (tool) => {
    expect(filtered(listOf(tool, '{"name":"b"}'))).toBe(listOf('{"name":"b"}'));
  });

  it("the answer equals that of a parser, and keeps tools byte for byte", () => {
    const response = fc.tuple(fc.array(elementText, { maxLength: 8 }), otherMembers("tools"), otherMembers("result"), whitespace);
    fc.assert(
      fc.property(response, ([elements, inResult, inEnvelope, inEmptyList]) => {
        const list = elements.length === 0 ? inEmptyList : elements.join(",");
        const head = `{${[...inEnvelope, `"result":{${[...inResult, '"tools":['].join(",")}`].join(",")}`;
        const body = `${head}${list}]}}`;
        poisonEngine(nodeOf(body));
        const answer = filtered(body);
        const kept = elements.map((element) => element.trim()).filter(isSeen);
        const expected = referenceValue(body) as { result: { tools: unknown[] } };
        expected.result.tools = kept.map((text) => referenceValue(text));
        expect(referenceValue(answer)).toEqual(expected);
        expect([answer.slice(0, head.length), answer.slice(-3)]).toEqual([head, "]}}"]);
        const parts = kept.map((text) => text.replaceAll(/[\\\]^$.*+?()[{}|]/g, "\\$&")).join("\\s*,\\s*");
        expect(answer.slice(head.length, -3)).toMatch(new RegExp(`^\\s*${parts}\\s*$`));
      }),
    );
  });

  it.each([
    '"inputSchema":{"type":"object","properties":{"q":{"description":"not reviewed","description":"reviewed"}}}',
    '"annotations":{"readOnlyHint":false,"readOnly\\u0048int":true}',
    '"inputSchema":{"anyOf":[{"title":":","title":""}]}',
  ])("a tool with a repeated member in %s is removed", (members) => {
    expect(filtered(listOf('{"name":"one"}', `{"name":"two",${members}}`))).toBe(listOf('{"name":"one"}'));
  });

  it("colons in texts are not counted as members", () => {
    const tool = '{"name":"a:b","description":"\\":\\"","inputSchema":{"a:":[{"b":":"},{"b":{}}],"__proto__":{"x":1},"toString":[]}}';
    expect(filtered(listOf(tool))).toBe(listOf(tool));
  });
});

it("an answer to tools/list has ten thousand tools at most", () => {
  const tools = Array.from({ length: 10_005 }, (_, index) => `{"name":"t${index}"}`);
  expect(filtered(listOf(...tools))).toBe(listOf(...tools.slice(0, 10_000)));
});

describe("output schemas", () => {
  it("the schemas are removed from every tool, and every other byte stays", () => {
    const body = String.raw`{"id":1.0,"result":{"nextCursor":"c","tools":[ {"name":"a","outputSchema":{"type":"object"} , "x":1e400},{"outputSchema":1},{"o\u0075tputSchema":{},"name":"c", "outputSchema":[2]}, 7 ]}}`;
    const expected = String.raw`{"id":1.0,"result":{"nextCursor":"c","tools":[ {"name":"a","x":1e400},{},{"name":"c"}, 7 ]}}`;
    expect(withoutOutputSchemas(body)).toBe(expected);
  });
});
