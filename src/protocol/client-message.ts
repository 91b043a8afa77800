import type { Outline } from "../json/outline.ts";
import { utf8Length } from "../json/text.ts";
import {
  type Batch,
  BATCH_REASON,
  findOtherCase,
  findRepeated,
  invalid,
  type InvalidMessage,
  type Message,
  readText,
  Slot,
} from "./message.ts";
import { MetaKey } from "./meta-key.ts";

export interface ClientMessageProblem {
  readonly code: "PARSE_ERROR" | "INVALID_REQUEST";
  readonly reason: string;
  /** The JSON text of the id, if the error response can have it. */
  readonly idText: string | undefined;
}

export const BATCH_REFUSED: ClientMessageProblem = { code: "INVALID_REQUEST", reason: BATCH_REASON, idText: undefined };

/** The limit of the official SDK. */
const MAX_BATCH_LENGTH = 100;
/** The most UTF-8 bytes that one UTF-16 unit takes. */
const MAX_UNIT_BYTES = 3;
const MAX_ID_BYTES = 1024;
const MAX_NAME_BYTES = 1024;
const MAX_URI_BYTES = 8 * 1024;

/** The members of the envelope. A server could act on one that is not checked here. */
const ENVELOPE = { jsonrpc: Slot.jsonrpc, id: Slot.id, method: Slot.method, params: Slot.params } as const;
/** The ids in `params` that are rewritten for the server. An id that is not rewritten could be that of another client's request. */
const REWRITTEN = { _meta: Slot.meta, requestId: Slot.requestId, progressToken: Slot.progressToken } as const;
/** The members of `_meta` that are rewritten, or that decide how the message is handled. */
const OF_META = { progressToken: Slot.metaProgressToken, [MetaKey.protocolVersion]: Slot.metaVersion } as const;

interface Limit {
  readonly member: string;
  readonly slot: number;
  readonly maxBytes: number;
}

/** The limits of values that are kept, logged or compared, in bytes of JSON text. */
const LIMITS: readonly Limit[] = [
  { member: '"id"', slot: Slot.id, maxBytes: MAX_ID_BYTES },
  { member: '"method"', slot: Slot.method, maxBytes: MAX_NAME_BYTES },
  { member: '"progressToken"', slot: Slot.metaProgressToken, maxBytes: MAX_ID_BYTES },
  { member: '"progressToken"', slot: Slot.progressToken, maxBytes: MAX_ID_BYTES },
  { member: '"requestId"', slot: Slot.requestId, maxBytes: MAX_ID_BYTES },
];
const NAME_LIMIT: Limit = { member: '"name"', slot: Slot.toolName, maxBytes: MAX_NAME_BYTES };
const URI_LIMIT: Limit = { member: '"uri"', slot: Slot.uri, maxBytes: MAX_URI_BYTES };
/** The limits of the values in `params` that are kept, by method. */
const LIMIT_OF_METHOD: ReadonlyMap<string, Limit> = new Map([
  ["tools/call", NAME_LIMIT],
  ["prompts/get", NAME_LIMIT],
  ["resources/subscribe", URI_LIMIT],
  ["resources/unsubscribe", URI_LIMIT],
  ["logging/setLevel", { member: '"level"', slot: Slot.level, maxBytes: MAX_NAME_BYTES }],
]);
/** The limit of `notifications/initialized`, which is kept. */
const MAX_INITIALIZED_BYTES = 64 * 1024;

/**
 * Checks one message of a client. Rejects repeated members of the envelope, and members that match one except for case, because the server
 * could read the other one. The same applies to the ids in `params` that are rewritten.
 */
export function checkClientMessage(message: Message | InvalidMessage): Message | ClientMessageProblem {
  const checked = message.kind === "invalid" ? message : (findProblem(message) ?? message);
  if (checked.kind !== "invalid") return checked;
  const { isJson, reason, idText } = checked;
  return isJson
    ? { code: "INVALID_REQUEST", reason, idText: message.kind === "notification" || isTooLong(idText) ? undefined : idText }
    : { code: "PARSE_ERROR", reason: "the body is not JSON", idText: undefined };
}

/** Reads and checks one message of a client, without steps. */
export function readClientMessage(text: string): Message | ClientMessageProblem {
  const reading = readText(text);
  return reading.kind === "batch" ? BATCH_REFUSED : checkClientMessage(reading);
}

/**
 * Checks a batch of a client (MCP 2025-03-26, basic/index). One invalid message rejects the whole batch before any message is sent. The
 * client then knows that none was.
 */
export function checkClientBatch({ count, messages: readings }: Batch): Message[] | ClientMessageProblem {
  if (count === 0) return reject("the batch is empty");
  if (count > MAX_BATCH_LENGTH) return reject(`the batch has ${count} messages; ${MAX_BATCH_LENGTH} are allowed`);
  const messages: Message[] = [];
  for (const [index, reading] of readings.entries()) {
    const message = checkClientMessage(reading);
    if ("code" in message) return reject(`message ${index + 1} of the batch: ${message.reason}`);
    if (message.kind === "request" && message.method === "initialize") return reject("initialize must not be part of a batch");
    messages.push(message);
  }
  return messages;
}

function findProblem(message: Message): InvalidMessage | undefined {
  const { kind, outline } = message;
  const ambiguity = describeAmbiguity(message);
  if (ambiguity !== undefined) return invalid(outline, ambiguity);
  // A server could act on it, and the unchecked `notifications/cancelled` could name another client's request.
  if (kind === "request" && message.method.startsWith("notifications/")) return invalid(outline, "a notification has no id");
  if (kind !== "response" && message.method.includes("\0")) return invalid(outline, '"method" has a NUL');
  if (kind === "notification" && message.method === "notifications/initialized" && utf8Length(message.text) > MAX_INITIALIZED_BYTES)
    return invalid(outline, `notifications/initialized has more than ${MAX_INITIALIZED_BYTES} bytes`);
  const ofMethod = kind === "request" ? LIMIT_OF_METHOD.get(message.method) : undefined;
  const exceeded = findExceeded(outline) ?? (ofMethod !== undefined && exceeds(outline, ofMethod) ? ofMethod : undefined);
  return exceeded === undefined ? undefined : invalid(outline, `${exceeded.member} has more than ${exceeded.maxBytes} bytes as JSON`);
}

function describeAmbiguity({ kind, outline }: Message): string | undefined {
  if (outline.isUnambiguous) return undefined;
  const repeated = findRepeated(outline, ENVELOPE);
  if (repeated !== undefined) return `"${repeated}" occurs twice`;
  const spelled = findOtherCase(outline, ENVELOPE);
  if (spelled !== undefined) return `${JSON.stringify(spelled)} differs only in case from a name of the envelope`;
  if (kind === "response") return undefined;
  const repeatedId = findRepeated(outline, REWRITTEN) ?? findRepeated(outline, OF_META);
  if (repeatedId !== undefined) return `"${repeatedId}" occurs twice`;
  const spelledId = findOtherCase(outline, REWRITTEN) ?? findOtherCase(outline, OF_META);
  return spelledId === undefined ? undefined : `${JSON.stringify(spelledId)} differs only in case from a name of the protocol`;
}

function findExceeded(outline: Outline): Limit | undefined {
  for (const limit of LIMITS) if (exceeds(outline, limit)) return limit;
  return undefined;
}

function exceeds(outline: Outline, { slot, maxBytes }: Limit): boolean {
  return outline.end(slot) - outline.start(slot) > maxBytes / MAX_UNIT_BYTES && hasMoreBytes(outline.textAt(slot) ?? "", maxBytes);
}

function isTooLong(idText: string | undefined): boolean {
  return idText !== undefined && hasMoreBytes(idText, MAX_ID_BYTES);
}

function hasMoreBytes(text: string, maxBytes: number): boolean {
  return text.length > maxBytes || (text.length > maxBytes / MAX_UNIT_BYTES && utf8Length(text) > maxBytes);
}

function reject(reason: string): ClientMessageProblem {
  return { code: "INVALID_REQUEST", reason, idText: undefined };
}
