import { applyEdits, removeMembers, setMembers } from "../json/edit.ts";
import { findElements, findMembers, findPath, stringOf, textOf } from "../json/read.ts";
import { decodeString, detached, shorten, walk } from "../json/text.ts";
import { AskKind, type AskKinds, AskMethod, capabilitiesFor, isSubset, kindsOf } from "./capabilities.ts";
import { SidecarError } from "./errors.ts";
import { MetaKey, readMessage, type RequestMessage, type ResponseMessage, Slot } from "./message.ts";

const INPUT_REQUIRED = "input_required";

/** A sampling may have images. In UTF-16 units. */
const MAX_QUESTIONS = 64;
const MAX_QUESTION_LENGTH = 4 * 1024 * 1024;

export interface InputRequest {
  readonly keyText: string;
  readonly kinds: AskKinds;
  /** Its id must not reach the client. */
  readonly request: RequestMessage;
}

/** MCP 2026-07-28, basic/utilities/mrtr. */
export interface InputRequired {
  /** Empty if the server just wants the request again. */
  readonly questions: readonly InputRequest[];
  readonly stateText: string | undefined;
}

export function isInputRequired({ outline, isError }: ResponseMessage): boolean {
  return !isError && outline.stringAt(Slot.resultType) === INPUT_REQUIRED;
}

/** @returns the reason if it is invalid. */
export function readInputRequired(text: string, result: number): InputRequired | string {
  const { spans, double } = findMembers(text, result, ["inputRequests", "requestState"]);
  const [requests, state] = spans;
  if (double !== undefined) return `${double} is ambiguous`;
  if (state !== undefined && text[state.start] !== '"') return "requestState is not a string";
  if (requests !== undefined && text[requests.start] !== "{") return "inputRequests is not an object";
  if (requests === undefined && state === undefined) return "it has neither inputRequests nor requestState";
  const questions = requests === undefined ? [] : readQuestions(text, requests.start);
  if (typeof questions === "string") return questions;
  return { questions, stateText: state === undefined ? undefined : detached(text.slice(state.start, state.end), text) };
}

/**
 * Returns the error in place of a result that asks a client without a session for what it has not declared. A task asks in the result of
 * `tasks/get`.
 */
export function checkQuestions(response: ResponseMessage, method: string, declared: AskKinds): SidecarError | undefined {
  const { text, outline } = response;
  const mayAsk = isInputRequired(response) || (method.startsWith("tasks/") && outline.firstAt(Slot.result) === "{");
  if (!mayAsk || findPath(text, outline.start(Slot.result), ["inputRequests"]) === undefined) return undefined;
  const asked = readInputRequired(text, outline.start(Slot.result));
  return typeof asked === "string" ? invalidQuestion(asked) : checkDeclared(asked.questions, declared);
}

/** MCP 2026-07-28, basic/utilities/mrtr. */
export function checkDeclared(questions: readonly InputRequest[], declared: AskKinds): SidecarError | undefined {
  const missing = questions.reduce((kinds, question) => kinds | (isSubset(question.kinds, declared) ? 0 : question.kinds), 0);
  return missing === 0 ? undefined : undeclared(missing);
}

export function invalidQuestion(reason: string): SidecarError {
  return questionFailed(`The MCP server asked an invalid question: ${reason}.`);
}

export function questionFailed(description: string): SidecarError {
  const message = `${description} The call was sent and may have taken effect; check before you repeat it.`;
  return new SidecarError("QUESTION_FAILED", message, { sent: true, retrySafe: false });
}

function readQuestions(text: string, start: number): InputRequest[] | string {
  const questions: InputRequest[] = [];
  const keys = new Set<string>();
  let problem: string | undefined;
  walk(text, start, (valueStart, end, keyStart, keyEnd) => {
    if (keys.size === MAX_QUESTIONS) problem = `more than ${MAX_QUESTIONS} questions`;
    else if (end - keyStart > MAX_QUESTION_LENGTH) problem = `a question has more than ${MAX_QUESTION_LENGTH} characters`;
    else if (keys.size === keys.add(decodeString(text, keyStart, keyEnd)).size) problem = "a key of inputRequests occurs twice";
    else {
      const question = readQuestion(detached(text.slice(keyStart, keyEnd), text), text.slice(valueStart, end));
      if (question === undefined) problem = "a question has an unknown method, or params that are not an object";
      else questions.push(question);
    }
    return problem === undefined ? undefined : false;
  });
  return problem ?? questions;
}

function readQuestion(keyText: string, text: string): InputRequest | undefined {
  if (!text.startsWith("{")) return undefined;
  const { spans, double } = findMembers(text, 0, ["method", "params"]);
  const [method, params] = spans.map((span) => textOf(text, span));
  if (double !== undefined || method === undefined || (params !== undefined && !params.startsWith("{"))) return undefined;
  const request = readMessage(`{"jsonrpc":"2.0","id":0,"method":${method},"params":${params ?? "{}"}}`);
  const kinds = request.kind === "request" ? kindsOf(request) : 0;
  if (request.kind !== "request" || kinds === 0) return undefined;
  return { keyText, kinds, request };
}

/** In a session, an elicitation by URL has an id (MCP 2025-11-25, client/elicitation). */
export function withElicitationId({ kinds, request }: InputRequest, id: string): RequestMessage {
  const { text, outline } = request;
  if (kinds !== AskKind.url) return request;
  const edits = setMembers(text, outline.start(Slot.params), [["elicitationId", JSON.stringify(id)]]);
  const edited = readMessage(applyEdits(text, edits));
  return edited.kind === "request" ? edited : request;
}

/** These belong to its connection or to a revision with sessions. */
const REMOVED_PARAMS: ReadonlySet<string> = new Set(["task", "elicitationId"]);
const REMOVED_META: ReadonlySet<string> = new Set(["progressToken", MetaKey.relatedTask]);
const ACTIONS: ReadonlySet<string | undefined> = new Set(["accept", "decline", "cancel"]);

const ANSWER_MEMBERS: Readonly<Record<string, readonly string[]>> = {
  [AskMethod.elicitation]: ["action", "content"],
  [AskMethod.sampling]: ["role", "content", "model"],
  [AskMethod.roots]: ["roots"],
};

const PLAIN_KEY = /^(?!__proto__$)[\w.:/-]{1,64}$/;

/** Returns the question as a client without a session gets it (MCP 2026-07-28, basic/utilities/mrtr, InputRequest). */
export function embeddedText({ method, outline }: RequestMessage): string {
  const params = outline.textAt(Slot.params) ?? "{}";
  const edits = removeMembers(params, 0, (name) => REMOVED_PARAMS.has(name));
  const meta = findPath(params, 0, ["_meta"]);
  edits.push(...removeMembers(params, meta?.start ?? -1, (name) => REMOVED_META.has(name)));
  return `{"method":${JSON.stringify(method)},"params":${applyEdits(params, edits)}}`;
}

/** A server may choose the key of its question by a plain string as the id. */
export function chosenKey(id: unknown): string | undefined {
  return typeof id === "string" && PLAIN_KEY.test(id) ? id : undefined;
}

export function keyOf(id: unknown, taken: ReadonlySet<string>): string {
  const wanted = chosenKey(id) ?? `ask-${typeof id === "number" ? id : "text"}`;
  let key = wanted;
  for (let number = 2; taken.has(key); number++) key = `${wanted}-${number}`;
  return key;
}

/** Servers may not validate an answer again. */
export function isAnswer(method: string, text: string): boolean {
  if (!text.startsWith("{")) return false;
  const { spans, double } = findMembers(text, 0, ANSWER_MEMBERS[method] ?? []);
  if (double !== undefined) return false;
  const [first, content, model] = spans;
  const contentStart = content === undefined ? "" : text[content.start];
  if (method === AskMethod.roots) return first !== undefined && text[first.start] === "[";
  if (method === AskMethod.elicitation) return ACTIONS.has(stringOf(text, first)) && (contentStart === "" || contentStart === "{");
  const isRole = ["assistant", "user"].includes(stringOf(text, first) ?? "");
  return isRole && (contentStart === "{" || contentStart === "[") && stringOf(text, model) !== undefined;
}

const MAX_ANSWERS = 256;
/** Answers that come before the questions are kept. In UTF-16 units. */
const MAX_EARLY_LENGTH = 16 * 1024;

/** Long ones are ignored: the client is asked then. */
export function earlyAnswersOf(request: RequestMessage): ReadonlyMap<string, string> {
  const span = request.outline.span(Slot.inputResponses);
  if (span === undefined || span.end - span.start > MAX_EARLY_LENGTH) return new Map();
  return new Map([...answersOf(request)].map(([key, text]) => [key, detached(text, request.text)]));
}

/** Returns JSON texts by key. An ambiguous key has none. */
export function answersOf({ text, outline }: RequestMessage): ReadonlyMap<string, string> {
  const answers = new Map<string, string>();
  const ambiguous = new Set<string>();
  if (outline.firstAt(Slot.inputResponses) !== "{") return answers;
  walk(text, outline.start(Slot.inputResponses), (valueStart, end, keyStart, keyEnd) => {
    const key = decodeString(text, keyStart, keyEnd);
    if (answers.has(key)) ambiguous.add(key);
    if (answers.size < MAX_ANSWERS) answers.set(key, text.slice(valueStart, end));
  });
  for (const key of ambiguous) answers.delete(key);
  return answers;
}

const MAX_TEXT_LENGTH = 300;

/**
 * Returns the error for a failure of the server after it was refused questions of the `missing` kinds (MCP 2026-07-28, basic,
 * MissingRequiredClientCapability).
 */
export function missingCapability(body: string, missing: AskKinds): SidecarError | undefined {
  const reason = missing === 0 ? undefined : failureText(body);
  return reason === undefined ? undefined : undeclared(missing, `, and then failed: ${reason}`);
}

function undeclared(missing: AskKinds, consequence = ""): SidecarError {
  const requiredCapabilities = capabilitiesFor(missing);
  const names = Object.keys(requiredCapabilities).join(", ");
  const message = `The MCP server asked a question that this client has not declared (${names})${consequence}. The call was sent and may have taken effect.`;
  return new SidecarError("MISSING_CAPABILITY", message, { sent: true, requiredCapabilities });
}

function failureText(body: string): string | undefined {
  const [error, result] = findMembers(body, 0, ["error", "result"]).spans;
  const isError = result !== undefined && textOf(body, findPath(body, result.start, ["isError"])) === "true";
  if (error === undefined && !isError) return undefined;
  const content = result && findPath(body, result.start, ["content"]);
  const first = content === undefined || body[content.start] !== "[" ? undefined : findElements(body, content.start, 1)[0];
  const text = stringOf(
    body,
    error === undefined ? first && findPath(body, first.start, ["text"]) : findPath(body, error.start, ["message"]),
  );
  return text === undefined ? "no reason given" : shorten(text, MAX_TEXT_LENGTH);
}
