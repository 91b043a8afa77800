import { randomUUID } from "node:crypto";
import { applyEdits, setMembers } from "../../json/edit.ts";
import { findMembers, textOf } from "../../json/find.ts";
import { decodeString } from "../../json/strings.ts";
import { skipValue, walkMembers } from "../../json/walk.ts";
import { readMessage, type RequestMessage, type ResponseMessage, Slot } from "../../protocol/message.ts";
import { type AskKinds, AskKind, kindsOf } from "../asks/ask-kinds.ts";

const INPUT_REQUIRED = '"input_required"';

/** The maximum number of questions in one result. */
const MAX_QUESTIONS = 64;

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

export function isInputRequired({ outline }: ResponseMessage): boolean {
  return outline.textAt(Slot.resultType) === INPUT_REQUIRED;
}

/** @returns the reason if the result is invalid. */
export function readInputRequired({ text, outline }: ResponseMessage): InputRequired | string {
  const { spans, duplicate } = findMembers(text, outline.start(Slot.result), ["inputRequests", "requestState"]);
  const [requests, state] = spans;
  if (duplicate !== undefined) return `${duplicate} occurs twice`;
  if (state !== undefined && text[state.start] !== '"') return "requestState is no string";
  if (requests !== undefined && text[requests.start] !== "{") return "inputRequests is no object";
  if (requests === undefined && state === undefined) return "it has neither inputRequests nor requestState";
  const questions = requests === undefined ? [] : readQuestions(text, requests.start);
  return typeof questions === "string" ? questions : { questions, stateText: textOf(text, state) };
}

function readQuestions(text: string, start: number): Question[] | string {
  const questions: (Question | string)[] = [];
  const keys = new Set<string>();
  walkMembers(text, start, (keyStart, keyEnd, valueStart) => {
    const end = skipValue(text, valueStart);
    keys.add(decodeString(text, keyStart, keyEnd));
    questions.push(readQuestion(text.slice(keyStart, keyEnd), text.slice(valueStart, end)));
    return end;
  });
  if (keys.size < questions.length) return "a key of inputRequests occurs twice";
  if (questions.length > MAX_QUESTIONS) return `more than ${MAX_QUESTIONS} questions`;
  const read = questions.filter((question) => typeof question !== "string");
  return read.length < questions.length ? "a question has no known method, or no object as its params" : read;
}

/** @param text the `InputRequest`. */
function readQuestion(keyText: string, text: string): Question | string {
  if (!text.startsWith("{")) return "no object";
  const { spans, duplicate } = findMembers(text, 0, ["method", "params"]);
  const [method, params] = spans.map((span) => textOf(text, span));
  if (duplicate !== undefined || method === undefined || (params !== undefined && !params.startsWith("{"))) return "no request";
  const request = readMessage(`{"jsonrpc":"2.0","id":0,"method":${method},"params":${params ?? "{}"}}`, "server");
  const kinds = request.kind === "request" ? kindsOf(request) : 0;
  if (request.kind !== "request" || kinds === 0) return "no question";
  return { keyText, kinds, request: kinds === AskKind.url ? withElicitationId(request) : request };
}

/** In a session, an elicitation by URL has an id (MCP 2025-11-25, client/elicitation). */
function withElicitationId(request: RequestMessage): RequestMessage {
  const { text, outline } = request;
  const edits = setMembers(text, outline.start(Slot.params), [["elicitationId", JSON.stringify(randomUUID())]]);
  const edited = readMessage(applyEdits(text, edits), "server");
  return edited.kind === "request" ? edited : request;
}
