import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  hasBatches,
  hasPrimedStreams,
  LEGACY_PROTOCOL_VERSIONS,
  NEWEST_LEGACY_PROTOCOL_VERSION,
  readMessage,
  Slot,
} from "../../../src/mcp/message.ts";
import { memberOf, nodeOf, poisonEngine, valueOf } from "../../support/json-reference.ts";
import { keyText, memberText, objectText, otherMembers, valueText } from "../../support/json-text.ts";
import { LATEST_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/sdk/types.js";

describe("a message", () => {
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
        const kind = method?.text.startsWith('"') !== true ? "response" : id === undefined ? "notification" : "request";
        const isError = memberOf(node, "error") !== undefined;
        const expected = {
          request: { kind, id: idValue, idText: id?.text, method: method === undefined ? undefined : valueOf(method) },
          notification: { kind, method: method === undefined ? undefined : valueOf(method) },
          response: { kind, id: idValue, isError },
        };
        const { text: kept, outline, ...rest } = message;
        expect([kept, outline.text, rest]).toEqual([text, text, expected[kind]]);
        return outline.copyAt(Slot.id) === id?.text;
      }),
      { numRuns: 2000 },
    );
  });
});

describe("protocol versions", () => {
  it("the versions are those of the official SDK, newest first", () => {
    expect(LEGACY_PROTOCOL_VERSIONS).toEqual(SUPPORTED_PROTOCOL_VERSIONS);
    expect(NEWEST_LEGACY_PROTOCOL_VERSION).toBe(LATEST_PROTOCOL_VERSION);
    expect(LEGACY_PROTOCOL_VERSIONS[0]).toBe(NEWEST_LEGACY_PROTOCOL_VERSION);
    expect(LEGACY_PROTOCOL_VERSIONS).toEqual([...LEGACY_PROTOCOL_VERSIONS].sort().toReversed());
  });

  it("unknown versions are judged by their date", () => {
    expect(["2025-05-01", "2025-06-19", "2026-01-01"].map((version) => [hasBatches(version), hasPrimedStreams(version)])).toEqual([
      [true, false],
      [false, false],
      [false, true],
    ]);
  });
});
