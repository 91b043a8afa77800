import { randomUUID } from "node:crypto";
import { applyEdits, setMembers } from "../../json/edit.ts";
import { SidecarError } from "../../errors.ts";
import { findMembers, stringOf, textOf } from "../../json/find.ts";
import { decodeString, detached } from "../../json/strings.ts";
import { skipValue, STOP, walkMembers } from "../../json/walk.ts";
import { readMessage, type RequestMessage, type ResponseMessage, Slot } from "../../protocol/message.ts";
import { type AskKinds, AskKind, capabilitiesFor, isSubset, kindsOf } from "../asks/ask-kinds.ts";
import type { FoundResult } from "../results/found-result.ts";

const INPUT_REQUIRED = "input_required";

/** The maximum number of questions in one result, and of UTF-16 units of each. A sampling may have images. */
const MAX_QUESTIONS = 64;
const MAX_QUESTION_LENGTH = 4 * 1024 * 1024;

/** A question of a server without sessions for the client of a session. */
export interface Question {
  /** The JSON text of its key. */
  readonly keyText: string;
  readonly kinds: AskKinds;
  /** The question as an ordinary request, with an id that the client must not get. */
  readonly request: RequestMessage;
}

/** The result `input_required` (MCP 2026-07-28, basic/utilities/mrtr). */
export interface InputRequired {
  /** Empty if the server just wants the request again. */
  readonly questions: readonly Question[];
  /** The JSON text of the state for the next request; undefined for none. */
  readonly stateText: string | undefined;
}

export function isInputRequired({ outline, isError }: ResponseMessage): boolean {
  return !isError && outline.stringAt(Slot.resultType) === INPUT_REQUIRED;
}

/** @param result the start of the result in the text. @returns the reason if it is invalid. */
export function readInputRequired(text: string, result: number): InputRequired | string {
  const { spans, duplicate } = findMembers(text, result, ["inputRequests", "requestState"]);
  const [requests, state] = spans;
  if (duplicate !== undefined) return `${duplicate} occurs twice`;
  if (state !== undefined && text[state.start] !== '"') return "requestState is not a string";
  if (requests !== undefined && text[requests.start] !== "{") return "inputRequests is not an object";
  if (requests === undefined && state === undefined) return "it has neither inputRequests nor requestState";
  const questions = requests === undefined ? [] : readQuestions(text, requests.start);
  if (typeof questions === "string") return questions;
  return { questions, stateText: state === undefined ? undefined : detached(text.slice(state.start, state.end), text) };
}

/**
 * Returns the error in place of a result that asks a client without a session for what it has not declared: the server does not know if it can
 * answer. A task asks in the result of `tasks/get`.
 */
export function checkQuestions({ text, result, resultType }: FoundResult, method: string, declared: AskKinds): SidecarError | undefined {
  const mayAsk = stringOf(text, resultType) === INPUT_REQUIRED || (method.startsWith("tasks/") && text[result.start] === "{");
  if (!mayAsk || findMembers(text, result.start, ["inputRequests"]).spans[0] === undefined) return undefined;
  const asked = readInputRequired(text, result.start);
  return typeof asked === "string" ? invalidQuestion(asked) : checkDeclared(asked.questions, declared);
}

/** Returns the error for questions of kinds that a client has not declared (MCP 2026-07-28, basic/utilities/mrtr). */
export function checkDeclared(questions: readonly Question[], declared: AskKinds): SidecarError | undefined {
  const missing = questions.reduce((kinds, question) => kinds | (isSubset(question.kinds, declared) ? 0 : question.kinds), 0);
  if (missing === 0) return undefined;
  const requiredCapabilities = capabilitiesFor(missing);
  const names = Object.keys(requiredCapabilities).join(", ");
  const message = `The MCP server asked a question that this client has not declared (${names}). The call was sent and may have taken effect.`;
  return new SidecarError("MISSING_CAPABILITY", message, { sent: true, requiredCapabilities });
}

export function invalidQuestion(reason: string): SidecarError {
  return questionFailed(`The MCP server asked an invalid question: ${reason}.`);
}

export function questionFailed(description: string): SidecarError {
  const message = `${description} The call was sent and may have taken effect; check before you repeat it.`;
  return new SidecarError("QUESTION_FAILED", message, { sent: true, retrySafe: false });
}

function readQuestions(text: string, start: number): Question[] | string {
  const questions: (Question | undefined)[] = [];
  const keys = new Set<string>();
  let excess: string | undefined;
  walkMembers(text, start, (keyStart, keyEnd, valueStart) => {
    const end = skipValue(text, valueStart);
    if (questions.length === MAX_QUESTIONS) excess = `more than ${MAX_QUESTIONS} questions`;
    if (end - keyStart > MAX_QUESTION_LENGTH) excess = `a question has more than ${MAX_QUESTION_LENGTH} characters`;
    if (excess !== undefined) return STOP;
    keys.add(decodeString(text, keyStart, keyEnd));
    questions.push(readQuestion(detached(text.slice(keyStart, keyEnd), text), text.slice(valueStart, end)));
    return end;
  });
  if (excess !== undefined) return excess;
  if (keys.size < questions.length) return "a key of inputRequests occurs twice";
  const read = questions.filter((question) => question !== undefined);
  return read.length < questions.length ? "a question has an unknown method, or params that are not an object" : read;
}

/** @param text the `InputRequest`. @returns undefined if it is invalid. */
function readQuestion(keyText: string, text: string): Question | undefined {
  if (!text.startsWith("{")) return undefined;
  const { spans, duplicate } = findMembers(text, 0, ["method", "params"]);
  const [method, params] = spans.map((span) => textOf(text, span));
  if (duplicate !== undefined || method === undefined || (params !== undefined && !params.startsWith("{"))) return undefined;
  const request = readMessage(`{"jsonrpc":"2.0","id":0,"method":${method},"params":${params ?? "{}"}}`, "server");
  const kinds = request.kind === "request" ? kindsOf(request) : 0;
  if (request.kind !== "request" || kinds === 0) return undefined;
  return { keyText, kinds, request: kinds === AskKind.url ? withElicitationId(request) : request };
}

/** In a session, an elicitation by URL has an id (MCP 2025-11-25, client/elicitation). */
function withElicitationId(request: RequestMessage): RequestMessage {
  const { text, outline } = request;
  const edits = setMembers(text, outline.start(Slot.params), [["elicitationId", JSON.stringify(randomUUID())]]);
  const edited = readMessage(applyEdits(text, edits), "server");
  return edited.kind === "request" ? edited : request;
}
