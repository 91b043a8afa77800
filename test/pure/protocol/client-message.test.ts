import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readClientMessage } from "../../../src/protocol/client-message.ts";
import { type Message, Slot } from "../../../src/protocol/message.ts";
import { memberOf, nodeOf, poisonEngine } from "../../support/json-reference.ts";
import { idText, inAnyOrder, keyText, memberText, objectText, otherMembers, together, valueText } from "../../support/json-text.ts";

function read(text: string): Message {
  const message = readClientMessage(text);
  if ("code" in message) throw new Error(message.reason);
  return message;
}

describe("a message of a client", () => {
  it("the text is kept, with the places of id and params", () => {
    const text = ' {"id" : "\\u0061" , "method":"x",\n"params": {"id":1}, "jsonrpc":"2.0"} ';
    const message = read(text);
    expect(message).toMatchObject({ kind: "request", id: "a", method: "x", text });
    expect(message.outline.textAt(Slot.id)).toBe('"\\u0061"');
    expect(message.outline.textAt(Slot.params)).toBe('{"id":1}');
  });

  it("a message without id and params has no places for them", () => {
    const { outline } = read('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    expect([outline.span(Slot.id), outline.span(Slot.params)]).toEqual([undefined, undefined]);
  });

  it.each(["", " ", "{", '{"jsonrpc":"2.0"', "undefined", '{"a":1}{"b":2}', "\u{FEFF}{}", "{'id':1}"])(
    "the text %j is rejected as malformed, without an id",
    (text) => {
      expect(readClientMessage(text)).toEqual({ code: "PARSE_ERROR", reason: "the body is not JSON", idText: undefined });
    },
  );

  it("JSON that is not a message is rejected with its id", () => {
    expect(readClientMessage('{"id":5,"method":"ping"}')).toEqual({
      code: "INVALID_REQUEST",
      reason: '"jsonrpc" must be "2.0"',
      idText: "5",
    });
    expect(readClientMessage('[{"jsonrpc":"2.0","id":5,"method":"ping"}]')).toMatchObject({ code: "INVALID_REQUEST", idText: undefined });
  });

  it.each(["9007199254740993", "1.0", "1e400"])("the id %s of a rejected message keeps its spelling", (id) => {
    expect(readClientMessage(`{"jsonrpc":"1.0","id":${id},"method":"ping"}`)).toMatchObject({ code: "INVALID_REQUEST", idText: id });
  });

  it.each([
    ['{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}', "method", "1"],
    ['{"jsonrpc":"2.0","id":1,"params":{},"method":"ping","params":{}}', "params", "1"],
    ['{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}', "jsonrpc", "1"],
    ['{"jsonrpc":"2.0","method":"a","method":"b"}', "method", undefined],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","\\u0069d":2}', "id", undefined],
  ])("the message %s is rejected, since parsers may differ on it", (text, name, givenBack) => {
    expect(readClientMessage(text)).toEqual({ code: "INVALID_REQUEST", reason: `"${name}" occurs twice`, idText: givenBack });
  });

  it.each([
    ['{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}', "Method", "1"],
    ['{"jsonrpc":"2.0","id":1,"METHOD":"tools/call","method":"ping"}', "METHOD", "1"],
    ['{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"param\u017f":{"name":"b"}}', "param\u017f", "1"],
    ['{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{},"param\\u017f":{}}', "param\u017f", "1"],
    ['{"jsonrpc":"2.0","j\u017fonrpc":"2.0","id":1,"method":"ping"}', "j\u017fonrpc", "1"],
    ['{"jsonrpc":"2.0","id":1,"Id":2,"method":"ping"}', "Id", undefined],
    ['{"jsonrpc":"2.0","method":"notifications/x","ID":2}', "ID", undefined],
    ['{"jsonrpc":"2.0","id":1,"result":{},"Method":"tools/call"}', "Method", "1"],
  ])("the message %s is rejected, since a case-insensitive reader may differ", (text, name, givenBack) => {
    const reason = `${JSON.stringify(name)} differs only in case from a name of the envelope`;
    expect(readClientMessage(text)).toEqual({ code: "INVALID_REQUEST", reason, idText: givenBack });
  });

  it.each(["methods", "param", "Idx", "_id", "meth\u00f6d", "RESULT"])("the foreign member %s is rejected by its name", (name) => {
    const reason = `"${name}" is not a member of a JSON-RPC request`;
    expect(readClientMessage(`{"jsonrpc":"2.0","id":1,"method":"ping","${name}":2}`)).toEqual({
      code: "INVALID_REQUEST",
      reason,
      idText: "1",
    });
  });

  it("a rejected message with two ids has none", () => {
    expect(readClientMessage('{"jsonrpc":"1.0","id":1,"method":"ping","id":2}')).toMatchObject({
      code: "INVALID_REQUEST",
      idText: undefined,
    });
  });

  it("a name that is repeated below the envelope is accepted", () => {
    const message = read('{"jsonrpc":"2.0","id":1,"method":"x","params":{"id":1,"id":2,"params":{"method":"y","method":"z"}}}');
    expect(message).toMatchObject({ kind: "request", id: 1, method: "x" });
  });

  it("the id of any request is found, however it is spelled", () => {
    const request = idText.chain((id) => {
      const others = together(
        memberText(keyText("jsonrpc"), keyText("2.0")),
        memberText(keyText("method"), keyText("tools/call")),
        memberText(keyText("params"), objectText(otherMembers("_meta", "requestId", "progressToken"))),
      );
      return fc.record({ id: fc.constant(id), text: objectText(inAnyOrder(others, memberText(keyText("id"), fc.constant(id)))) });
    });
    fc.assert(
      fc.property(request, ({ id, text }) => {
        const node = nodeOf(text);
        poisonEngine(node);
        const message = read(text);
        expect(message).toMatchObject({ kind: "request", id: JSON.parse(id) as unknown, method: "tools/call", text });
        expect(message.outline.textAt(Slot.id)).toBe(id);
        expect(message.outline.textAt(Slot.params)).toBe(memberOf(node, "params")?.text);
      }),
      { numRuns: 1000 },
    );
  });

  it("no JSON makes the reader throw", () => {
    fc.assert(
      fc.property(valueText, (text) => {
        expect(readClientMessage(text)).toMatchObject({ code: "INVALID_REQUEST" });
      }),
    );
  });
});

/** Returns a request whose member has a JSON text of this many UTF-8 bytes. */
function sized(template: string, bytes: number, unit: string): string {
  const [before = "", after = ""] = template.split("#");
  const units = Math.floor((bytes - 2) / Buffer.byteLength(unit));
  const filler = "x".repeat(bytes - 2 - units * Buffer.byteLength(unit));
  return `${before}"${filler}${unit.repeat(units)}"${after}`;
}

describe.each([
  ["id", 1024, '{"jsonrpc":"2.0","id":#,"method":"ping"}'],
  ["id", 1024, '{"jsonrpc":"2.0","id":#,"result":{}}'],
  ["method", 1024, '{"jsonrpc":"2.0","id":1,"method":#}'],
  ["method", 1024, '{"jsonrpc":"2.0","method":#}'],
  ["progressToken", 1024, '{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":#}}}'],
  ["progressToken", 1024, '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":#,"progress":1}}'],
  ["requestId", 1024, '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}}'],
  ["name", 1024, '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":#}}'],
  ["name", 1024, '{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":#}}'],
  ["uri", 8192, '{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":#}}'],
  ["uri", 8192, '{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":#}}'],
])("the limit of %s, of %d bytes, in %s", (name, bytes, template) => {
  it.each(["x", "é", "€", "😀"])("the limit counts bytes of UTF-8, all of which may be %s", (unit) => {
    const text = sized(template, bytes, unit);
    expect(read(text)).toMatchObject({ text });
  });

  it.each(["x", "é", "€", "😀"])("one byte more is rejected, in characters such as %s", (unit) => {
    expect(readClientMessage(sized(template, bytes + 1, unit))).toEqual({
      code: "INVALID_REQUEST",
      reason: `"${name}" has more than ${bytes} bytes as JSON`,
      idText: name === "id" || !template.includes('"id":1') ? undefined : "1",
    });
  });
});

describe("the limits of a message", () => {
  it("members that are not kept have no limit", () => {
    const long = "x".repeat(20_000);
    for (const [method, params] of [
      ["tools/call", { name: "a", arguments: { name: long, uri: long, id: long, progressToken: long } }],
      ["resources/read", { uri: long, name: long }],
      ["tools/list", { cursor: long }],
    ] as const)
      expect(read(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }))).toMatchObject({ kind: "request", method });
  });

  it("numbers have the same limits", () => {
    const digits = "1".repeat(1025);
    expect(readClientMessage(`{"jsonrpc":"2.0","id":${digits},"method":"ping"}`)).toMatchObject({
      reason: '"id" has more than 1024 bytes as JSON',
      idText: undefined,
    });
  });

  it("an id that is too long is in no error", () => {
    const id = JSON.stringify("x".repeat(2000));
    expect(readClientMessage(`{"jsonrpc":"1.0","id":${id},"method":"ping"}`)).toEqual({
      code: "INVALID_REQUEST",
      reason: '"jsonrpc" must be "2.0"',
      idText: undefined,
    });
  });
});

it.each([
  ["a method with NUL", String.raw`{"jsonrpc":"2.0","id":1,"method":"tools/call\u0000"}`],
  ["a name of the envelope with NUL after it", String.raw`{"jsonrpc":"2.0","id":1,"id\u0000":2,"method":"ping"}`],
  ["a long notifications/initialized", `{"jsonrpc":"2.0","method":"notifications/initialized","params":{"a":"${"x".repeat(65_536)}"}}`],
  ["a long level", `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"${"x".repeat(2000)}"}}`],
])("the message with %s is rejected", (_what, text) => {
  expect(readClientMessage(text)).toMatchObject({ code: "INVALID_REQUEST" });
});
