import { SidecarError } from "../../errors.ts";
import { cutString } from "./cut.ts";

/** The bytes of a JSON-RPC error besides its id, its message and its data. */
const FRAME_BYTES = 80;

/**
 * An error of the sidecar whose JSON-RPC response has at most `maxBytes` bytes. The older lines of the server's stderr are omitted first, then
 * the end of the message.
 */
export function limitFailure(error: SidecarError, idText: string, maxBytes: number): SidecarError {
  const roomBytes = maxBytes - FRAME_BYTES - Buffer.byteLength(idText);
  if (bytesOf(error) <= roomBytes) return error;
  const { code, message, details } = error;
  const { stderrTail = [], ...others } = details;
  for (let from = 1; from < stderrTail.length; from++) {
    const shortened = new SidecarError(code, message, { ...others, stderrTail: stderrTail.slice(from) });
    if (bytesOf(shortened) <= roomBytes) return shortened;
  }
  const messageBytes = roomBytes - bytesOf(new SidecarError(code, "", others));
  const text = JSON.stringify(message);
  const kept = cutString(text, { start: 0, end: text.length }, messageBytes);
  return new SidecarError(code, JSON.parse(`"${kept}"`) as string, others);
}

function bytesOf({ message, data }: SidecarError): number {
  return Buffer.byteLength(JSON.stringify(message)) + Buffer.byteLength(JSON.stringify(data));
}
