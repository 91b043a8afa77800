import { describe, expect, it } from "vitest";
import { type InputRequired, isInputRequired, readInputRequired } from "../../../src/era/modern-server/input-required.ts";
import { readMessage, type ResponseMessage, Slot } from "../../../src/protocol/message.ts";
import { collectGarbage } from "../../support/garbage.ts";

const QUESTION = '{"method":"elicitation/create","params":{"message":"?","requestedSchema":{}}}';

function response(members: string): ResponseMessage {
  const message = readMessage(`{"jsonrpc":"2.0","id":1,${members}}`, "server");
  if (message.kind !== "response") throw new Error("no response");
  return message;
}

function readAsked(members: string): InputRequired | string {
  const { text, outline } = response(`"result":{"resultType":"input_required",${members}}`);
  return readInputRequired(text, outline.start(Slot.result));
}

describe("a result that asks the client", () => {
  it.each([
    ['"result":{"resultType":"input_required"}', true],
    [String.raw`"result":{"resultType":"input_\u0072equired"}`, true],
    ['"result":{"resultType":"complete"}', false],
    ['"result":{}', false],
    ['"result":{"resultType":"input_required"},"error":{"code":1,"message":"no"}', false],
  ])("%s: %s", (members, expected) => {
    expect(isInputRequired(response(members))).toBe(expected);
  });

  it("questions have the text of their keys, and the state has its text", () => {
    const read = readAsked(String.raw`"requestState":"\u0073","inputRequests":{"a b":${QUESTION},"\u0063":${QUESTION}}`);
    if (typeof read === "string") throw new Error(read);
    expect(read.stateText).toBe(String.raw`"\u0073"`);
    expect(read.questions.map(({ keyText }) => keyText)).toEqual(['"a b"', String.raw`"\u0063"`]);
  });

  it.each([
    [`"inputRequests":{${Array.from({ length: 65 }, (_, index) => `"${index}":${QUESTION}`).join(",")}}`, "more than 64 questions"],
    [
      `"inputRequests":{"q":{"method":"roots/list","params":{"x":"${"x".repeat(4 << 20)}"}}}`,
      "a question has more than 4194304 characters",
    ],
    [String.raw`"inputRequests":{"q":${QUESTION},"\u0071":${QUESTION}}`, "a key of inputRequests occurs twice"],
    [`"inputRequests":{"q":${QUESTION}},"inputRequests":{}`, "inputRequests occurs twice"],
    ['"requestState":1', "requestState is not a string"],
    ['"inputRequests":[]', "inputRequests is not an object"],
    ['"a":1', "it has neither inputRequests nor requestState"],
  ])("%.40s… is invalid", (members, reason) => {
    expect(readAsked(members)).toBe(reason);
  });

  it("keys and state do not keep the rest of the result in memory", () => {
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    const padding = "x".repeat(500_000);
    const kept = Array.from({ length: 50 }, (_, index) =>
      readAsked(
        `"inputRequests":{"a key of question ${index}":${QUESTION}},"requestState":"a state of call ${index}","padding":"${padding}${index}"`,
      ),
    );
    const texts = kept.map((each) => (typeof each === "string" ? [] : [each.stateText, each.questions.map(({ keyText }) => keyText)]));
    kept.length = 0;
    collectGarbage();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(5_000_000);
    expect(texts).toHaveLength(50);
  });
});
