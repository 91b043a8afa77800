import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkClientBatch, type ClientMessageProblem, checkClientMessage } from "../../../src/mcp/client-message.ts";
import { type Message, readText, Slot, readMessage } from "../../../src/mcp/message.ts";
import { memberOf, nodeOf, poisonEngine } from "../../support/json-reference.ts";
import {
  idText,
  inAnyOrder,
  keyText,
  memberText,
  objectText,
  otherMembers,
  together,
  valueText,
  whitespace,
} from "../../support/json-text.ts";

function read(text: string): Message {
  const message = checkClientMessage(readMessage(text));
  if ("code" in message) throw new Error(message.reason);
  return message;
}

function otherCase(name: string, wanted: string): string {
  return `${JSON.stringify(name)} differs only in case from "${wanted}"`;
}

describe("a message of a client", () => {
  it.each([
    ['{"jsonrpc":"1.0","id":9007199254740993,"method":"ping"}', '"jsonrpc" must be "2.0"', "9007199254740993"],
    ['{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}', '"method" occurs twice', "1"],
    ['{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}', '"jsonrpc" occurs twice', "1"],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","\\u0069d":2}', '"id" occurs twice', undefined],
    ['{"jsonrpc":"2.0","id":1,"METHOD":"tools/call","method":"ping"}', otherCase("METHOD", "method"), "1"],
    ['{"jsonrpc":"2.0","id":1,"method":"x","params":{},"param\\u017f":{}}', otherCase("param\u017f", "params"), "1"],
    ['{"jsonrpc":"2.0","j\u017fonrpc":"2.0","id":1,"method":"ping"}', otherCase("j\u017fonrpc", "jsonrpc"), "1"],
    ['{"jsonrpc":"2.0","id":1,"Id":2,"method":"ping"}', otherCase("Id", "id"), undefined],
    ['{"jsonrpc":"2.0","id":1,"result":{},"Method":"tools/call"}', otherCase("Method", "method"), "1"],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","param":2}', '"param" is not a member of a JSON-RPC request', "1"],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","meth\u00f6d":2}', '"meth\u00f6d" is not a member of a JSON-RPC request', "1"],
  ])("the message %s is rejected, since another reader may differ: %s", (text, reason, givenBack) => {
    expect(checkClientMessage(readMessage(text))).toEqual({ code: "INVALID_REQUEST", reason, idText: givenBack });
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
});

/** Returns a request whose member has a JSON text of this many UTF-8 bytes. */
function sized(template: string, bytes: number, unit: string): string {
  const [before = "", after = ""] = template.split("#");
  const units = Math.floor((bytes - 2) / Buffer.byteLength(unit));
  const filler = "x".repeat(bytes - 2 - units * Buffer.byteLength(unit));
  return `${before}"${filler}${unit.repeat(units)}"${after}`;
}

it.each([
  ["id", 1024, '{"jsonrpc":"2.0","id":#,"method":"ping"}'],
  ["id", 1024, '{"jsonrpc":"2.0","id":#,"result":{}}'],
  ["method", 1024, '{"jsonrpc":"2.0","id":1,"method":#}'],
  ["progressToken", 1024, '{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":#}}}'],
  ["progressToken", 1024, '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":#,"progress":1}}'],
  ["requestId", 1024, '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}}'],
  ["name", 1024, '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":#}}'],
  ["uri", 8192, '{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":#}}'],
])("the member %s has at most %d bytes of UTF-8 in %s", (name, bytes, template) => {
  for (const unit of ["x", "é", "€", "😀"]) {
    expect(read(sized(template, bytes, unit))).toMatchObject({ text: sized(template, bytes, unit) });
    expect(checkClientMessage(readMessage(sized(template, bytes + 1, unit)))).toEqual({
      code: "INVALID_REQUEST",
      reason: `"${name}" has more than ${bytes} bytes as JSON`,
      idText: name === "id" || !template.includes('"id":1') ? undefined : "1",
    });
  }
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
});

it.each([
  ["a method with NUL", String.raw`{"jsonrpc":"2.0","id":1,"method":"tools/call\u0000"}`],
  ["a name of the envelope with NUL after it", String.raw`{"jsonrpc":"2.0","id":1,"id\u0000":2,"method":"ping"}`],
  ["a long notifications/initialized", `{"jsonrpc":"2.0","method":"notifications/initialized","params":{"a":"${"x".repeat(65_536)}"}}`],
  ["a long level", `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"${"x".repeat(2000)}"}}`],
])("the message with %s is rejected", (_what, text) => {
  expect(checkClientMessage(readMessage(text))).toMatchObject({ code: "INVALID_REQUEST" });
});

/** Returns the reason why a request with these params is rejected; undefined if it is not. */
function refusal(params: string): string | undefined {
  const message = checkClientMessage(readMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`));
  return "code" in message ? `${message.code} ${message.idText}: ${message.reason}` : undefined;
}

describe("an id that is rewritten on its way to the server", () => {
  it.each([
    ['{"_meta":{"progressToken":1},"_meta":{"progressToken":2}}', '"_meta" occurs twice'],
    ['{"_meta":{"progressToken":1,"progressToken":2}}', '"progressToken" occurs twice'],
    ['{"requestId":1,"requestId":2}', '"requestId" occurs twice'],
    ['{"requestId":1,"RequestID":2}', '"RequestID" differs only in case from "requestId"'],
    ['{"_Meta":{"progressToken":1}}', '"_Meta" differs only in case from "_meta"'],
    ['{"_meta":{"progressToken":1,"PROGRESSTOKEN":2}}', '"PROGRESSTOKEN" differs only in case from "progressToken"'],
    ['{"_meta":{"progreſſToken":2}}', '"progreſſToken" differs only in case from "progressToken"'],
  ])("ambiguous params are rejected: %s", (params, reason) => {
    expect(refusal(params)).toBe(`INVALID_REQUEST 1: ${reason}`);
  });
});

function check(text: string): Message[] | ClientMessageProblem | undefined {
  const reading = readText(text);
  return reading.kind === "batch" ? checkClientBatch(reading) : undefined;
}

function readBatch(text: string): Message[] {
  const messages = check(text);
  if (!Array.isArray(messages)) throw new Error(messages?.reason ?? "no batch");
  return messages;
}

function invalid(reason: string): object {
  return { code: "INVALID_REQUEST", reason, idText: undefined };
}

const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}';

/** A message of any kind, in any spelling. */
const messageText = fc
  .tuple(
    fc.constantFrom("request", "notification", "response"),
    idText,
    objectText(otherMembers("jsonrpc", "id", "method", "params", "result", "error")),
  )
  .chain(([kind, id, params]) => {
    const members = together(
      ...(kind === "notification" ? [] : [memberText(keyText("id"), fc.constant(id))]),
      ...(kind === "response"
        ? [memberText(keyText("result"), valueText)]
        : [memberText(keyText("method"), keyText("x")), memberText(keyText("params"), fc.constant(params))]),
    );
    return objectText(inAnyOrder(members, memberText(keyText("jsonrpc"), keyText("2.0"))));
  })
  // One rejected message makes the whole batch rejected.
  .filter((text) => !("code" in checkClientMessage(readMessage(text))));

describe("a batch", () => {
  it("each message of a batch is read as it would be alone, byte for byte", () => {
    const spaced = fc.tuple(whitespace, messageText, whitespace);
    fc.assert(
      fc.property(fc.array(spaced, { minLength: 1, maxLength: 5 }), whitespace, (items, around) => {
        const text = `${around}[${items.map((item) => item.join("")).join(",")}]${around}`;
        expect(readBatch(text)).toEqual(items.map(([, message]) => checkClientMessage(readMessage(message))));
      }),
    );
  });

  it("a batch may have as many messages as the official SDK accepts", () => {
    const pings = (count: number): string => `[${Array.from({ length: count }, () => PING).join(",")}]`;
    expect(readBatch(pings(100))).toHaveLength(100);
    for (const count of [101, 1500]) expect(check(pings(count))).toEqual(invalid("the batch has more than 100 messages"));
  });
});
