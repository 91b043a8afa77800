import { resultText } from "./json-rpc.ts";
import type { ModernCall, ModernReply } from "./modern-client.ts";

/** The questions of the fixture's tool `ask_all`, and the answers to them. */

export const FORM_ELICITATION = { elicitation: {} };
export const URL_ELICITATION = { elicitation: { url: {} } };
export const SAMPLING = { sampling: {} };
export const ALL_QUESTIONS = { elicitation: { form: {}, url: {} }, sampling: { tools: {} } };

export const ACCEPTED = { action: "accept", content: { name: "Ann" } };
export const SAMPLED = { role: "assistant", content: { type: "text", text: "hi" }, model: "m" };

interface Question {
  readonly id: string | number;
  readonly method: string;
  readonly params: object;
  readonly askAt?: string;
  readonly withdrawAt?: string;
}

type Times = Pick<Question, "askAt" | "withdrawAt">;

export function elicitation(id: string | number, params: object = {}, times: Times = {}): Question {
  return {
    id,
    method: "elicitation/create",
    params: { message: "Your name?", requestedSchema: { type: "object", properties: {} }, ...params },
    ...times,
  };
}

export function sampling(id: string | number, params: object = {}, times: Times = {}): Question {
  return { id, method: "sampling/createMessage", params: { messages: [], maxTokens: 1, ...params }, ...times };
}

interface InputRequired {
  readonly resultType: string;
  readonly inputRequests: Readonly<Record<string, { readonly method: string; readonly params: Readonly<Record<string, unknown>> }>>;
  readonly requestState: string;
}

/** Returns the result of a call that asks its client. @throws if it is another one. */
export function inputRequired(reply: ModernReply): InputRequired {
  const result = reply.result as InputRequired | undefined;
  if (result?.resultType !== "input_required")
    throw new Error(`no questions: ${reply.status} ${JSON.stringify(reply.result ?? reply.error)}`);
  return result;
}

/** Returns the part of a request that answers all questions of a result in the same way. */
export function answering(reply: ModernReply, answer: unknown = ACCEPTED): Pick<ModernCall, "inputResponses" | "requestState"> {
  const { inputRequests, requestState } = inputRequired(reply);
  return { requestState, inputResponses: Object.fromEntries(Object.keys(inputRequests).map((key) => [key, answer])) };
}

export function answersOf(reply: ModernReply): unknown {
  return JSON.parse(resultText(reply));
}

/** The failure of a request whose state is not valid, or no longer. */
export const UNKNOWN_STATE = [200, -32602, "REQUEST_STATE_INVALID"];
