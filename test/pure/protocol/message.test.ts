import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { idTextOf, type Reading, readInSteps, readMessage, readText } from "../../../src/protocol/message.ts";
import { memberOf, nodeOf, poisonEngine, valueOf } from "../../support/json-reference.ts";
import { keyText, memberText, objectText, otherMembers, valueText } from "../../support/json-text.ts";
import { ErrorCode, LATEST_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/sdk/types.js";
import { JsonRpcErrorCode } from "../../../src/protocol/error-codes.ts";
import { hasBatches, hasPrimedStreams, LEGACY_PROTOCOL_VERSIONS, NEWEST_LEGACY_PROTOCOL_VERSION } from "../../../src/protocol/versions.ts";

function read(value: unknown): ReturnType<typeof readMessage> {
  return readMessage(JSON.stringify(value));
}

describe("a message", () => {
  it("a response has a result or an error, with or without an id", () => {
    const error = { code: -32700, message: "Parse error" };
    expect(read({ jsonrpc: "2.0", id: 7, result: null })).toMatchObject({ kind: "response", id: 7, isError: false });
    expect(read({ jsonrpc: "2.0", id: "7", error })).toMatchObject({ kind: "response", id: "7", isError: true });
    expect(read({ jsonrpc: "2.0", id: null, error })).toMatchObject({ kind: "response", id: undefined, isError: true });
    expect(read({ jsonrpc: "2.0", error })).toMatchObject({ kind: "response", id: undefined, isError: true });
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
  ])("the problem of %j is named", (value, reason) => {
    expect(read(value)).toMatchObject({ kind: "invalid", isJson: true, reason });
  });

  it("the id of an invalid message is returned if it has one", () => {
    expect(read({ jsonrpc: "1.0", id: "x", method: "ping" })).toMatchObject({ kind: "invalid", idText: '"x"' });
    expect(read({ jsonrpc: "2.0", id: 3, method: 5 })).toMatchObject({ kind: "invalid", idText: "3" });
    expect(read({ jsonrpc: "2.0", id: [3], method: "ping" })).toMatchObject({ kind: "invalid", idText: undefined });
    expect(read([{ id: 1 }])).toMatchObject({ kind: "invalid", idText: undefined });
    expect(readMessage('{"id":1,"id":2}')).toMatchObject({ kind: "invalid", idText: undefined });
    expect(readMessage('{"id":1,"ID":2}')).toMatchObject({ kind: "invalid", idText: undefined });
  });

  it("a message is classified as the reference reader classifies it", () => {
    const name = fc.constantFrom("jsonrpc", "id", "method", "params", "result", "error").chain(keyText);
    const value = fc.oneof(fc.constantFrom('"2.0"', "1", '"x"', "{}", "null"), valueText);
    const members = fc.array(memberText(name, value), { maxLength: 6 });
    const envelope = fc.tuple(members, otherMembers("jsonrpc")).map(([own, others]) => own.concat(others, '"jsonrpc":"2.0"'));
    fc.assert(
      fc.property(fc.oneof(objectText(members), objectText(envelope), valueText), (text) => {
        const node = nodeOf(text);
        poisonEngine(node);
        const message = readMessage(text);
        if (message.kind === "invalid") return message.isJson;
        const [id, method] = ["id", "method"].map((each) => memberOf(node, each));
        const idValue = id === undefined ? undefined : (valueOf(id) ?? undefined);
        const kind = method === undefined ? "response" : id === undefined ? "notification" : "request";
        const isError = memberOf(node, "error") !== undefined;
        const expected = {
          request: { kind, id: idValue, method: method === undefined ? undefined : valueOf(method) },
          notification: { kind, method: method === undefined ? undefined : valueOf(method) },
          response: { kind, id: idValue, isError },
        };
        const { text: kept, outline, ...rest } = message;
        expect([kept, outline.text, rest]).toEqual([text, text, expected[kind]]);
        return idTextOf(message) === (id?.text ?? "");
      }),
      { numRuns: 2000 },
    );
  });
});

/** Returns the reading, and the number of pauses before it. */
function readStepped(text: string): { readonly reading: Reading; readonly pauses: number } {
  const steps = readInSteps(text);
  for (let pauses = 0; ; pauses++) {
    const { done, value } = steps.next();
    if (done === true) return { reading: value, pauses };
  }
}

describe("a text that is read in steps", () => {
  const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}';

  it.each([PING, `[${PING},1]`, "[]", "{", "7", `[${PING}`])("the reading in steps equals the reading at once: %s", (text) => {
    expect(readStepped(text)).toEqual({ reading: readText(text), pauses: 0 });
  });
});

describe("protocol versions", () => {
  it("the versions are those of the official SDK, newest first", () => {
    expect(LEGACY_PROTOCOL_VERSIONS).toEqual(SUPPORTED_PROTOCOL_VERSIONS);
    expect(NEWEST_LEGACY_PROTOCOL_VERSION).toBe(LATEST_PROTOCOL_VERSION);
    expect(LEGACY_PROTOCOL_VERSIONS[0]).toBe(NEWEST_LEGACY_PROTOCOL_VERSION);
    expect(LEGACY_PROTOCOL_VERSIONS).toEqual([...LEGACY_PROTOCOL_VERSIONS].sort().toReversed());
  });
});

describe("a protocol version", () => {
  it("batches end with 2025-03-26, and primed streams begin with 2025-11-25", () => {
    expect(LEGACY_PROTOCOL_VERSIONS.filter(hasBatches)).toEqual(["2025-03-26", "2024-11-05", "2024-10-07"]);
    expect(LEGACY_PROTOCOL_VERSIONS.filter(hasPrimedStreams)).toEqual(["2025-11-25"]);
  });

  it("unknown versions are judged by their date", () => {
    expect(["2025-05-01", "2025-06-19", "2026-01-01"].map((version) => [hasBatches(version), hasPrimedStreams(version)])).toEqual([
      [true, false],
      [false, false],
      [false, true],
    ]);
  });
});

describe("error codes", () => {
  it("the codes are those of the official SDK if it has them", () => {
    const { ParseError, InvalidRequest, MethodNotFound, InternalError, SessionOrTimeout } = JsonRpcErrorCode;
    expect(ParseError).toBe(ErrorCode.ParseError);
    expect(InvalidRequest).toBe(ErrorCode.InvalidRequest);
    expect(MethodNotFound).toBe(ErrorCode.MethodNotFound);
    expect(InternalError).toBe(ErrorCode.InternalError);
    expect(SessionOrTimeout).toBe(ErrorCode.RequestTimeout);
  });

  it("only the codes of the revision without sessions are in its own range", () => {
    expect(JsonRpcErrorCode.ServerError).toBe(-32000);
    expect(Object.values(JsonRpcErrorCode).filter((code) => code <= -32_020 && code >= -32_099)).toEqual([-32_020, -32_021, -32_022]);
  });
});
