/** One server-sent event, as far as this client reads it. */
export interface ServerEvent {
  readonly id: string | undefined;
  readonly data: string;
}

/** Reads server-sent events (WHATWG HTML, "Server-sent events"), tolerant as a browser is. */
export class EventReader {
  readonly #decoder = new TextDecoder();
  /** In pieces: joining a long message again and again would take long. */
  #pieces: string[] = [];

  push(chunk: Uint8Array): ServerEvent[] {
    const piece = this.#decoder.decode(chunk, { stream: true }).replaceAll("\r", "");
    const mayEnd = piece.includes("\n\n") || (piece.startsWith("\n") && this.#pieces.at(-1)?.endsWith("\n") === true);
    if (piece !== "") this.#pieces.push(piece);
    if (!mayEnd) return [];
    const blocks = this.#pieces.join("").split("\n\n");
    this.#pieces = [blocks.pop() ?? ""];
    return blocks.map(readEvent);
  }
}

function readEvent(block: string): ServerEvent {
  let id: string | undefined;
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
    else if (line.startsWith("id:")) id = line.slice(3).trim();
  }
  return { id, data: data.join("\n") };
}
