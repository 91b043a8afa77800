import { expect, it } from "vitest";
import { type InputRequired, isInputRequired, readInputRequired } from "../../../src/mcp/questions.ts";
import { readMessage, type ResponseMessage, Slot } from "../../../src/mcp/message.ts";

const QUESTION = '{"method":"elicitation/create","params":{"message":"?","requestedSchema":{}}}';

function response(members: string): ResponseMessage {
  const message = readMessage(`{"jsonrpc":"2.0","id":1,${members}}`);
  if (message.kind !== "response") throw new Error("no response");
  return message;
}

function readAsked(members: string): InputRequired | string {
  const { text, outline } = response(`"result":{"resultType":"input_required",${members}}`);
  return readInputRequired(text, outline.start(Slot.result));
}

it.each([
  ['"result":{"resultType":"input_required"}', true],
  [String.raw`"result":{"resultType":"input_\u0072equired"}`, true],
  ['"result":{"resultType":"complete"}', false],
  ['"result":{}', false],
  ['"result":{"resultType":"input_required"},"error":{"code":1,"message":"no"}', false],
])("%s: %s", (members, expected) => {
  expect(isInputRequired(response(members))).toBe(expected);
});

it.each([
  [`"inputRequests":{${Array.from({ length: 65 }, (_, index) => `"${index}":${QUESTION}`).join(",")}}`, "more than 64 questions"],
  [`"inputRequests":{"q":{"method":"roots/list","params":{"x":"${"x".repeat(4 << 20)}"}}}`, "a question has more than 4194304 characters"],
  [String.raw`"inputRequests":{"q":${QUESTION},"\u0071":${QUESTION}}`, "a key of inputRequests occurs twice"],
  [`"inputRequests":{"q":${QUESTION}},"inputRequests":{}`, "inputRequests is ambiguous"],
  ['"requestState":1', "requestState is not a string"],
  ['"inputRequests":[]', "inputRequests is not an object"],
  ['"a":1', "it has neither inputRequests nor requestState"],
])("%.40s… is invalid", (members, reason) => {
  expect(readAsked(members)).toBe(reason);
});
