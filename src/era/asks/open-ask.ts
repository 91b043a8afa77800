import { applyEdits, removeMembers } from "../../json/edit.ts";
import { findMembers, stringOf } from "../../json/find.ts";
import { type RequestMessage, Slot } from "../../protocol/message.ts";
import type { ServerAsk } from "../../sessions/asking.ts";
import type { Reservation } from "../../memory/memory-budget.ts";
import { type AskKinds, AskMethod } from "./ask-kinds.ts";

/** A question that the client has not answered yet. */
export interface OpenAsk {
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
export function embeddedText({ method, text, outline }: RequestMessage): string {
  const params = outline.span(Slot.params);
  if (params === undefined) return `{"method":${JSON.stringify(method)},"params":{}}`;
  const part = text.slice(params.start, params.end);
  const edits = removeMembers(part, 0, (name) => REMOVED_PARAMS.has(name));
  const meta = findMembers(part, 0, ["_meta"]).spans[0];
  if (meta !== undefined && part[meta.start] === "{") edits.push(...removeMembers(part, meta.start, (name) => REMOVED_META.has(name)));
  return `{"method":${JSON.stringify(method)},"params":${applyEdits(part, edits)}}`;
}

/** Returns the key that a server has chosen for its question by the id: a plain string. Undefined for any other id, such as a number. */
export function chosenKey({ id }: RequestMessage): string | undefined {
  return typeof id === "string" && PLAIN_KEY.test(id) ? id : undefined;
}

/** Returns the key of a question. @param taken keys of other questions. */
export function keyOf(request: RequestMessage, taken: Pick<ReadonlySet<string>, "has">): string {
  const { id } = request;
  const wanted = chosenKey(request) ?? `ask-${typeof id === "number" ? id : "text"}`;
  let key = wanted;
  for (let number = 2; taken.has(key); number++) key = `${wanted}-${number}`;
  return key;
}

/** True if a client's answer has the form that the server needs. Servers may not validate it again. */
export function isAnswer({ ask }: OpenAsk, text: string): boolean {
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

/** Returns the answer in place of a client that gives none in time: an elicitation can be cancelled, a sampling cannot. */
export function answerExpired({ ask }: OpenAsk): void {
  if (ask.request.method === AskMethod.elicitation) ask.answer("result", '{"action":"cancel"}');
  else ask.answer("error", '{"code":-1,"message":"The client did not answer in time"}');
}
