import { describe, expect, it } from "vitest";
import { findResult } from "../../../src/era/result-spans.ts";
import { responseToClient } from "../../../src/protocol/rewrite.ts";
import { answerOfServer } from "../support/lane-bench.ts";

const RESULT = '"result" : {"content":[{"_meta":1,"resultType":"x"}], "resultType":"complete","_meta":{"a":1},"requestState":"s"}';

describe("the parts of a result", () => {
  it.each([
    `{"jsonrpc":"2.0","id":1,${RESULT}}`,
    `{"jsonrpc":"2.0",${RESULT},"id":1}`,
    `{"jsonrpc":"2.0","id":1,${RESULT},"result":{"resultType":"a","resultType":"b"}}`,
    String.raw`{"jsonrpc":"2.0","id":1,"result":{"result\u0054ype":"task","\u005fmeta":{}}}`,
    '{"jsonrpc":"2.0","id":1,"result":[]}',
    '{"jsonrpc":"2.0","id":1,"result":"resultType"}',
    '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"resultType"}}',
  ])("those of a message are those of its text with another id: %s", (text) => {
    const response = answerOfServer(text);
    for (const idText of ['"a longer id"', "2"]) {
      const body = responseToClient(response, idText);
      expect(findResult(body, response)).toEqual(findResult(body, undefined));
    }
  });

  it("the type is found in the text that the client gets", () => {
    const response = answerOfServer(`{"jsonrpc":"2.0","id":1,${RESULT}}`);
    const body = responseToClient(response, '"a longer id"');
    const span = findResult(body, response)?.resultType;
    expect(body.slice(span?.start, span?.end)).toBe('"complete"');
  });
});
