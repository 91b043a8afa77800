// The tool that asks its client before it responds: by a request, or without sessions by a result.

import { ASK_TOOL, ASKED_KEY, type AskAnswer, isAskAnswer, questionOf } from "../contract.ts";
import { answerLine, type Call } from "./call.ts";
import { isModern } from "./era.ts";
import { say, sayLine } from "./output.ts";

export interface AskingCall extends Call {
  /** The client's answers in its request; undefined for none. */
  readonly inputResponses: Readonly<Record<string, unknown>> | undefined;
}

const asked = new Map<string, Call>();
let lastNumber = 0;

export function ask(call: AskingCall): void {
  const params = { mode: "form", message: questionOf(call.arguments), requestedSchema: { type: "object", properties: {} } };
  if (!isModern()) {
    const id = `${ASK_TOOL}-${process.pid}-${++lastNumber}`;
    asked.set(id, call);
    return say({ id, method: "elicitation/create", params });
  }
  const answer = call.inputResponses?.[ASKED_KEY];
  if (answer !== undefined) return respond(call, answer);
  const inputRequests = { [ASKED_KEY]: { method: "elicitation/create", params } };
  say({ id: call.id, result: { resultType: "input_required", inputRequests } });
}

/** Handles a response to one of the questions. */
export function onAnswer(id: string | number, result: unknown): void {
  const call = asked.get(String(id));
  asked.delete(String(id));
  if (call !== undefined) respond(call, result);
}

/** The answer to another question makes the response wrong. A question that was refused does not matter. */
function respond(call: Call, answer: unknown): void {
  const isForeign = isAskAnswer(answer) && answer.content.question !== questionOf(call.arguments);
  const { text } = call.arguments;
  sayLine(
    answerLine({
      ...call,
      arguments: { ...call.arguments, text: isForeign ? `the answer to ${(answer satisfies AskAnswer).content.question}` : text },
    }),
  );
}
