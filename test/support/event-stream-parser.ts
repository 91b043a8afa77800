/** One block of an event stream, with the fields it has; a comment is one, too. */
export interface StreamBlock {
  readonly id?: string;
  readonly event?: string;
  readonly retry?: string;
  readonly data?: string;
  readonly comment?: string;
}

const LINE_ENDS = /\r\n|\n|\r/;
const FIELDS: ReadonlySet<string> = new Set(["id", "event", "retry", "data", "comment"]);

/**
 * Reads server-sent events (WHATWG HTML, "Server-sent events"), but strictly: what a browser would pass over in silence is an error
 * here, since the sidecar has no reason to send it.
 */
export class EventStreamParser {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  /** What came since the last block: in pieces, since joining a long message again and again would take long. */
  #pieces: string[] = [];

  /** @returns the blocks that are complete now. */
  push(chunk: Uint8Array): StreamBlock[] {
    const piece = this.#decoder.decode(chunk, { stream: true });
    const mayEnd = piece.includes("\n\n") || (piece.startsWith("\n") && this.#pieces.at(-1)?.endsWith("\n") === true);
    if (piece !== "") this.#pieces.push(piece);
    if (!mayEnd) return [];
    const blocks = this.#pieces.join("").split("\n\n");
    this.#pieces = [blocks.pop() ?? ""];
    return blocks.map(readBlock);
  }

  /** @throws where the stream ended within a block. */
  end(): void {
    const rest = this.#pieces.join("") + this.#decoder.decode();
    if (rest !== "") throw new Error(`the stream ended within an event: ${JSON.stringify(rest.slice(0, 200))}`);
  }
}

export function parseEventStream(body: string): StreamBlock[] {
  const parser = new EventStreamParser();
  const blocks = parser.push(Buffer.from(body));
  parser.end();
  return blocks;
}

function readBlock(text: string): StreamBlock {
  const fields: Record<string, string> = {};
  for (const line of text.split(LINE_ENDS)) {
    const colon = line.indexOf(": ");
    const name = colon === 0 ? "comment" : line.slice(0, colon);
    if (colon === -1 || fields[name] !== undefined || !FIELDS.has(name)) {
      throw new Error(`not a line of an event: ${JSON.stringify(line.slice(0, 200))}`);
    }
    fields[name] = line.slice(colon + 2);
  }
  return fields;
}
