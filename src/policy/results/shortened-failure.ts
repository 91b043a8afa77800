import { SidecarError } from "../../errors.ts";
import { cutJsonString } from "./text-cut.ts";

/** What a JSON-RPC error has besides its id, its message and its data. */
const FRAME_BYTES = 80;

/**
 * An error of the sidecar whose JSON-RPC response has at most `maxBytes` bytes: first the older lines of the server's stderr go, then
 * the end of the message.
 */
export function shortenFailure(error: SidecarError, idText: string, maxBytes: number): SidecarError {
  const { code, message, details } = error;
  const roomBytes = maxBytes - FRAME_BYTES - Buffer.byteLength(idText);
  if (bytesOf(error) <= roomBytes) return error;
  const { stderrTail = [], ...others } = details;
  for (let from = 1; from < stderrTail.length; from++) {
    const shortened = new SidecarError(code, message, { ...others, stderrTail: stderrTail.slice(from) });
    if (bytesOf(shortened) <= roomBytes) return shortened;
  }
  const messageRoom = roomBytes - bytesOf(new SidecarError(code, "", others));
  const text = JSON.stringify(message);
  const cut = cutJsonString(text, { start: 0, end: text.length }, Math.max(0, messageRoom));
  return new SidecarError(code, JSON.parse(`"${cut}"`) as string, others);
}

function bytesOf({ message, data }: SidecarError): number {
  return Buffer.byteLength(JSON.stringify(message)) + Buffer.byteLength(JSON.stringify(data));
}
