import { applyEdits, type Edit, firstMembers, withPlainNames } from "../json/edit.ts";
import { findMembers } from "../json/read.ts";
import {
  type InvalidMessage,
  type Message,
  type NotificationMessage,
  type Reading,
  readInSteps,
  type RequestMessage,
  type ResponseMessage,
  type SentText,
  Slot,
} from "./message.ts";

/** With `wireId` as its id and, if it has one, as its progress token. */
export function requestToServer(request: RequestMessage, wireId: number): string {
  const edits = editsOf(request, String(wireId), Slot.id, Slot.metaProgressToken);
  return messageToServer(request, request.edits === undefined ? edits : [...edits, ...request.edits]);
}

export function requestToClient(request: RequestMessage, id: number): string {
  return toOneLine(applyEdits(request.text, editsOf(request, String(id), Slot.id, Slot.metaProgressToken)));
}

/** @param text the id or token that the client knows, as JSON. */
export function notificationToClient(notification: NotificationMessage, slot: number, text: string): string {
  return toOneLine(applyEdits(notification.text, editsOf(notification, text, slot)));
}

export function responseToClient(response: ResponseMessage, idText: string): string {
  return applyEdits(response.text, editsOf(response, idText, Slot.id));
}

/** Undefined if the params are not an object. @param members JSON text. */
export function firstOfParams({ text, outline }: RequestMessage, members: string): Edit | undefined {
  if (!outline.has(Slot.params)) return firstMembers(text, text.indexOf("{"), `"params":{${members}}`);
  return outline.firstAt(Slot.params) === "{" ? firstMembers(text, outline.start(Slot.params), members) : undefined;
}

/** On one line. */
export function messageToServer({ text, outline }: Message, edits: readonly Edit[] = []): string {
  const edited = applyEdits(text, edits);
  return toOneLine(outline.hasEscapedName ? withPlainNames(edited) : edited, SERVER_LINE_ENDS);
}

export function editsOf({ outline }: SentText, text: string, ...slots: readonly number[]): Edit[] {
  const edits: Edit[] = [];
  for (const slot of slots) if (outline.has(slot)) edits.push({ start: outline.start(slot), end: outline.end(slot), text });
  return edits;
}

/** Newlines separate messages on stdio. In JSON text they can only be white space between tokens. */
const LINE_ENDS = [
  ["\n", " "],
  ["\r", " "],
] as const;
/** Some servers end a line at U+2028 and U+2029, which may be in strings. */
const SERVER_LINE_ENDS = [...LINE_ENDS, ["\u2028", String.raw`\u2028`], ["\u2029", String.raw`\u2029`]] as const;
/** A message may have millions of line ends, so parts of this length are split. */
const PART_LENGTH = 16 * 1024;

export function toOneLine(text: string, lineEnds: readonly (readonly [string, string])[] = LINE_ENDS): string {
  let line = text;
  for (const [lineEnd, by] of lineEnds) {
    if (!line.includes(lineEnd)) continue;
    let replaced = "";
    for (let start = 0; start < line.length; start += PART_LENGTH)
      replaced += line
        .slice(start, start + PART_LENGTH)
        .split(lineEnd)
        .join(by);
    line = replaced;
  }
  return line;
}

/** W3C Trace Context §3.2. Zeros are not valid ids, and ff is no version. */
const TRACEPARENT = /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/;
/** An entry of a list may be empty. W3C Trace Context §3.3. */
const TRACESTATE_ENTRY = /^(?:[a-z\d][a-z\d_*/@-]{0,255}=[ -+\--<>-~]{1,256})?$/;
const MAX_TRACESTATE_LENGTH = 512;
/** A key, a value and properties (W3C Baggage §3.2). */
const BAGGAGE_ENTRY = /^[!#$%&'*+\-.^_`|~\da-z]+[ \t]*=[ \t]*(?:[!#-+\--:<-[\]-~]+[ \t]*)?(?:;[!#-+\--:<-[\]-~ \t]*)*$/i;
const MAX_BAGGAGE_LENGTH = 8192;

/**
 * Returns the valid headers whose values reach the server in `_meta` (MCP 2026-07-28, basic, OpenTelemetry trace context). A state belongs
 * to its parent.
 */
export function traceContextOf(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): ReadonlyMap<string, string> | undefined {
  const { traceparent, tracestate, baggage } = headers;
  if (traceparent === undefined && baggage === undefined) return undefined;
  const context = new Map<string, string>();
  if (typeof traceparent === "string" && TRACEPARENT.test(traceparent)) {
    context.set("traceparent", traceparent);
    if (isList(tracestate, MAX_TRACESTATE_LENGTH, TRACESTATE_ENTRY)) context.set("tracestate", tracestate);
  }
  if (isList(baggage, MAX_BAGGAGE_LENGTH, BAGGAGE_ENTRY)) context.set("baggage", baggage);
  return context.size === 0 ? undefined : context;
}

function isList(text: string | readonly string[] | undefined, maxLength: number, entry: RegExp): text is string {
  if (typeof text !== "string" || text === "" || text.length > maxLength) return false;
  return text.split(",").every((each) => entry.test(each.trim()));
}

/**
 * The members that a client has set stay. Notifications have no span of their own. `initialize` is kept, and sent again to later processes.
 */
export function* addTraceContext(reading: Reading, context: ReadonlyMap<string, string>): Generator<undefined, Reading> {
  if (reading.kind !== "batch") return yield* addToMessage(reading, context);
  const messages: (Message | InvalidMessage)[] = [];
  for (const message of reading.messages) messages.push(yield* addToMessage(message, context));
  return { ...reading, messages };
}

/** Later edits rely on the outline of the edited text. */
function* addToMessage(
  message: Message | InvalidMessage,
  context: ReadonlyMap<string, string>,
): Generator<undefined, Message | InvalidMessage> {
  const edit = message.kind === "request" && message.method !== "initialize" ? traceEdit(message, context) : undefined;
  if (edit === undefined) return message;
  const edited = yield* readInSteps(applyEdits(message.text, [edit]));
  return edited.kind === "batch" ? message : edited;
}

function traceEdit(request: RequestMessage, context: ReadonlyMap<string, string>): Edit | undefined {
  const { text, outline } = request;
  const meta = outline.start(Slot.meta);
  if (meta !== -1 && outline.firstAt(Slot.meta) !== "{") return undefined;
  const [parent, state, baggage] = meta === -1 ? [] : findMembers(text, meta, ["traceparent", "tracestate", "baggage"]).spans;
  const isOwn = (key: string): boolean => (key === "baggage" ? baggage : (parent ?? state)) !== undefined;
  const added = [...context].filter(([key]) => !isOwn(key)).map(([key, value]) => `"${key}":${JSON.stringify(value)}`);
  if (added.length === 0) return undefined;
  return meta === -1 ? firstOfParams(request, `"_meta":{${added.join(",")}}`) : firstMembers(text, meta, added.join(","));
}
