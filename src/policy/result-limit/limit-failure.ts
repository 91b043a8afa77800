import { type ErrorData, SidecarError } from "../../errors.ts";
import { decodeString } from "../../json/strings.ts";
import { cutString } from "./cut.ts";
import { NO_ROOM } from "./limit.ts";

/** A JSON-RPC error besides its id, its message and its data. */
const ERROR_BYTES = '{"jsonrpc":"2.0","id":,"error":{"code":-32000,"message":}}'.length;
const DATA_BYTES = ',"data":'.length;
/** A message is not cut shorter than this. It still has the method or tool, and the beginning of the reason. */
const USEFUL_BYTES = 64;

/** An error without some members of its data. `details` still decides about the HTTP status and its headers. */
class ShortenedError extends SidecarError {
  readonly #data: ErrorData | undefined;

  constructor({ code, details }: SidecarError, message: string, data?: ErrorData) {
    const { stderrTail: _, ...others } = details;
    super(code, message, data?.stderrTail === undefined ? others : { ...others, stderrTail: data.stderrTail });
    this.#data = data;
  }

  override get data(): ErrorData | undefined {
    return this.#data;
  }
}

/**
 * Shortens an error of the sidecar, so that its JSON-RPC response has at most `maxBytes` bytes. The data is shortened first, then the
 * message. The shortest error has its code as the message.
 *
 * @returns the JSON text of an error without id if only that one fits.
 */
export function limitFailure(error: SidecarError, idText: string, maxBytes: number): SidecarError | string {
  const { code, message } = error;
  const roomBytes = maxBytes - ERROR_BYTES - Buffer.byteLength(idText);
  if (bytesOf(message) + dataBytes(error.data) <= roomBytes) return error;
  const shortened = shorterData(error.data);
  const fitting = shortened.find((data) => bytesOf(message) + dataBytes(data) <= roomBytes);
  if (fitting !== undefined) return new ShortenedError(error, message, fitting);
  const text = JSON.stringify(message);
  for (const data of [shortened.at(-1), undefined]) {
    const messageBytes = roomBytes - dataBytes(data) - '""'.length;
    if (messageBytes < Math.min(USEFUL_BYTES, bytesOf(message) - '""'.length)) continue;
    const kept = `"${cutString(text, { start: 0, end: text.length }, messageBytes)}"`;
    return new ShortenedError(error, decodeString(kept, 0, kept.length), data);
  }
  const isShorterWithoutId = NO_ROOM.length < ERROR_BYTES + Buffer.byteLength(idText) + bytesOf(code);
  return bytesOf(code) > roomBytes && isShorterWithoutId ? NO_ROOM : new ShortenedError(error, code);
}

/** Returns the data without the older lines of stderr, without all of them, without advice, and with nothing but the facts about a retry. */
function shorterData(data: ErrorData | undefined): ErrorData[] {
  if (data === undefined) return [];
  const { stderrTail = [], ...withoutTail } = data;
  const { action: _, ...withoutAction } = withoutTail;
  const { code, sent, retrySafe } = data;
  const shorter: ErrorData[] = [];
  for (let from = 1; from < stderrTail.length; from++) shorter.push({ ...data, stderrTail: stderrTail.slice(from) });
  return [...shorter, withoutTail, withoutAction, { code, sent, retrySafe }];
}

function dataBytes(data: ErrorData | undefined): number {
  return data === undefined ? 0 : DATA_BYTES + bytesOf(data);
}

function bytesOf(value: string | ErrorData): number {
  return Buffer.byteLength(JSON.stringify(value));
}
