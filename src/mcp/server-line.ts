import { applyEdits, type Edit, firstMembers, removeItems, setMembers } from "../json/edit.ts";
import { findMembers, textOf } from "../json/find.ts";
import { JsonScanner, type Outline } from "../json/read.ts";
import { shorten, skipInvisible, skipValue, STOP, walkMembers } from "../json/text.ts";
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
  isPlain,
  type Reading,
  readInSteps,
  type ResponseMessage,
  scanInSteps,
  Slot,
} from "./message.ts";

/**
 * Reads the lines of a server as leniently as the most lenient official client does (docs/MIGRATION.md). Responses are edited, so that strict
 * clients accept them too: they have only their own members, a numeric id, and a valid result or error.
 */

/** A response that other text precedes on its line. That text may be a client's, and the client may have chosen the response. */
export interface ResponseAfterText {
  readonly kind: "after-text";
  /** The whole line. */
  readonly text: string;
  readonly response: ResponseMessage;
}

export type ServerReading = Reading | ResponseAfterText;

/** The reason for skipping a message, or a response that may be forged. */
export const OTHER_TEXT = "other text is on the line of the message";
/** The number of places in a line at which a message may begin. */
const MAX_STARTS = 8;
/** The most text after a message that may be escape sequences only. */
const MAX_TRAILER_LENGTH = 64;
const MAX_MESSAGE_LENGTH = 500;

/** The beginning of a response: a brace and one of its members. */
const RESPONSE_START = /\{[ \t]*"(?:jsonrpc|id|result|error)"[ \t]*:/g;

/** Completes the reading of a line that is not plain. @param reading what a strict reader makes of the line. */
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
    const inner = yield* readInSteps(line.slice(start, end), "server");
    if (inner.kind !== "invalid" || inner.isJson) return yield* settle(inner.text, inner);
  }
  return yield* findResponse(line, start);
}

/** Returns the position after the message that begins at `start`, if only invisible text follows. */
function messageEnd(line: string, start: number): number {
  const end = line.lastIndexOf(line[start] === "[" ? "]" : "}") + 1;
  const isTrailer = end > start && line.length - end <= MAX_TRAILER_LENGTH && skipInvisible(line, end) === line.length;
  return isTrailer ? end : line.length;
}

/**
 * Finds a response at the end of a line. Each part of the line is scanned at most once: what a scan has read as JSON is skipped before the
 * next one.
 */
function* findResponse(line: string, visible: number): Generator<undefined, ResponseAfterText | InvalidMessage> {
  let isAfterText = false;
  let from = visible;
  for (let count = 0; count < MAX_STARTS; count++) {
    RESPONSE_START.lastIndex = from;
    const start = RESPONSE_START.exec(line)?.index ?? -1;
    if (start === -1) break;
    isAfterText ||= start > visible;
    const scanner = new JsonScanner(line.slice(start, messageEnd(line, start)), MESSAGE, false);
    yield* scanInSteps(scanner);
    if (scanner.isValid) {
      const found = classify(scanner, "server");
      const response = isPlain(found) ? found : yield* settleOne(found);
      if (response.kind === "response" && response.id !== undefined) return { kind: "after-text", text: line, response };
      break;
    }
    from = start + Math.max(1, scanner.failure.index);
  }
  return { kind: "invalid", text: line, isJson: false, reason: isAfterText ? OTHER_TEXT : "not JSON", idText: undefined };
}

function* settleOne(message: Message | InvalidMessage): Generator<undefined, Message | InvalidMessage> {
  if (message.kind === "invalid") {
    // A text without content may be meant as a response.
    return message.reason === NO_CONTENT ? withAnsweredId(message, message.idText) : message;
  }
  if (message.kind !== "response") return message;
  const { text, outline } = message;
  // The ids may be those of two requests, and parsers differ on which one counts.
  if (outline.isRepeated(Slot.id)) return invalid(outline, '"id" occurs twice');
  const edits = editsFor(outline);
  if (typeof edits === "string") return withAnsweredId(invalid(outline, edits), outline.textAt(Slot.id));
  if (edits.length === 0) return message;
  const scanner = new JsonScanner(applyEdits(text, edits), MESSAGE, false);
  yield* scanInSteps(scanner);
  return classify(scanner, "server");
}

function withAnsweredId(message: InvalidMessage, idText: string | undefined): InvalidMessage {
  const answeredId = idText === undefined ? undefined : requestIdOf(idText);
  return answeredId === undefined ? message : { ...message, answeredId };
}

/** A number in the form of the sidecar's ids, as text. */
const DECIMAL_TEXT = /^"(?:0|[1-9]\d{0,15})"$/;
const MAX_ID_LENGTH = 100;

/** Returns the id of the sidecar's request that an id of a response names. Some servers send ids back as text. @param idText its JSON text. */
export function requestIdOf(idText: string): number | undefined {
  if (idText === "" || idText.length > MAX_ID_LENGTH) return undefined;
  const text = idText.startsWith('"') ? JSON.stringify(readValue(idText)) : idText;
  const id = Number(DECIMAL_TEXT.test(text) ? text.slice(1, -1) : text);
  return Number.isSafeInteger(id) ? id : undefined;
}

/** Returns the number of a progress token, which some servers send back as text. */
export function progressTokenOf({ outline }: NotificationMessage): number | undefined {
  return outline.numberAt(Slot.progressToken) ?? requestIdOf(outline.textAt(Slot.progressToken) ?? "");
}

/** Returns the edits that make a response acceptable for strict clients, or the reason why it cannot be. */
function editsFor(outline: Outline): Edit[] | string {
  const { text } = outline;
  const hasResult = outline.has(Slot.result);
  const hasNoError = !outline.has(Slot.error) || outline.firstAt(Slot.error) === "n";
  // As for the official clients, a valid error is the content of a response that has a result as well.
  const isValidError = outline.isObject(Slot.error) && errorEdits(outline).length === 0;
  const isError = hasResult ? !hasNoError && (outline.firstAt(Slot.result) === "n" || isValidError) : !hasNoError;
  if (!isError && !hasResult) return NO_CONTENT;
  const first = outline.firstAt(Slot.result);
  if (!isError && first !== "{" && first !== "n") return "the result is not an object";
  const content = isError ? Slot.error : Slot.result;
  const removal = removeOthers(outline, content);
  if (removal === undefined) return `it has more than ${MAX_MEMBERS} members`;
  const idText = outline.textAt(Slot.id);
  const id = idText === undefined ? undefined : requestIdOf(idText);
  const edits: Edit[] = [];
  if (id !== undefined) edits.push({ start: outline.start(Slot.id), end: outline.end(Slot.id), text: String(id) });
  // The text then has a place for the id of the client.
  if (idText === undefined && isError) edits.push(firstMembers(text, text.indexOf("{"), '"id":null'));
  edits.push(...removal);
  if (isError) edits.push(...errorEdits(outline));
  // Go has no other way to send an empty result.
  else if (first === "n") edits.push({ start: outline.start(Slot.result), end: outline.end(Slot.result), text: "{}" });
  return edits.filter(({ start, end, text: replacement }) => text.slice(start, end) !== replacement);
}

/** The maximum number of members of a response. A valid one has three. */
const MAX_MEMBERS = 100;

/** Returns the edits that remove all other members, among them repeated ones that do not count. Undefined if there are too many members. */
function removeOthers(outline: Outline, content: number): Edit[] | undefined {
  const members: { start: number; end: number; isKept: boolean }[] = [];
  const { text } = outline;
  walkMembers(text, 0, (start, _keyEnd, valueStart) => {
    const kept = [content, Slot.id, Slot.jsonrpc].find((slot) => valueStart === outline.start(slot));
    const end = kept === undefined ? skipValue(text, valueStart) : outline.end(kept);
    members.push({ start, end, isKept: kept !== undefined });
    return members.length > MAX_MEMBERS ? STOP : end;
  });
  return members.length > MAX_MEMBERS ? undefined : removeItems(members);
}

/** Returns the edits that give an error a code and a message; none if any client accepts those that it has. */
function errorEdits(outline: Outline): Edit[] {
  const { text } = outline;
  const [start, end] = [outline.start(Slot.error), outline.end(Slot.error)];
  if (!outline.isObject(Slot.error)) {
    const error = `{"code":${JsonRpcErrorCode.InternalError},"message":${messageText(text.slice(start, end))}}`;
    return [{ start, end, text: error }];
  }
  const { spans } = findMembers(text, start, ["code", "message"]);
  const [code, message] = spans.map((span) => textOf(text, span));
  const edits = setMembers(
    text,
    start,
    [
      ["code", codeText(code)],
      ["message", messageText(message)],
    ],
    spans,
  );
  return edits.filter((edit) => text.slice(edit.start, edit.end) !== edit.text);
}

/** Returns a code as JSON text: the given one, if it is an integer or the text of one. */
function codeText(code = ""): string {
  const number = /^"-?\d{1,15}"$/.test(code) ? code.slice(1, -1) : code;
  const isInteger = /^[-\d]/.test(number) && Number.isSafeInteger(Number(number));
  if (isInteger) return number === code ? code : String(Number(number));
  return String(JsonRpcErrorCode.InternalError);
}

/** Returns a message as JSON text: the given one, if it is a string, or else its beginning. */
function messageText(message?: string): string {
  if (message === undefined) return '"The MCP server answered with an error without a message"';
  return message.startsWith('"') ? message : JSON.stringify(shorten(message, MAX_MESSAGE_LENGTH));
}
