import { applyEdits, type Edit } from "../json/edit.ts";
import type { Outline } from "../json/outline.ts";
import { plainName } from "../json/strings.ts";
import { Code } from "../json/tokens.ts";
import { type Message, type NotificationMessage, type RequestMessage, type ResponseMessage, Slot } from "./message.ts";

const LINE_SEPARATOR = Buffer.from(String.raw`\u2028`);
const PARAGRAPH_SEPARATOR = Buffer.from(String.raw`\u2029`);

/** The request as the server shall read it: its id, and its progress token where it has one, replaced by `wireId`. */
export function requestToServer(request: RequestMessage, wireId: number): string {
  return toServer(request, editsOf(request, String(wireId), Slot.id, Slot.metaProgressToken));
}

/** A client's `notifications/cancelled` with the id that the server knows the request by. */
export function cancellationToServer(notification: NotificationMessage, wireId: number): string {
  return toServer(notification, editsOf(notification, String(wireId), Slot.requestId));
}

/** A client's `notifications/progress` with the token that the server chose. */
export function progressToServer(notification: NotificationMessage, tokenText: string): string {
  return toServer(notification, editsOf(notification, tokenText, Slot.progressToken));
}

/** A client's response with the id that the server chose. */
export function responseToServer(response: ResponseMessage, idText: string): string {
  return toServer(response, editsOf(response, idText, Slot.id));
}

/** Any other message of a client as the server shall read it. */
export function messageToServer(message: Message): string {
  return toServer(message, []);
}

/** The server's request as its client shall read it: its id, and its progress token where it has one, replaced by `id`. */
export function requestToClient(request: RequestMessage, id: number): string {
  return toOneLine(applyEdits(request.text, editsOf(request, String(id), Slot.id, Slot.metaProgressToken)));
}

/** The server's `notifications/cancelled` with the id that the client knows the request by. */
export function cancellationToClient(notification: NotificationMessage, id: number): string {
  return toOneLine(applyEdits(notification.text, editsOf(notification, String(id), Slot.requestId)));
}

/** The server's `notifications/progress` with the token that its reader chose. */
export function progressToClient(notification: NotificationMessage, tokenText: string): string {
  return toOneLine(applyEdits(notification.text, editsOf(notification, tokenText, Slot.progressToken)));
}

/** The server's response as the client shall read it. */
export function responseToClient(response: ResponseMessage, idText: string): string {
  return applyEdits(response.text, editsOf(response, idText, Slot.id));
}

/** The progress token of a request as it is spelled there, where it has one. */
export function progressTokenText({ outline }: RequestMessage): string | undefined {
  return outline.copyAt(Slot.metaProgressToken);
}

/** The id in a `notifications/cancelled`, as it is spelled there. */
export function cancelledIdText({ outline }: NotificationMessage): string | undefined {
  return outline.textAt(Slot.requestId);
}

/**
 * A client's message on one line, with the edits made. Escaped names are written plainly if possible, because the server's engine may
 * misread escapes. U+2028 and U+2029 become escapes, because some servers take them for the end of a line.
 */
function toServer({ text, outline }: Message, edits: readonly Edit[]): string {
  const { escapedNames } = outline;
  const all = escapedNames.length === 0 ? edits : [...edits, ...plainNames(text, escapedNames, edits)];
  return escapeSeparators(toOneLine(applyEdits(text, all)));
}

/** The edits that write names plainly, but for those within a value that is replaced. */
function* plainNames(text: string, escapedNames: readonly number[], edits: readonly Edit[]): Generator<Edit, void> {
  for (let index = 0; index < escapedNames.length; index += 2) {
    const start = escapedNames[index] ?? 0;
    const end = escapedNames[index + 1] ?? 0;
    if (edits.some((edit) => edit.start <= start && end <= edit.end)) continue;
    const plain = plainName(text, start, end);
    if (plain !== undefined) yield { start, end, text: plain };
  }
}

/** The edits that write `value` in the place of one or two members, as far as they are there. */
function editsOf({ outline }: Message, value: string, slot: number, otherSlot?: number): Edit[] {
  const edits = outline.has(slot) ? [editOf(outline, slot, value)] : [];
  if (otherSlot !== undefined && outline.has(otherSlot)) edits.push(editOf(outline, otherSlot, value));
  return edits;
}

function editOf(outline: Outline, slot: number, text: string): Edit {
  return { start: outline.start(slot), end: outline.end(slot), text };
}

/** stdio separates messages by newlines; in JSON text those can only be white space between tokens. */
export function toOneLine(text: string): string {
  if (!text.includes("\n") && !text.includes("\r")) return text;
  // Byte by byte, as below: a peer may send millions of them.
  const bytes = Buffer.from(text);
  for (let index = 0; index < bytes.length; index++) {
    if (bytes[index] === Code.lineFeed || bytes[index] === Code.carriageReturn) bytes[index] = Code.space;
  }
  return bytes.toString();
}

/** Byte by byte, since a client may send millions of them. */
function escapeSeparators(text: string): string {
  if (!text.includes("\u2028") && !text.includes("\u2029")) return text;
  const bytes = Buffer.from(text);
  // Three bytes of UTF-8 become six.
  const escaped = Buffer.allocUnsafe(bytes.length * 2);
  let length = 0;
  for (let index = 0; index < bytes.length; index++) {
    const last = bytes[index + 2] ?? 0;
    const isSeparator = bytes[index] === 0xe2 && bytes[index + 1] === 0x80 && (last === 0xa8 || last === 0xa9);
    if (!isSeparator) {
      escaped[length++] = bytes[index] ?? 0;
      continue;
    }
    for (const byte of last === 0xa8 ? LINE_SEPARATOR : PARAGRAPH_SEPARATOR) escaped[length++] = byte;
    index += 2;
  }
  return escaped.toString("utf8", 0, length);
}
