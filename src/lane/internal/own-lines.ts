import { outgoing } from "../../protocol/outgoing.ts";
import type { UpstreamInput } from "../../upstream/port.ts";

/** The limit for lines in the stdin that the server has caused, such as responses to its pings. They count for no client's memory. */
const MAX_BYTES = 256 * 1024;

/** The lines that a server has caused and has not read. */
export class OwnLines {
  #bytes = 0;

  /** @returns false if the server has left too many unread. */
  send(input: UpstreamInput | undefined, text: string): boolean {
    if (input === undefined) return true;
    const byteLength = Buffer.byteLength(text);
    if (this.#bytes + byteLength > MAX_BYTES) return false;
    this.#bytes += byteLength;
    input.send({ ...outgoing(text), byteLength, onEmptied: () => (this.#bytes -= byteLength) });
    return true;
  }
}
