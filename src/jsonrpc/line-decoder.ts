import { EnvelopeScanner } from "./envelope-scanner.ts";

/** A line that was longer than the limit: discarded, but for what tells whose answer it was. */
export interface OverlongLine {
  readonly length: number;
  /** The JSON text of its top-level `id`, where there is one. */
  readonly idText: string | undefined;
  /** True for a request or notification, so that its id is never taken for that of an answer. */
  readonly hasMethod: boolean;
}

export interface LineListener {
  onLine(line: string): void;
  onOverlongLine(line: OverlongLine): void;
}

/**
 * Cuts a stream of text into lines (MCP 2025-11-25, basic/transports, stdio: newline-delimited, no embedded newlines). A line over
 * the limit is scanned on as it arrives and thrown away, so that memory stays bounded and the stream goes on behind it. Lengths are
 * in UTF-16 units: never more than the line has bytes.
 */
export class LineDecoder {
  readonly #maxLineLength: number;
  readonly #listener: LineListener;
  #partial = "";
  #overlong: EnvelopeScanner | undefined;

  constructor(maxLineLength: number, listener: LineListener) {
    this.#maxLineLength = maxLineLength;
    this.#listener = listener;
  }

  push(chunk: string): void {
    let from = 0;
    for (;;) {
      const newline = chunk.indexOf("\n", from);
      if (newline === -1) break;
      this.#append(chunk.slice(from, newline));
      this.#endLine();
      from = newline + 1;
    }
    if (from < chunk.length) this.#append(from === 0 ? chunk : chunk.slice(from));
  }

  /** The stream has ended: a last line without its newline still counts. */
  end(): void {
    this.#endLine();
  }

  #append(text: string): void {
    if (this.#overlong !== undefined) {
      this.#overlong.push(text);
    } else if (this.#partial.length + text.length > this.#maxLineLength) {
      this.#overlong = new EnvelopeScanner();
      this.#overlong.push(this.#partial);
      this.#overlong.push(text);
      this.#partial = "";
    } else {
      this.#partial += text;
    }
  }

  #endLine(): void {
    if (this.#overlong !== undefined) {
      const { length, idText, hasMethod } = this.#overlong;
      this.#overlong = undefined;
      this.#listener.onOverlongLine({ length, idText, hasMethod });
      return;
    }
    const line = this.#partial;
    this.#partial = "";
    const trimmed = line.endsWith("\r") ? line.slice(0, -1) : line;
    if (trimmed !== "") this.#listener.onLine(trimmed);
  }
}
