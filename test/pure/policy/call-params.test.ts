import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/mcp/message.ts";
import { checkClientMessage } from "../../../src/mcp/client-message.ts";
import { readMessage } from "../../../src/mcp/message.ts";
import { findAmbiguity, spellingsOf } from "../../../src/policy/checker.ts";
import { readCall } from "../../../src/policy/tool-policy.ts";
import { memberOf, nodeOf, poisonEngine } from "../../support/json-reference.ts";
import { keyText, memberText, otherMembers, valueText } from "../../support/json-text.ts";

function read(paramsText: string | undefined): ReturnType<typeof readCall> {
  const params = paramsText === undefined ? "" : `,"params": ${paramsText}`;
  const message = checkClientMessage(readMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call"${params}}`));
  if ("code" in message || message.kind !== "request") throw new Error("no request");
  return readCall(message);
}

describe("the tool and arguments of a call", () => {
  it.each([
    ['{"name":"a","arguments" : {"b":1.0, "c":{}} }', "a", '{"b":1.0, "c":{}}'],
    ['{"\\u006eame":"\\u0061","arguments":null,"_meta":{}}', "a", "null"],
    ['{"name":"a"}', "a", undefined],
    ['{"name":["a"],"arguments":"x"}', undefined, '"x"'],
    ["{}", undefined, undefined],
    [undefined, undefined, undefined],
  ])("the call %s is read", (params, name, argsText) => {
    expect(read(params)).toEqual({ name, argsText });
  });

  it.each([
    ['{"name":"a","name":"b"}', '"name" occurs twice'],
    ['{"name":"a","n\\u0061me":"a"}', '"name" occurs twice'],
    ['{"arguments":{},"name":"a","arguments":{}}', '"arguments" occurs twice'],
    ['{"name":"a","task":{},"task":{}}', '"task" occurs twice'],
    ['{"name":"a","Name":"b"}', '"Name" differs only in case from "name"'],
    ['{"NAME":"b"}', '"NAME" differs only in case from "name"'],
    ['{"name":"a","\\u004eame":"b"}', '"Name" differs only in case from "name"'],
    ['{"name":"a","argumentſ":{}}', '"argumentſ" differs only in case from "arguments"'],
    ['{"name":"a","tas\\u212a":{}}', '"tas\u212a" differs only in case from "task"'],
  ])("the ambiguous call %s is rejected", (params, problem) => {
    expect(read(params)).toEqual({ problem });
  });

  it("a call reads as any reader would read it, or is rejected", () => {
    const member = fc
      .constantFrom("name", "Name", "arguments", "ARGUMENTS", "argumentſ", "nam", "task", "x")
      .chain((name) => memberText(keyText(name), valueText).map((text) => ({ name, text })));
    const others = otherMembers("name", "arguments", "_meta", "task", "requestId", "progressToken");
    fc.assert(
      fc.property(fc.array(member, { maxLength: 4 }), others, (members, more) => {
        const text = `{${[...members.map((each) => each.text), ...more].join(",")}}`;
        const meant = members.map(({ name }) => name).filter((name) => name !== "nam" && name !== "x");
        const isClear = new Set(meant).size === meant.length && meant.every((name) => /^[a-z_]+$/.test(name));
        const node = nodeOf(text);
        poisonEngine(node);
        const [name, args] = ["name", "arguments"].map((each) => memberOf(node, each)?.text);
        const call = read(text);
        if ("problem" in call) return !isClear;
        expect(call).toEqual({ name: name?.startsWith('"') === true ? (JSON.parse(name) as unknown) : undefined, argsText: args });
        return isClear;
      }),
    );
  });
});

const READ = { type: "object", properties: { path: { type: "string" }, Mode: {}, kilo: {}, é: {} } };

function ambiguityOf(text: string, schemas: readonly JsonObject[] = [READ]): string | undefined {
  return findAmbiguity(schemas.map(spellingsOf), JSON.parse(text) as JsonObject, text);
}

describe("ambiguous arguments", () => {
  it.each([
    ['{"path":"a","path":"b"}', '"path" occurs twice in one object'],
    ['{"path":"a","x":[{"y":1,"y":2}]}', '"y" occurs twice in one object'],
    ['{"Path":"b"}', '"Path" must be spelled "path"'],
    ['{"path":"a","PATH":"b"}', '"PATH" must be spelled "path"'],
    ['{"mode":1}', '"mode" must be spelled "Mode"'],
    ['{"\\u212aİlo":1}', '"\u212aİlo" must be spelled "kilo"'],
  ])("the ambiguity is named: %s", (text, line) => {
    expect(ambiguityOf(text)).toBe(line);
  });

  it.each(['{"path":"a","Mode":1}', '{"env":{"Path":1,"PATH":2,"path":3}}', '{"paths":1}', "{}", '{"É":1}'])(
    "the arguments %s are not ambiguous",
    (text) => {
      expect(ambiguityOf(text)).toBeUndefined();
    },
  );

  it("the properties of all tools of a name are checked", () => {
    expect(ambiguityOf('{"Path":1}', [{}, READ])).toBe('"Path" must be spelled "path"');
  });
});
