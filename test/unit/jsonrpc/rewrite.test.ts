import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ClientMessage, readClientMessage } from "../../../src/jsonrpc/client-message.ts";
import {
  cancelledIdText,
  progressTokenText,
  rewriteCancellation,
  rewriteProgressToken,
  rewriteRequest,
  rewriteResponseId,
  toOneLine,
} from "../../../src/jsonrpc/rewrite.ts";
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

/** Stand in a template for what is to be put there; no JSON text contains them. */
const ID = "\u0001";
const TOKEN = "\u0002";

function fill(template: string, id: string, token = ""): string {
  return template.replace(ID, () => id).replace(TOKEN, () => token);
}

function read(text: string): ClientMessage {
  const message = readClientMessage(text);
  // What is refused is never rewritten.
  fc.pre(!("code" in message));
  return message;
}

/** A member of this name whose value is already spelled. */
function member(name: string, value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return memberText(keyText(name), value);
}

/** An object with one member of this name, and other names around it. */
function objectWith(name: string, value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return objectText(inAnyOrder(otherMembers(name), member(name, value)));
}

/** A message whose envelope has the given params, in any order, among unknown members, with white space around it. */
function messageWith(method: string, params: fc.Arbitrary<string>, id?: string): fc.Arbitrary<string> {
  const envelope = together(
    member("method", keyText(method)),
    member("params", params),
    otherMembers("jsonrpc", "id", "method", "params"),
    ...(id === undefined ? [] : [member("id", fc.constant(id))]),
  );
  return fc
    .tuple(whitespace, objectText(inAnyOrder(envelope, member("jsonrpc", keyText("2.0")))), whitespace)
    .map((parts) => parts.join(""));
}

/** As stdio wants it, and nothing else changed. */
function onOneLine(text: string): string {
  return text.replaceAll("\n", " ").replaceAll("\r", " ");
}

describe("rewriteRequest", () => {
  it("replaces the id and the progress token and not one other byte, however the request is spelled", () => {
    const template = messageWith("tools/call", objectWith("_meta", objectWith("progressToken", fc.constant(TOKEN))), ID);
    const token = fc.oneof(idText, valueText);
    fc.assert(
      fc.property(template, idText, token, fc.integer({ min: 1 }), (around, id, progressToken, wireId) => {
        const text = rewriteRequest(read(fill(around, id, progressToken)), wireId);
        expect(text).toBe(onOneLine(fill(around, String(wireId), String(wireId))));
        expect(JSON.parse(text)).toMatchObject({ id: wireId, params: { _meta: { progressToken: wireId } } });
      }),
    );
  });

  it("replaces the id alone where there is no progress token", () => {
    const withoutToken = fc.oneof(
      objectText(otherMembers("_meta")),
      objectWith("_meta", objectText(otherMembers("progressToken"))),
      objectWith("_meta", fc.constantFrom('"progressToken"', "[]", "null", '[{"progressToken":1}]', "7")),
    );
    fc.assert(
      fc.property(messageWith("tools/call", withoutToken, ID), idText, fc.integer({ min: 1 }), (around, id, wireId) => {
        expect(rewriteRequest(read(fill(around, id)), wireId)).toBe(onOneLine(fill(around, String(wireId))));
      }),
    );
  });

  it("replaces the id of a request without params", () => {
    expect(rewriteRequest(read('{"jsonrpc":"2.0","id":"a","method":"ping"}'), 12)).toBe('{"jsonrpc":"2.0","id":12,"method":"ping"}');
  });

  it("keeps what a parser would have lost", () => {
    const text = (id: string): string =>
      `{"method":"tools/call","jsonrpc":"2.0","params":{"arguments":{"id":1,"n":9007199254740993,"x":1.0,"y":1e400,"k":"\\u00e9\\/","k":2}},"id":${id},"extra":{}}`;
    expect(rewriteRequest(read(text("2")), 345)).toBe(text("345"));
  });
});

describe("progressTokenText", () => {
  it("is the token as it is spelled, however the request is", () => {
    const template = messageWith("tools/call", objectWith("_meta", objectWith("progressToken", fc.constant(TOKEN))), ID);
    fc.assert(
      fc.property(template, idText, idText, (around, id, token) => {
        expect(progressTokenText(read(fill(around, id, token)))).toBe(token);
      }),
    );
  });

  it.each([
    '{"jsonrpc":"2.0","id":1,"method":"x"}',
    '{"jsonrpc":"2.0","id":1,"method":"x","params":{}}',
    '{"jsonrpc":"2.0","id":1,"method":"x","params":{"progressToken":1,"_meta":{}}}',
    '{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":["progressToken"]}}',
    '{"jsonrpc":"2.0","id":1,"method":"x","_meta":{"progressToken":1},"params":{"arguments":{"_meta":{"progressToken":1}}}}',
    '{"jsonrpc":"2.0","method":"x","params":{"_meta":{"progressToken":1}}}',
  ])("is none of %s", (text) => {
    expect(progressTokenText(read(text))).toBeUndefined();
  });
});

describe("rewriteProgressToken", () => {
  it("replaces the token and not one other byte, however the notification is spelled", () => {
    const template = messageWith("notifications/progress", objectWith("progressToken", fc.constant(TOKEN)));
    fc.assert(
      fc.property(template, idText, idText, (around, token, ownToken) => {
        const text = rewriteProgressToken(read(fill(around, "", token)), ownToken);
        expect(text).toBe(onOneLine(fill(around, "", ownToken)));
        expect(JSON.parse(text)).toMatchObject({ params: { progressToken: JSON.parse(ownToken) as unknown } });
      }),
    );
  });

  it("leaves a notification without a token as it is", () => {
    const text = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"_meta":{"progressToken":1}}}';
    expect(rewriteProgressToken(read(text), "7")).toBe(text);
  });
});

describe("cancelledIdText", () => {
  it("is the id as it is spelled, however the notification is", () => {
    const template = messageWith("notifications/cancelled", objectWith("requestId", fc.constant(ID)));
    fc.assert(
      fc.property(template, idText, (around, id) => {
        expect(cancelledIdText(read(fill(around, id)))).toBe(id);
      }),
    );
  });

  it("is none where no id is named", () => {
    expect(cancelledIdText(read('{"jsonrpc":"2.0","method":"notifications/cancelled"}'))).toBeUndefined();
    expect(cancelledIdText(read('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"id":1}}'))).toBeUndefined();
  });
});

describe("rewriteCancellation", () => {
  it("replaces the id of the cancelled request and not one other byte", () => {
    const template = messageWith("notifications/cancelled", objectWith("requestId", fc.constant(ID)));
    fc.assert(
      fc.property(template, idText, fc.integer({ min: 1 }), (around, id, wireId) => {
        const text = rewriteCancellation(read(fill(around, id)), wireId);
        expect(text).toBe(onOneLine(fill(around, String(wireId))));
        expect(JSON.parse(text)).toMatchObject({ params: { requestId: wireId } });
      }),
    );
  });
});

describe("rewriteResponseId", () => {
  it("replaces the id and not one other byte, however server and client have spelled theirs", () => {
    const payload = fc.oneof(member("result", valueText), member("error", objectText(otherMembers())));
    const response = objectText(
      inAnyOrder(together(payload, member("jsonrpc", keyText("2.0")), otherMembers("id")), member("id", fc.constant(ID))),
    );
    fc.assert(
      fc.property(response, fc.integer({ min: 1 }), idText, (around, wireId, clientId) => {
        const text = rewriteResponseId(fill(around, String(wireId)), clientId);
        expect(text).toBe(fill(around, clientId));
        expect((JSON.parse(text) as { id: unknown }).id).toBe(JSON.parse(clientId));
      }),
    );
  });

  it("takes a text with dollar signs for what it is", () => {
    expect(rewriteResponseId('{"jsonrpc":"2.0","id":1,"result":"$&"}', '"$1$&$$"')).toBe('{"jsonrpc":"2.0","id":"$1$&$$","result":"$&"}');
  });
});

describe("toOneLine", () => {
  it("turns every newline of a JSON text into a space and changes nothing that is said", () => {
    fc.assert(
      fc.property(objectText(otherMembers()), (text) => {
        const line = toOneLine(text);
        expect(line).not.toMatch(/[\n\r]/);
        expect(line).toHaveLength(text.length);
        expect(JSON.parse(line)).toEqual(JSON.parse(text));
      }),
    );
  });
});
