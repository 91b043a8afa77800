import { findMembers, findPath, type Outline, textOf } from "../json/read.ts";
import { shorten, utf8Length } from "../json/text.ts";
import {
  type Batch,
  BATCH_REASON,
  findAmbiguity,
  type InvalidMessage,
  LONG_TEXT_LENGTH,
  type Message,
  MetaKey,
  type NotificationMessage,
  Slot,
  unambiguousId,
} from "./message.ts";

export interface ClientMessageProblem {
  readonly code: "PARSE_ERROR" | "INVALID_REQUEST" | "INVALID_PARAMS";
  readonly reason: string;
  readonly idText: string | undefined;
}

export const BATCH_REFUSED: ClientMessageProblem = { code: "INVALID_REQUEST", reason: BATCH_REASON, idText: undefined };

const MAX_BATCH_LENGTH = 100;
/** The most bytes of UTF-8 for one UTF-16 unit. */
const MAX_UNIT_BYTES = 3;
const MAX_ID_BYTES = 1024;
const MAX_NAME_BYTES = 1024;
const MAX_URI_BYTES = 8 * 1024;

const ENVELOPE = { jsonrpc: Slot.jsonrpc, id: Slot.id, method: Slot.method, params: Slot.params } as const;
/** These ids are rewritten for the server. Any other could be that of another client's request. */
const REWRITTEN = { _meta: Slot.meta, requestId: Slot.requestId, progressToken: Slot.progressToken } as const;
const OF_META = { progressToken: Slot.metaProgressToken, [MetaKey.protocolVersion]: Slot.metaVersion } as const;

const TYPES = {
  "a string": (text) => text.startsWith('"'),
  "a number": (text) => /^[-\d]/.test(text),
  "a string or an integer": (text) => text.startsWith('"') || (/^[-\d]/.test(text) && Math.trunc(Number(text)) === Number(text)),
} as const satisfies Record<string, (text: string) => boolean>;

/** Official servers act on these notifications. */
const PARAMS_OF_NOTIFICATION: ReadonlyMap<string, Readonly<Record<string, keyof typeof TYPES>>> = new Map([
  ["notifications/cancelled", { requestId: "a string or an integer", reason: "a string" }],
  ["notifications/progress", { progressToken: "a string or an integer", progress: "a number", total: "a number", message: "a string" }],
]);
const REQUIRED_PARAMS: ReadonlySet<string> = new Set(["progressToken", "progress"]);

/** The most bytes of JSON texts that are kept, logged or compared. */
const LIMITS: readonly (readonly [name: string, slot: number, maxBytes: number])[] = [
  ["id", Slot.id, MAX_ID_BYTES],
  ["method", Slot.method, MAX_NAME_BYTES],
  ["progressToken", Slot.metaProgressToken, MAX_ID_BYTES],
  ["progressToken", Slot.progressToken, MAX_ID_BYTES],
  ["requestId", Slot.requestId, MAX_ID_BYTES],
];
const LIMIT_OF_METHOD: ReadonlyMap<string, (typeof LIMITS)[number]> = new Map([
  ["tools/call", ["name", Slot.toolName, MAX_NAME_BYTES]],
  ["prompts/get", ["name", Slot.toolName, MAX_NAME_BYTES]],
  ["resources/subscribe", ["uri", Slot.uri, MAX_URI_BYTES]],
  ["resources/unsubscribe", ["uri", Slot.uri, MAX_URI_BYTES]],
  ["logging/setLevel", ["level", Slot.level, MAX_NAME_BYTES]],
]);
/** A shorter text exceeds no limit, and most are shorter. */
const MIN_EXCEEDING_LENGTH = Math.min(MAX_ID_BYTES, MAX_NAME_BYTES, MAX_URI_BYTES) / MAX_UNIT_BYTES;
/** `notifications/initialized` is kept. */
const MAX_INITIALIZED_BYTES = 64 * 1024;

/**
 * Rejects what the schemas of the protocol forbid for every method, because official servers drop it without an answer (MCP 2025-11-25 and
 * 2026-07-28, schema). Rejects ambiguous members of the envelope and ambiguous ids, because the server could read the other one.
 */
export function checkClientMessage(message: Message | InvalidMessage): Message | ClientMessageProblem {
  if (message.kind === "invalid") {
    const { isJson, reason, idText } = message;
    return isJson ? problem("INVALID_REQUEST", reason, idText) : problem("PARSE_ERROR", "the body is not JSON");
  }
  const wrongEnvelope = findProblem(message);
  const wrong = wrongEnvelope ?? (message.outline.has(Slot.meta) ? findWrongMeta(message.outline) : undefined);
  const reason = wrong ?? (message.kind === "notification" ? findWrongParam(message) : undefined);
  if (reason === undefined) return message;
  const idText = message.kind === "notification" ? undefined : unambiguousId(message.outline);
  return problem(wrongEnvelope === undefined ? "INVALID_PARAMS" : "INVALID_REQUEST", reason, idText);
}

/** One invalid message rejects the whole batch before any is sent (MCP 2025-03-26, basic/index). */
export function checkClientBatch({ messages: readings }: Batch): Message[] | ClientMessageProblem {
  if (readings.length === 0) return problem("INVALID_REQUEST", "the batch is empty");
  if (readings.length > MAX_BATCH_LENGTH) return problem("INVALID_REQUEST", `the batch has more than ${MAX_BATCH_LENGTH} messages`);
  const messages: Message[] = [];
  for (const [index, reading] of readings.entries()) {
    const message = checkClientMessage(reading);
    if ("code" in message) return problem(message.code, `message ${index + 1} of the batch: ${message.reason}`);
    if (message.kind === "request" && message.method === "initialize")
      return problem("INVALID_REQUEST", "initialize must not be part of a batch");
    messages.push(message);
  }
  return messages;
}

function findProblem(message: Message): string | undefined {
  const { kind, outline, text } = message;
  const ambiguity =
    findAmbiguity(outline, ENVELOPE) ??
    (kind === "response" ? undefined : (findAmbiguity(outline, REWRITTEN) ?? findAmbiguity(outline, OF_META)));
  if (ambiguity !== undefined) return ambiguity;
  const ofResponse = outline.has(Slot.result) ? "result" : outline.has(Slot.error) ? "error" : undefined;
  const ofRequest = outline.has(Slot.method) ? "method" : outline.has(Slot.params) ? "params" : undefined;
  const foreign = outline.unknownName ?? (kind === "response" ? ofRequest : ofResponse);
  if (foreign !== undefined) return `${JSON.stringify(shorten(foreign))} is not a member of a JSON-RPC ${kind}`;
  const exceeded = text.length > MIN_EXCEEDING_LENGTH ? describeExceeded(message) : undefined;
  if (kind === "response" && outline.has(Slot.result) && outline.has(Slot.error))
    return 'a JSON-RPC response has either "result" or "error"';
  if (kind === "response" || exceeded !== undefined) return exceeded;
  if (message.method.includes("\0")) return '"method" has a NUL';
  if (kind === "notification")
    return message.method === "notifications/initialized" && utf8Length(text) > MAX_INITIALIZED_BYTES
      ? `notifications/initialized has more than ${MAX_INITIALIZED_BYTES} bytes`
      : undefined;
  // The unchecked `notifications/cancelled` could name another client's request.
  if (message.method.startsWith("notifications/")) return "a notification has no id";
  return typeof message.id === "string" || Math.trunc(message.id) === message.id ? undefined : '"id" must be a string or an integer';
}

function describeExceeded(message: Message): string | undefined {
  const ofMethod = message.kind === "request" ? LIMIT_OF_METHOD.get(message.method) : undefined;
  for (const [name, slot, maxBytes] of ofMethod === undefined ? LIMITS : [...LIMITS, ofMethod])
    if (hasMoreBytes(message.outline.textAt(slot) ?? "", maxBytes)) return `"${name}" has more than ${maxBytes} bytes as JSON`;
  return undefined;
}

/** No server answers a wrong notification. */
function findWrongParam({ method, text, outline }: NotificationMessage): string | undefined {
  const params = PARAMS_OF_NOTIFICATION.get(method);
  if (params === undefined || isLong(outline, Slot.params)) return undefined;
  const names = Object.keys(params);
  const { spans } = findMembers(text, outline.start(Slot.params), names);
  for (const [index, [name, type]] of Object.entries(params).entries()) {
    const value = textOf(text, spans[index]);
    if (value === undefined ? REQUIRED_PARAMS.has(name) : !TYPES[type](value)) return `"${name}" must be ${type}`;
  }
  return undefined;
}

function findWrongMeta(outline: Outline): string | undefined {
  const { text } = outline;
  if (outline.firstAt(Slot.meta) !== "{") return '"_meta" must be an object';
  const token = outline.textAt(Slot.metaProgressToken);
  if (token !== undefined && !TYPES["a string or an integer"](token)) return '"progressToken" must be a string or an integer';
  if (isLong(outline, Slot.meta)) return undefined;
  if (!outline.hasEscapedName && outline.textAt(Slot.meta)?.includes(MetaKey.relatedTask) !== true) return undefined;
  const task = findPath(text, outline.start(Slot.meta), [MetaKey.relatedTask]);
  if (task === undefined) return undefined;
  const taskId = findPath(text, task.start, ["taskId"]);
  return taskId !== undefined && text[taskId.start] === '"'
    ? undefined
    : `"${MetaKey.relatedTask}" must be an object with the string "taskId"`;
}

/** The members of a long value are not checked, as that would block the event loop. At worst, a request waits for its timeout. */
function isLong(outline: Outline, slot: number): boolean {
  return outline.end(slot) - outline.start(slot) > LONG_TEXT_LENGTH;
}

function hasMoreBytes(text: string, maxBytes: number): boolean {
  return text.length > maxBytes || (text.length > maxBytes / MAX_UNIT_BYTES && utf8Length(text) > maxBytes);
}

function problem(code: ClientMessageProblem["code"], reason: string, idText?: string): ClientMessageProblem {
  return { code, reason, idText: idText !== undefined && hasMoreBytes(idText, MAX_ID_BYTES) ? undefined : idText };
}
