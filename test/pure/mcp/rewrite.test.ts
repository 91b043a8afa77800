import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkClientMessage } from "../../../src/mcp/client-message.ts";
import { type Message, type ResponseMessage, Slot, readMessage } from "../../../src/mcp/message.ts";
import { editsOf, messageToServer, requestToServer, responseToClient } from "../../../src/mcp/rewrite.ts";
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
import { allMembers, nodeOf, poisonEngine, referenceValue } from "../../support/json-reference.ts";

/** Placeholders in a template for inserted text; JSON text never contains them. */
const ID = "\u0001";
const TOKEN = "\u0002";

function fill(template: string, id: string, token = ""): string {
  return template.replace(ID, () => id).replace(TOKEN, () => token);
}

function read<Kind extends Message["kind"]>(text: string, kind: Kind): Message & { readonly kind: Kind } {
  const message = checkClientMessage(readMessage(text));
  // Rejected messages are never rewritten.
  fc.pre(!("code" in message));
  if (message.kind !== kind) throw new Error(`a ${message.kind}`);
  poisonEngine(nodeOf(text));
  return message as Message & { readonly kind: Kind };
}

/** A member of this name whose value is already spelled. */
function member(name: string, value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return memberText(keyText(name), value);
}

/** An object with one member of this name, among members with other names. */
function objectWith(name: string, value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return objectText(inAnyOrder(otherMembers(name, "_meta"), member(name, value)));
}

/** A message whose envelope has the given params, in any order, with white space around it. */
function messageWith(method: string, params: fc.Arbitrary<string>, id?: string): fc.Arbitrary<string> {
  const envelope = together(
    member("method", keyText(method)),
    member("params", params),
    ...(id === undefined ? [] : [member("id", fc.constant(id))]),
  );
  return fc
    .tuple(whitespace, objectText(inAnyOrder(envelope, member("jsonrpc", keyText("2.0")))), whitespace)
    .map((parts) => parts.join(""));
}

describe("a request to the server", () => {
  it("only id, progress token and spelling of names change", () => {
    const template = messageWith("tools/call", objectWith("_meta", objectWith("progressToken", fc.constant(TOKEN))), ID);
    fc.assert(
      fc.property(template, idText, idText, fc.integer({ min: 1 }), (around, id, progressToken, wireId) => {
        const request = read(fill(around, id, progressToken), "request");
        expect(request.outline.copyAt(Slot.metaProgressToken)).toBe(progressToken);
        const text = requestToServer(request, wireId);
        expect(text).toBe(asServerReads(fill(around, String(wireId), String(wireId))));
        expect(referenceValue(text)).toMatchObject({ id: wireId, params: { _meta: { progressToken: wireId } } });
      }),
    );
  });
});

describe("the progress token of a request", () => {
  it.each([
    '{"jsonrpc":"2.0","id":1,"method":"x"}',
    '{"jsonrpc":"2.0","id":1,"method":"x","params":{}}',
    '{"jsonrpc":"2.0","id":1,"method":"x","params":{"progressToken":1,"_meta":{}}}',
    '{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"x":["progressToken"]}}}',
    '{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":{"_meta":{"progressToken":1}}}}',
  ])("the request %s has no token", (text) => {
    expect(read(text, "request").outline.copyAt(Slot.metaProgressToken)).toBeUndefined();
  });
});

describe("a notification to the server", () => {
  it.each([
    ["progress", "progressToken", Slot.progressToken],
    ["cancelled", "requestId", Slot.requestId],
  ] as const)("only the id of a notification of %s, and spelling of names, change", (method, name, slot) => {
    const others = together(otherMembers(name, "_meta", "progress"), member("progress", fc.constant("1")));
    const template = messageWith(`notifications/${method}`, objectText(inAnyOrder(others, member(name, fc.constant(ID)))));
    fc.assert(
      fc.property(template, idText, fc.integer({ min: 1 }), (around, id, wireId) => {
        const notification = read(fill(around, id), "notification");
        expect(notification.outline.textAt(slot)).toBe(id);
        const text = messageToServer(notification, editsOf(notification, String(wireId), slot));
        expect(text).toBe(asServerReads(fill(around, String(wireId))));
        expect(referenceValue(text)).toMatchObject({ params: { [name]: wireId } });
      }),
    );
  });
});

describe("a response to the client", () => {
  it("only the id changes, however both sides spell theirs", () => {
    const payload = fc.oneof(member("result", valueText), member("error", objectText(otherMembers())));
    const response = objectText(
      inAnyOrder(
        together(payload, member("jsonrpc", keyText("2.0")), otherMembers("id", "jsonrpc", "method")),
        member("id", fc.constant(ID)),
      ),
    );
    fc.assert(
      fc.property(response, fc.integer({ min: 1 }), idText, (around, wireId, clientId) => {
        const text = responseToClient(readMessage(fill(around, String(wireId))) as ResponseMessage, clientId);
        expect(text).toBe(fill(around, clientId));
        expect((referenceValue(text) as { id: unknown }).id).toBe(JSON.parse(clientId));
      }),
    );
  });
});

/**
 * Returns a client's message as a server must read it, made in a slow way. It is on one line, with plain names if possible, and with line
 * and paragraph separators as escapes. Nothing else is changed.
 */
function asServerReads(text: string): string {
  let line = text;
  for (const { name, nameText, nameStart } of allMembers(nodeOf(text)).toReversed()) {
    const needsEscapes = !/^[ !#-[\]-\uffff]*$/.test(name) || !name.isWellFormed();
    const spelled = needsEscapes ? nameText : `"${name}"`;
    line = line.slice(0, nameStart) + spelled + line.slice(nameStart + nameText.length);
  }
  return line
    .replaceAll("\n", " ")
    .replaceAll("\r", " ")
    .replaceAll("\u2028", String.raw`\u2028`)
    .replaceAll("\u2029", String.raw`\u2029`);
}
