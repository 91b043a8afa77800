import { applyEdits, setMembers } from "../json/edit.ts";
import { findMembers, JsonScanner, type Outline, textOf } from "../json/read.ts";
import { shorten, skipInvisible } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { JsonRpcErrorCode } from "./errors.ts";
import {
  classify,
  invalid,
  type InvalidMessage,
  type Message,
  MESSAGE,
  NO_CONTENT,
  type NotificationMessage,
  type OverlongLine,
  isPlain,
  type Reading,
  readInSteps,
  type ResponseMessage,
  scanInSteps,
  Slot,
} from "./message.ts";

/**
 * Reads the lines of a server as leniently as the most lenient official client does (docs/MIGRATION.md). Responses are written anew if strict
 * clients would not accept them: with their own members only, a numeric id, and a valid result or error.
 */

/** A response after other text, which may be a client's. So the client may have chosen the response. */
export interface ResponseAfterText {
  readonly kind: "after-text";
  readonly text: string;
  readonly response: ResponseMessage;
}

export type ServerReading = Reading | ResponseAfterText;

export const OTHER_TEXT = "other text is on the line of the message";
/** Places in a line that may begin a message. */
const MAX_STARTS = 8;
/** The length of escape sequences after a message. */
const MAX_TRAILER_LENGTH = 64;
const MAX_MESSAGE_LENGTH = 500;

const RESPONSE_START = /\{[ \t]*"(?:jsonrpc|id|result|error)"[ \t]*:/g;

/** Completes the reading of a line that is not plain. */
export function* settle(line: string, reading: Reading): Generator<undefined, ServerReading> {
  if (reading.kind === "batch") {
    const messages: (Message | InvalidMessage)[] = [];
    for (const each of reading.messages) messages.push(isPlain(each) ? each : yield* settleOne(each));
    return { ...reading, messages };
  }
  if (reading.kind !== "invalid" || reading.isJson) return yield* settleOne(reading);
  const start = skipInvisible(line);
  const end = messageEnd(line, start);
  if (start > 0 || end < line.length) {
    const inner = yield* readInSteps(line.slice(start, end));
    if (inner.kind !== "invalid" || inner.isJson) return yield* settle(inner.text, inner);
  }
  return yield* findResponse(line, start);
}

/** Only invisible text may follow the message. */
function messageEnd(line: string, start: number): number {
  const end = line.lastIndexOf(line[start] === "[" ? "]" : "}") + 1;
  const isTrailer = end > start && line.length - end <= MAX_TRAILER_LENGTH && skipInvisible(line, end) === line.length;
  return isTrailer ? end : line.length;
}

/** Finds a response after other text. Each scan begins where the last one ended, so the time is linear. */
function* findResponse(line: string, visible: number): Generator<undefined, ResponseAfterText | InvalidMessage> {
  let isAfterText = false;
  let from = visible;
  for (let count = 0; count < MAX_STARTS; count++) {
    RESPONSE_START.lastIndex = from;
    const start = RESPONSE_START.exec(line)?.index ?? -1;
    if (start === -1) break;
    isAfterText ||= start > visible;
    const scanner = new JsonScanner(line.slice(start, messageEnd(line, start)), MESSAGE);
    yield* scanInSteps(scanner);
    if (scanner.isValid) {
      const found = classify(scanner);
      const response = isPlain(found) ? found : yield* settleOne(found);
      if (response.kind === "response" && response.id !== undefined) return { kind: "after-text", text: line, response };
      break;
    }
    from = start + Math.max(1, scanner.failedAt);
  }
  return { kind: "invalid", text: line, isJson: false, reason: isAfterText ? OTHER_TEXT : "not JSON" };
}

function* settleOne(message: Message | InvalidMessage): Generator<undefined, Message | InvalidMessage> {
  if (message.kind === "invalid") {
    return message.reason === NO_CONTENT ? withAnsweredId(message, message.idText) : message;
  }
  if (message.kind !== "response") return message;
  const { text, outline } = message;
  // The ids may be those of two requests.
  if (outline.doubles?.get(Slot.id) === "id") return invalid(outline, '"id" occurs twice');
  const idText = outline.textAt(Slot.id);
  const content = contentOf(outline);
  if (typeof content === "string") return withAnsweredId(invalid(outline, content), idText);
  const newIdText = idText === undefined ? "null" : String(requestIdOf(idText) ?? idText);
  const value = content === Slot.error ? errorText(outline) : outline.firstAt(content) === "{" ? outline.textAt(content) : "{}";
  const isForeign = [Slot.method, Slot.params, content === Slot.error ? Slot.result : Slot.error].some((slot) => outline.has(slot));
  const hasOnlyOwn = !isForeign && outline.unknownName === undefined && outline.doubles === undefined;
  if (hasOnlyOwn && newIdText === idText && value === outline.textAt(content)) return message;
  const settled = `{"jsonrpc":"2.0","id":${newIdText},"${content === Slot.error ? "error" : "result"}":${value}}`;
  if (settled === text) return message;
  const scanner = new JsonScanner(settled, MESSAGE);
  yield* scanInSteps(scanner);
  return classify(scanner);
}

function withAnsweredId(message: InvalidMessage, idText: string | undefined): InvalidMessage {
  const answeredId = idText === undefined ? undefined : requestIdOf(idText);
  return answeredId === undefined ? message : { ...message, answeredId };
}

const VERSION = String.raw`(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?`;
/** Without escapes. Long enough for ids of the sidecar and of servers. */
const ID = String.raw`"id"\s*:\s*("[^"\\\p{Cc}]{0,99}"|0|-?[1-9]\d{0,98})`;
/** The first member besides the version and the id. */
const HEAD = new RegExp(String.raw`^\{\s*${VERSION}(?:${ID}\s*,\s*)?${VERSION}"(method|result|error)"\s*:`, "u");
/** In valid JSON, only members of the outermost object can be before its last brace. */
const TAIL = new RegExp(String.raw`,\s*${ID}\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`, "u");

/** The id is before or after the large member, as official SDKs write it. A line in another form shows nothing, so its call times out. */
export function readEnds(head: string, tail: string): Pick<OverlongLine, "idText" | "hasMethod"> {
  const [, first, name] = HEAD.exec(head.slice(skipInvisible(head))) ?? [];
  const last = name === undefined ? undefined : TAIL.exec(tail)?.[1];
  const idText = first !== undefined && last !== undefined ? undefined : (first ?? last);
  return { idText, hasMethod: name === "method" };
}

const DECIMAL_TEXT = /^"(?:0|[1-9]\d{0,15})"$/;
const MAX_ID_LENGTH = 100;

/** Some servers send ids back as text. */
export function requestIdOf(idText: string): number | undefined {
  if (idText === "" || idText.length > MAX_ID_LENGTH) return undefined;
  const text = idText.startsWith('"') ? JSON.stringify(readValue(idText)) : idText;
  const id = Number(DECIMAL_TEXT.test(text) ? text.slice(1, -1) : text);
  return Number.isSafeInteger(id) ? id : undefined;
}

/** Some servers send it back as text. */
export function progressTokenOf({ outline }: NotificationMessage): number | undefined {
  return outline.numberAt(Slot.progressToken) ?? requestIdOf(outline.textAt(Slot.progressToken) ?? "");
}

/** @returns the slot of the content, or the reason why there is none. */
function contentOf(outline: Outline): number | string {
  const first = outline.firstAt(Slot.result);
  const hasError = outline.has(Slot.error) && outline.firstAt(Slot.error) !== "n";
  // As for the official clients, a valid error counts beside a result.
  const isValidError = outline.firstAt(Slot.error) === "{" && errorText(outline) === outline.textAt(Slot.error);
  if (hasError && (first === "" || first === "n" || isValidError)) return Slot.error;
  if (first === "") return NO_CONTENT;
  // Servers in Go send `null` for an empty result.
  return first === "{" || first === "n" ? Slot.result : "the result is not an object";
}

/** With a code and a message: its own, if any client accepts them. */
function errorText(outline: Outline): string {
  const text = outline.textAt(Slot.error) ?? "";
  if (!text.startsWith("{")) return `{"code":${JsonRpcErrorCode.InternalError},"message":${messageText(text)}}`;
  const { spans } = findMembers(text, 0, ["code", "message"]);
  const [code, message] = spans.map((span) => textOf(text, span));
  const members = [
    ["code", codeText(code)],
    ["message", messageText(message)],
  ] as const;
  return applyEdits(text, setMembers(text, 0, members, spans));
}

function codeText(code = ""): string {
  const number = /^"-?\d{1,15}"$/.test(code) ? code.slice(1, -1) : code;
  const isInteger = /^[-\d]/.test(number) && Number.isSafeInteger(Number(number));
  if (isInteger) return number === code ? code : String(Number(number));
  return String(JsonRpcErrorCode.InternalError);
}

/** The given one, if it is a string, or else its beginning. */
function messageText(message?: string): string {
  if (message === undefined) return '"The MCP server answered with an error without a message"';
  return message.startsWith('"') ? message : JSON.stringify(shorten(message, MAX_MESSAGE_LENGTH));
}
