import type { Edit } from "../json/edit.ts";
import { findElements, findPath, JsonScanner, type Outline, Shape, textOf } from "../json/read.ts";
import { detached, shorten } from "../json/text.ts";
import { JsonRpcErrorCode } from "./errors.ts";

export { isJsonObject, type JsonObject } from "../json/text.ts";

/** The revisions with `initialize` and sessions, newest first. */
export const LEGACY_PROTOCOL_VERSIONS: readonly string[] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

export const NEWEST_LEGACY_PROTOCOL_VERSION = "2025-11-25";

/** The revisions without sessions, newest first. */
export const MODERN_PROTOCOL_VERSIONS: readonly string[] = ["2026-07-28"];

export const NEWEST_MODERN_PROTOCOL_VERSION = "2026-07-28";

const FIRST_MODERN_PROTOCOL_VERSION = "2026-07-28";

/** Keys of `_meta` (MCP 2026-07-28, basic; for tasks MCP 2025-11-25). */
export const MetaKey = {
  protocolVersion: "io.modelcontextprotocol/protocolVersion",
  clientCapabilities: "io.modelcontextprotocol/clientCapabilities",
  clientInfo: "io.modelcontextprotocol/clientInfo",
  logLevel: "io.modelcontextprotocol/logLevel",
  serverInfo: "io.modelcontextprotocol/serverInfo",
  relatedTask: "io.modelcontextprotocol/related-task",
  subscriptionId: "io.modelcontextprotocol/subscriptionId",
} as const;

export const MESSAGE = new Shape({
  jsonrpc: {},
  id: {},
  method: {},
  params: {
    _meta: { progressToken: {}, [MetaKey.protocolVersion]: {}, [MetaKey.subscriptionId]: {} },
    requestId: {},
    progressToken: {},
    name: {},
    arguments: {},
    task: {},
    uri: {},
    level: {},
    protocolVersion: {},
    capabilities: { sampling: {}, elicitation: {}, roots: {} },
    inputResponses: {},
    requestState: {},
  },
  result: { task: { taskId: {} }, protocolVersion: {}, capabilities: {}, resultType: {}, _meta: {}, requestState: {} },
  error: {},
});

export const Slot = {
  jsonrpc: MESSAGE.slotOf("jsonrpc"),
  id: MESSAGE.slotOf("id"),
  method: MESSAGE.slotOf("method"),
  params: MESSAGE.slotOf("params"),
  meta: MESSAGE.slotOf("params", "_meta"),
  metaProgressToken: MESSAGE.slotOf("params", "_meta", "progressToken"),
  metaVersion: MESSAGE.slotOf("params", "_meta", MetaKey.protocolVersion),
  subscriptionId: MESSAGE.slotOf("params", "_meta", MetaKey.subscriptionId),
  requestId: MESSAGE.slotOf("params", "requestId"),
  progressToken: MESSAGE.slotOf("params", "progressToken"),
  toolName: MESSAGE.slotOf("params", "name"),
  arguments: MESSAGE.slotOf("params", "arguments"),
  callTask: MESSAGE.slotOf("params", "task"),
  uri: MESSAGE.slotOf("params", "uri"),
  level: MESSAGE.slotOf("params", "level"),
  requestedVersion: MESSAGE.slotOf("params", "protocolVersion"),
  sampling: MESSAGE.slotOf("params", "capabilities", "sampling"),
  elicitation: MESSAGE.slotOf("params", "capabilities", "elicitation"),
  roots: MESSAGE.slotOf("params", "capabilities", "roots"),
  inputResponses: MESSAGE.slotOf("params", "inputResponses"),
  repeatedState: MESSAGE.slotOf("params", "requestState"),
  result: MESSAGE.slotOf("result"),
  task: MESSAGE.slotOf("result", "task"),
  taskId: MESSAGE.slotOf("result", "task", "taskId"),
  protocolVersion: MESSAGE.slotOf("result", "protocolVersion"),
  capabilities: MESSAGE.slotOf("result", "capabilities"),
  resultType: MESSAGE.slotOf("result", "resultType"),
  resultMeta: MESSAGE.slotOf("result", "_meta"),
  requestState: MESSAGE.slotOf("result", "requestState"),
  error: MESSAGE.slotOf("error"),
} as const;

export interface SentText {
  readonly text: string;
  readonly outline: Outline;
  /** Changes for the receiver, not of the members of the outline. */
  readonly edits?: readonly Edit[];
}

export interface RequestMessage extends SentText {
  readonly kind: "request";
  /** Not `null` (MCP 2025-11-25, basic/index). */
  readonly id: string | number;
  readonly idText: string;
  readonly method: string;
}

export interface NotificationMessage extends SentText {
  readonly kind: "notification";
  readonly method: string;
}

export interface ResponseMessage extends SentText {
  readonly kind: "response";
  /** Undefined for an error without an id. */
  readonly id: string | number | undefined;
  readonly isError: boolean;
}

export type Message = RequestMessage | NotificationMessage | ResponseMessage;

export interface InvalidMessage {
  readonly kind: "invalid";
  readonly text: string;
  readonly isJson: boolean;
  readonly reason: string;
  /** JSON text. Undefined if it is ambiguous. */
  readonly idText?: string | undefined;
  /** The request of the sidecar that a server's text would answer if it was a valid response. */
  readonly answeredId?: number;
}

/** Only revision 2025-03-26 has batches. */
export interface Batch {
  readonly kind: "batch";
  readonly text: string;
  readonly messages: readonly (Message | InvalidMessage)[];
  /** True if it has more messages, which are not read. */
  readonly isCut: boolean;
}

const MAX_READ_MESSAGES = 1000;

/** A line that was discarded because of its length. `readEnds` may show which request it answers. */
export interface OverlongLine {
  readonly kind: "overlong";
  readonly bytes: number;
  readonly idText: string | undefined;
  readonly hasMethod: boolean;
  readonly isForMemory: boolean;
}

export type Reading = Message | InvalidMessage | Batch;

export const NO_CONTENT = 'the message has neither "method" nor "result" nor "error"';
export const NO_VERSION = '"jsonrpc" must be "2.0"';
export const BATCH_REASON = "a batch (JSON array) is not accepted; send one message per request";
/** Longer texts are read in steps, to not block the event loop. In UTF-16 units. */
export const LONG_TEXT_LENGTH = 64 * 1024;
/** In UTF-16 units. A step takes 40 ms at worst. */
const STEP_LENGTH = 2 * 1024 * 1024;

export function withoutSteps<Result>(work: Generator<undefined, Result>): Result {
  let step = work.next();
  while (step.done !== true) step = work.next();
  return step.value;
}

const SCANNER = new JsonScanner("", MESSAGE);

export function readText(text: string): Reading {
  SCANNER.begin(text, MESSAGE);
  SCANNER.advance();
  const message = SCANNER.isValid && SCANNER.isArray ? undefined : classify(SCANNER);
  // The scanner must not keep the text in memory.
  SCANNER.begin("", MESSAGE);
  return message ?? withoutSteps(readInSteps(text));
}

export function readMessage(text: string): Message | InvalidMessage {
  const reading = readText(text);
  return reading.kind === "batch" ? { kind: "invalid", text, isJson: true, reason: BATCH_REASON } : reading;
}

export function* readInSteps(text: string): Generator<undefined, Reading> {
  const scanner = new JsonScanner(text, MESSAGE);
  yield* scanInSteps(scanner);
  if (!scanner.isValid || !scanner.isArray) return classify(scanner);
  const messages: (Message | InvalidMessage)[] = [];
  let length = 0;
  const ofElement = new JsonScanner("", MESSAGE);
  const elements = findElements(text, 0, MAX_READ_MESSAGES + 1);
  for (const { start, end } of elements.slice(0, MAX_READ_MESSAGES)) {
    // A request may be kept longer than the other elements.
    ofElement.begin(detached(text.slice(start, end), text), MESSAGE);
    yield* scanInSteps(ofElement);
    messages.push(classify(ofElement));
    length += end - start;
    if (length > STEP_LENGTH) yield;
    length %= STEP_LENGTH;
  }
  return { kind: "batch", text, messages, isCut: elements.length > MAX_READ_MESSAGES };
}

export function* scanInSteps(scanner: JsonScanner): Generator<undefined, void> {
  for (;;) {
    scanner.advance(STEP_LENGTH);
    if (scanner.isDone) return;
    yield;
  }
}

export function classify({ outline, isValid, isArray, isObject }: JsonScanner): Message | InvalidMessage {
  const { text } = outline;
  if (!isValid) return { kind: "invalid", text, isJson: false, reason: "not JSON" };
  if (!isObject) return invalid(outline, isArray ? BATCH_REASON : "the message must be a JSON object");
  const id = outline.numberAt(Slot.id) ?? outline.stringAt(Slot.id);
  const idKind = outline.firstAt(Slot.id);
  if (outline.stringAt(Slot.jsonrpc) !== "2.0") return invalid(outline, NO_VERSION);
  const isResponse = outline.has(Slot.result) || outline.has(Slot.error);
  // Beside a result, a method that is not a string is one more member without meaning.
  if (!outline.has(Slot.method) || (isResponse && outline.firstAt(Slot.method) !== '"')) {
    if (!isResponse) return invalid(outline, NO_CONTENT);
    if (id === undefined && idKind !== "" && idKind !== "n") return invalid(outline, '"id" must be a string or a number');
    return { kind: "response", text, outline, id, isError: outline.has(Slot.error) };
  }
  const method = outline.stringAt(Slot.method);
  if (method === undefined) return invalid(outline, '"method" must be a string');
  if (outline.has(Slot.params) && outline.firstAt(Slot.params) !== "{") return invalid(outline, '"params" must be an object');
  if (idKind === "") return { kind: "notification", text, outline, method };
  if (id === undefined) return invalid(outline, '"id" must be a string or a number');
  return { kind: "request", text, outline, id, idText: outline.copyAt(Slot.id) ?? "", method };
}

export function invalid(outline: Outline, reason: string): InvalidMessage {
  return { kind: "invalid", text: outline.text, isJson: true, reason, idText: unambiguousId(outline) };
}

/** Undefined if another parser would read another one. */
export function unambiguousId(outline: Outline): string | undefined {
  const isId = outline.numberAt(Slot.id) !== undefined || outline.firstAt(Slot.id) === '"';
  return isId && outline.doubles?.get(Slot.id) === undefined ? outline.textAt(Slot.id) : undefined;
}

/** True for a server's message that needs no `settle`, as almost all. */
export function isPlain(reading: Reading): boolean {
  if (reading.kind === "request" || reading.kind === "notification") return true;
  if (reading.kind !== "response" || typeof reading.id !== "number") return false;
  const { outline } = reading;
  if (outline.has(Slot.error) || outline.has(Slot.method) || outline.has(Slot.params)) return false;
  return outline.firstAt(Slot.result) === "{" && outline.unknownName === undefined && outline.doubles === undefined;
}

/** Returns the reason why another parser may find another value for one of the members. */
export function findAmbiguity(outline: Outline, slots: Readonly<Record<string, number>>): string | undefined {
  if (outline.doubles === undefined) return undefined;
  for (const name in slots) {
    const double = outline.doubles.get(slots[name] ?? -1);
    if (double === name) return `"${name}" occurs twice`;
    if (double !== undefined) return `${JSON.stringify(shorten(double))} differs only in case from "${name}"`;
  }
  return undefined;
}

export function isLegacyVersion(protocolVersion: string): boolean {
  return LEGACY_PROTOCOL_VERSIONS.includes(protocolVersion);
}

export function isModernVersion(protocolVersion: string | undefined): boolean {
  return protocolVersion !== undefined && protocolVersion >= FIRST_MODERN_PROTOCOL_VERSION && /^\d{4}-\d{2}-\d{2}$/.test(protocolVersion);
}

/**
 * True if `_meta` or the `MCP-Protocol-Version` header names a revision without sessions (MCP 2026-07-28, basic/versioning), unless both
 * name the same one with sessions. Clients of sessions send the other headers and keys too.
 */
export function isModernMessage({ outline }: Message, headerVersion: string | undefined): boolean {
  if (!outline.has(Slot.metaVersion)) return isModernVersion(headerVersion);
  return headerVersion === undefined || !isLegacyVersion(headerVersion) || outline.stringAt(Slot.metaVersion) !== headerVersion;
}

/** Returns the client's version if it is known, else the newest (MCP 2025-11-25, basic/lifecycle). */
export function negotiateProtocolVersion(requested: string | undefined): string {
  return requested !== undefined && isLegacyVersion(requested) ? requested : NEWEST_LEGACY_PROTOCOL_VERSION;
}

/** True if clients accept an event that has an id but no data. Older parsers fail on it. Revisions sort as text. */
export function hasPrimedStreams(protocolVersion: string): boolean {
  return protocolVersion >= "2025-11-25";
}

export function hasBatches(protocolVersion: string): boolean {
  return protocolVersion < "2025-06-18";
}

export function refusesRevision({ text, outline }: RequestMessage | ResponseMessage): boolean {
  const code = Number(textOf(text, findPath(text, outline.start(Slot.error), ["code"])));
  return code === JsonRpcErrorCode.UnsupportedVersion || code === JsonRpcErrorCode.MethodNotFound;
}

/** RFC 5424, the least severe first (MCP 2025-11-25 and 2026-07-28, server/utilities/logging). */
export const LOG_LEVELS: readonly string[] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

export function isAtLeast(level: string | undefined, wanted: string): boolean {
  const least = LOG_LEVELS.indexOf(wanted);
  return least !== -1 && level !== undefined && LOG_LEVELS.indexOf(level) >= least;
}

/** A line for the server's stdin, which the sender may withdraw before it is written. */
export interface Outgoing {
  /** Emptied when written unless `isKept`, to free memory while the response is awaited. */
  text: string;
  /** The text may be written again, to the next generation. */
  readonly isKept: boolean;
  /** Undefined until the writer counts it. */
  byteLength: number | undefined;
  isWritten: boolean;
  /** Called when the emptied text has left the memory. */
  onEmptied?: (() => void) | undefined;
}

export function outgoing(text: string): Outgoing {
  return { text, isKept: false, byteLength: undefined, isWritten: false };
}
