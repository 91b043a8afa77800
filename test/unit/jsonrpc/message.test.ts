import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { classify } from "../../../src/jsonrpc/message.ts";

describe("classify", () => {
  it("tells a request by its method and id, whether a string or a number", () => {
    const params = { name: "echo" };
    for (const id of ["a", "", 0, -1, 2, 1.5]) {
      expect(classify({ jsonrpc: "2.0", id, method: "tools/call", params })).toEqual({ kind: "request", id, method: "tools/call", params });
    }
  });

  it("tells a notification by its method without an id", () => {
    const message = classify({ jsonrpc: "2.0", method: "notifications/initialized" });
    expect(message).toEqual({ kind: "notification", method: "notifications/initialized", params: undefined });
  });

  it("tells a response by its result or error, with or without an id", () => {
    const error = { code: -32700, message: "Parse error" };
    expect(classify({ jsonrpc: "2.0", id: 7, result: null })).toEqual({ kind: "response", id: 7, result: null, error: undefined });
    expect(classify({ jsonrpc: "2.0", id: "7", error })).toEqual({ kind: "response", id: "7", result: undefined, error });
    expect(classify({ jsonrpc: "2.0", id: null, error })).toEqual({ kind: "response", id: undefined, result: undefined, error });
    expect(classify({ jsonrpc: "2.0", error })).toEqual({ kind: "response", id: undefined, result: undefined, error });
  });

  it.each([
    ["a text", "the message must be a JSON object"],
    [null, "the message must be a JSON object"],
    [[{ jsonrpc: "2.0", method: "ping", id: 1 }], "a batch (JSON array) is not accepted; send one message per request"],
    [[], "a batch (JSON array) is not accepted; send one message per request"],
    [{ id: 1, method: "ping" }, '"jsonrpc" must be "2.0"'],
    [{ jsonrpc: 2, id: 1, method: "ping" }, '"jsonrpc" must be "2.0"'],
    [{ jsonrpc: "2.0", id: 1 }, 'the message has neither "method" nor "result" nor "error"'],
    [{ jsonrpc: "2.0", id: 1, method: 5 }, '"method" must be a string'],
    [{ jsonrpc: "2.0", id: 1, method: null }, '"method" must be a string'],
    [{ jsonrpc: "2.0", id: 1, method: "ping", params: [1] }, '"params" must be an object'],
    [{ jsonrpc: "2.0", id: 1, method: "ping", params: null }, '"params" must be an object'],
    [{ jsonrpc: "2.0", id: null, method: "ping" }, '"id" must be a string or a number'],
    [{ jsonrpc: "2.0", id: true, method: "ping" }, '"id" must be a string or a number'],
    [{ jsonrpc: "2.0", id: {}, result: {} }, '"id" must be a string or a number'],
  ])("says what is wrong with %j", (value, reason) => {
    expect(classify(value)).toMatchObject({ kind: "invalid", reason });
  });

  it("gives back the id of an invalid message where there is one to give back", () => {
    expect(classify({ jsonrpc: "1.0", id: "x", method: "ping" })).toMatchObject({ kind: "invalid", id: "x" });
    expect(classify({ jsonrpc: "2.0", id: 3, method: 5 })).toMatchObject({ kind: "invalid", id: 3 });
    expect(classify({ jsonrpc: "2.0", id: [3], method: "ping" })).toMatchObject({ kind: "invalid", id: undefined });
    expect(classify([{ id: 1 }])).toMatchObject({ kind: "invalid", id: undefined });
  });

  it("takes no member for granted that JSON.parse could only have inherited", () => {
    const value: unknown = JSON.parse('{"jsonrpc":"2.0","id":1,"__proto__":{"method":"ping","result":{}}}');
    expect(classify(value)).toMatchObject({ kind: "invalid", id: 1 });
  });

  it("has an answer for any JSON value, and says nothing that the value does not say", () => {
    const envelope = fc.record(
      { jsonrpc: fc.constant("2.0"), id: fc.jsonValue(), method: fc.jsonValue(), params: fc.jsonValue(), result: fc.jsonValue() },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), envelope), (value) => {
        const { kind, ...said } = classify(value);
        expect(["request", "notification", "response", "invalid"]).toContain(kind);
        const { reason: _reason, ...members } = { reason: undefined, ...said };
        const given = Object.entries(members).filter(([, member]) => member !== undefined);
        expect(Object(value)).toMatchObject(Object.fromEntries(given));
      }),
    );
  });
});
