import { describe, expect, it } from "vitest";
import { type FoundResult, findResult } from "../../../src/era/results/found-result.ts";
import { applyEdits } from "../../../src/json/edit.ts";
import { responseToClient } from "../../../src/protocol/rewrite.ts";
import { answerOfServer } from "../../server/support/lane-bench.ts";

const RESULT = '"result" : {"content":[{"_meta":1,"resultType":"x"}], "resultType":"complete","_meta":{"a":1},"requestState":"s"}';
const ID = '"a longer id"';

/** Returns the texts of the found parts. */
function partsOf(found: FoundResult | undefined): unknown {
  if (found === undefined) return undefined;
  const { text, edits, result, resultType, meta, requestState } = found;
  const parts = [result, resultType, meta, requestState].map((span) => span && text.slice(span.start, span.end));
  return { parts, text: applyEdits(text, edits) };
}

describe("the result of a response", () => {
  it.each([
    `{"jsonrpc":"2.0","id":1,${RESULT}}`,
    `{"jsonrpc":"2.0",${RESULT},"id":1}`,
    `{"jsonrpc":"2.0","id":1,${RESULT},"result":{"resultType":"a","resultType":"b"}}`,
    String.raw`{"jsonrpc":"2.0","id":1,"result":{"result\u0054ype":"task","\u005fmeta":{}}}`,
    '{"jsonrpc":"2.0","id":1,"result":[]}',
    '{"jsonrpc":"2.0","id":1,"result":"resultType"}',
    '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"resultType"}}',
  ])("the parts found by the first reading are those of the client's text: %s", (text) => {
    const response = answerOfServer(text);
    const body = responseToClient(response, ID);
    expect(partsOf(findResult(body, ID, response))).toEqual(partsOf(findResult(body, ID, undefined)));
  });

  it("the parts are those of the result, and not of what is nested in it", () => {
    const text = `{"jsonrpc":"2.0","id":1,${RESULT}}`;
    expect(partsOf(findResult(text, "1", answerOfServer(text)))).toMatchObject({
      parts: [expect.stringContaining("content"), '"complete"', '{"a":1}', '"s"'],
    });
  });
});
