import { createHash } from "node:crypto";
import { applyEdits, removeMembers } from "../json/edit.ts";
import { findElements, findMembers, findPath, stringOf } from "../json/find.ts";
import { decodeString, detached, shorten, skipValue, walkMembers } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { type AskKinds, AskMethod, capabilitiesFor, isSubset, kindsOf } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode, SidecarError } from "../mcp/errors.ts";
import { type RequestMessage, Slot } from "../mcp/message.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import type { ServerAsk } from "../session/reply.ts";

/** The methods in whose result a server may ask the client (MCP 2026-07-28, basic/utilities/mrtr). */
export const ASKING_METHODS: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);

interface OpenAsk {
  readonly ask: ServerAsk;
  readonly kinds: AskKinds;
  /** The JSON text for the `inputRequests` of the client, without the key. */
  readonly text: string;
  readonly memory: Reservation;
  /** True if the client has got it. A key alone could be that of a question that the server has withdrawn. */
  isShown: boolean;
}

/** The params of a question that belong to its connection or to a revision with sessions. */
const REMOVED_PARAMS: ReadonlySet<string> = new Set(["task", "elicitationId"]);
const REMOVED_META: ReadonlySet<string> = new Set(["progressToken", "io.modelcontextprotocol/related-task"]);
const ACTIONS: ReadonlySet<string | undefined> = new Set(["accept", "decline", "cancel"]);

const ANSWER_MEMBERS: Readonly<Record<string, readonly string[]>> = {
  [AskMethod.elicitation]: ["action", "content"],
  [AskMethod.sampling]: ["role", "content", "model"],
  [AskMethod.roots]: ["roots"],
};

/** A string id of a server that is also a good key. */
const PLAIN_KEY = /^(?!__proto__$)[\w.:/-]{1,64}$/;

/** Returns a server's request as a client without a session gets it (MCP 2026-07-28, basic/utilities/mrtr, InputRequest). */
function embeddedText({ method, text, outline }: RequestMessage): string {
  const params = outline.span(Slot.params);
  if (params === undefined) return `{"method":${JSON.stringify(method)},"params":{}}`;
  const part = text.slice(params.start, params.end);
  const edits = removeMembers(part, 0, (name) => REMOVED_PARAMS.has(name));
  const meta = findMembers(part, 0, ["_meta"]).spans[0];
  if (meta !== undefined && part[meta.start] === "{") edits.push(...removeMembers(part, meta.start, (name) => REMOVED_META.has(name)));
  return `{"method":${JSON.stringify(method)},"params":${applyEdits(part, edits)}}`;
}

/** Returns the key that a server has chosen for its question by the id: a plain string. Undefined for any other id, such as a number. */
function chosenKey({ id }: RequestMessage): string | undefined {
  return typeof id === "string" && PLAIN_KEY.test(id) ? id : undefined;
}

function keyOf(request: RequestMessage, taken: Pick<ReadonlySet<string>, "has">): string {
  const { id } = request;
  const wanted = chosenKey(request) ?? `ask-${typeof id === "number" ? id : "text"}`;
  let key = wanted;
  for (let number = 2; taken.has(key); number++) key = `${wanted}-${number}`;
  return key;
}

/** True if a client's answer has the form that the server needs. Servers may not validate it again. */
function isAnswer({ ask }: OpenAsk, text: string): boolean {
  if (!text.startsWith("{")) return false;
  const { method } = ask.request;
  const { spans, duplicate, otherCase } = findMembers(text, 0, ANSWER_MEMBERS[method] ?? []);
  if (duplicate !== undefined || otherCase !== undefined) return false;
  const [first, content, model] = spans;
  const contentStart = content === undefined ? "" : text[content.start];
  if (method === AskMethod.roots) return first !== undefined && text[first.start] === "[";
  if (method === AskMethod.elicitation) return ACTIONS.has(stringOf(text, first)) && (contentStart === "" || contentStart === "{");
  const isRole = ["assistant", "user"].includes(stringOf(text, first) ?? "");
  return isRole && (contentStart === "{" || contentStart === "[") && stringOf(text, model) !== undefined;
}

/** A question is kept as the server's request, and as the text for the client. */
const ASK_COPIES = 2;

/** The questions of one call that are not answered. Each is answered or withdrawn once. */
export class OpenAsks {
  readonly #memory: MemoryAccount;
  /** Those that the client can answer, by key. */
  readonly #asks = new Map<string, OpenAsk>();

  /** Answers that the client has sent with its first request, by key. Each is used once. */
  readonly #early: Map<string, string>;

  constructor(memory: MemoryAccount, early: ReadonlyMap<string, string>) {
    this.#memory = memory;
    this.#early = new Map(early);
  }

  get isEmpty(): boolean {
    return this.#asks.size === 0;
  }

  /** Returns the JSON texts for the client, each with its key. Marks them as shown. */
  show(): string[] {
    for (const open of this.#asks.values()) open.isShown = true;
    return [...this.#asks].map(([key, { text }]) => `${JSON.stringify(key)}:${text}`);
  }

  add(ask: ServerAsk): void {
    const { request } = ask;
    const kinds = kindsOf(request);
    const memory = this.#memory.reserve("requests", ASK_COPIES * textMemoryBytes(request.text));
    if (memory === undefined) return refuse(ask, "The sidecar has no memory left for this question");
    const key = keyOf(request, this.#asks);
    const open = { ask, kinds, text: embeddedText(request), memory, isShown: false };
    this.#asks.set(key, open);
    // Another key could be that of another question in each call.
    const early = key === chosenKey(request) ? this.#early.get(key) : undefined;
    this.#early.delete(key);
    if (early !== undefined && isAnswer(open, early)) this.#take(key, open).answer("result", early);
  }

  withdraw(ask: ServerAsk): void {
    for (const [key, open] of this.#asks) if (open.ask === ask) this.#take(key, open);
  }

  /** Sends the server the valid answers to questions that the client was shown. @returns the kinds that are refused: the client no longer declares them. */
  answer(answers: ReadonlyMap<string, string>, declared: AskKinds): AskKinds {
    let refused: AskKinds = 0;
    for (const [key, open] of this.#asks) {
      const text = open.isShown ? answers.get(key) : undefined;
      if (text !== undefined && isAnswer(open, text)) this.#take(key, open).answer("result", text);
      else if (!isSubset(open.kinds, declared)) {
        refused |= open.kinds;
        refuse(this.#take(key, open), "The client no longer declares this capability");
      }
    }
    return refused;
  }

  refuse(reason: string): void {
    for (const [key, open] of this.#asks) refuse(this.#take(key, open), reason);
  }

  /** Answers in place of a client that has not come back. */
  expire(): void {
    for (const [key, open] of this.#asks) {
      const ask = this.#take(key, open);
      // An elicitation can be cancelled, a sampling cannot.
      if (ask.request.method === AskMethod.elicitation) ask.answer("result", '{"action":"cancel"}');
      else ask.answer("error", '{"code":-1,"message":"The client did not answer in time"}');
    }
  }

  showProgress(): void {
    for (const { ask } of this.#asks.values()) ask.showProgress();
  }

  #take(key: string, { ask, memory }: OpenAsk): ServerAsk {
    memory.release();
    this.#asks.delete(key);
    return ask;
  }
}

function refuse(ask: ServerAsk, message: string): void {
  ask.answer("error", JSON.stringify({ code: JsonRpcErrorCode.InvalidRequest, message }));
}

/** The maximum number of answers that are read from one request. */
const MAX_ANSWERS = 256;
/** Answers that come before the questions are kept. In UTF-16 units. */
const MAX_EARLY_LENGTH = 16 * 1024;

/** Returns the answers of a first request, without the text that they are from. Long ones are ignored: the client is asked then. */
export function earlyAnswersOf(request: RequestMessage): ReadonlyMap<string, string> {
  const span = request.outline.span(Slot.inputResponses);
  if (span === undefined || span.end - span.start > MAX_EARLY_LENGTH) return new Map();
  return new Map([...answersOf(request)].map(([key, text]) => [key, detached(text, request.text)]));
}

/** Returns the answers of a request by key, as JSON texts. An ambiguous key has none. */
export function answersOf({ text, outline }: RequestMessage): ReadonlyMap<string, string> {
  const answers = new Map<string, string>();
  const ambiguous = new Set<string>();
  if (!outline.isObject(Slot.inputResponses)) return answers;
  walkMembers(text, outline.start(Slot.inputResponses), (keyStart, keyEnd, valueStart) => {
    const end = skipValue(text, valueStart);
    const key = decodeString(text, keyStart, keyEnd);
    if (answers.has(key)) ambiguous.add(key);
    if (answers.size < MAX_ANSWERS) answers.set(key, text.slice(valueStart, end));
    return end;
  });
  for (const key of ambiguous) answers.delete(key);
  return answers;
}

const MAX_TEXT_LENGTH = 300;

/**
 * Returns the error in place of a response, if the server has failed after it was refused a question (MCP 2026-07-28, basic,
 * MissingRequiredClientCapability). A server that does without the answer has a result.
 *
 * @param missing the kinds of the questions that were refused because the client has not declared them. @returns undefined for a result.
 */
export function missingCapability(body: string, missing: AskKinds): SidecarError | undefined {
  const reason = missing === 0 ? undefined : failureText(body);
  if (reason === undefined) return undefined;
  return undeclared(missing, `, and then failed: ${reason}`);
}

/** Returns the error for questions of these kinds, which a client has not declared. @param consequence follows in the message. */
export function undeclared(missing: AskKinds, consequence = ""): SidecarError {
  const requiredCapabilities = capabilitiesFor(missing);
  const names = Object.keys(requiredCapabilities).join(", ");
  const message = `The MCP server asked a question that this client has not declared (${names})${consequence}. The call was sent and may have taken effect.`;
  return new SidecarError("MISSING_CAPABILITY", message, { sent: true, requiredCapabilities });
}

/** Returns the text of a JSON-RPC error, or of a result with `isError`; undefined for any other response. */
function failureText(body: string): string | undefined {
  const [error, result] = findMembers(body, 0, ["error", "result"]).spans;
  const isError = result === undefined ? undefined : findPath(body, result.start, ["isError"]);
  if (error === undefined && (isError === undefined || readValue(body, isError) !== true)) return undefined;
  const content = result === undefined ? undefined : findPath(body, result.start, ["content"]);
  const first = content === undefined || body[content.start] !== "[" ? undefined : findElements(body, content.start, 1)[0];
  const span = error === undefined ? first && findPath(body, first.start, ["text"]) : findPath(body, error.start, ["message"]);
  const text = span === undefined ? undefined : readValue(body, span);
  return typeof text === "string" ? shorten(text, MAX_TEXT_LENGTH) : "no reason given";
}

/** Returns a text that is the same only for requests with the same method, name and arguments. */
export function bindingOf({ method, text, outline }: RequestMessage): string {
  const spans = [Slot.toolName, Slot.uri, Slot.arguments].map((slot) => outline.span(slot));
  const parts = spans.map((span) => span && text.slice(span.start, span.end));
  return createHash("sha256")
    .update(JSON.stringify([method, ...parts]))
    .digest("base64");
}
