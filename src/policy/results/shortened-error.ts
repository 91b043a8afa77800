import { bytesOf, isStringValue } from "./response-outline.ts";
import { cutJsonString } from "./text-cut.ts";
import { keptCode, openError, type TooLong } from "./too-long.ts";
import { marksBytes, withMarks } from "./truncation-marks.ts";

const ENVELOPE_NAMES: ReadonlySet<string> = new Set(["jsonrpc", "id", "error"]);
const END_BYTES = String.raw`"message":"\n","data":{}}}`.length;

/** An error with its code and as much of its message as there is room for. @returns undefined where that is none. */
export function shortenError(tooLong: TooLong): string | undefined {
  const { text, outline, originalBytes, maxBytes } = tooLong;
  const sizes = { originalBytes, droppedItems: 0, itemCount: 0 };
  const open = openError(tooLong);
  const message = outline.error?.get("message");
  const roomBytes = maxBytes - Buffer.byteLength(open) - END_BYTES - marksBytes(sizes, maxBytes);
  if (roomBytes < 0 || !isStringValue(text, message)) return undefined;
  const inner = { start: message.start + 1, end: message.end - 1 };
  const isWhole = bytesOf(text, inner, maxBytes) <= roomBytes;
  const kept = isWhole ? text.slice(inner.start, inner.end) : cutJsonString(text, message, roomBytes);
  const hasOnlyKept =
    outline.isComplete &&
    keptCode(tooLong) !== undefined &&
    outline.envelope.keys().every((name) => ENVELOPE_NAMES.has(name)) &&
    outline.error?.keys().every((name) => name === "code" || name === "message") === true;
  // It was too long by white space only.
  if (isWhole && hasOnlyKept) return `${open}"message":"${kept}"}}`;
  return withMarks(sizes, ({ members, line }, padding) => {
    return `${open}"message":"${kept}${isWhole ? "" : String.raw`\n` + line}","data":{${members}}${padding}}}`;
  });
}
