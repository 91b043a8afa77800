import { StringDecoder } from "node:string_decoder";
import { EnvelopeScanner } from "../json/envelope-scanner.ts";
import type { OverlongLine } from "../jsonrpc/message.ts";

export interface LineListener {
  onLine(line: string): void;
  onOverlongLine(line: OverlongLine): void;
}

const NEWLINE = 10;
/** Initial buffer size. */
const SMALL_BUFFER_BYTES = 64 * 1024;
/** What is kept for the next long line: new memory costs more than the copying. */
const KEPT_BUFFER_BYTES = 2 * 1024 * 1024;

/** A line that is longer is scanned as it arrives, in case it has to be thrown away: all at once would take too long. */
const EARLY_SCAN_BYTES = 4 * 1024 * 1024;

/** The envelope of a line that may have to be thrown away. */
class ScannedLine {
  readonly #decoder = new StringDecoder("utf8");
  readonly #envelope = new EnvelopeScanner();
  #bytes = 0;

  push(part: Buffer): void {
    this.#bytes += part.length;
    this.#envelope.push(this.#decoder.write(part));
  }

  get line(): OverlongLine {
    const { idText, hasMethod } = this.#envelope;
    return { bytes: this.#bytes, idText, hasMethod };
  }
}

/**
 * Cuts a stream of UTF-8 into lines (MCP 2025-11-25, basic/transports, stdio: newline-delimited, no embedded newlines). A line over
 * the limit is scanned on as it arrives and thrown away, so that memory stays bounded and the stream goes on behind it. A line is decoded
 * once it is whole: until then it takes no more memory than it has bytes, twice over at most.
 */
export class LineDecoder {
  readonly #maxLineBytes: number;
  readonly #listener: LineListener;
  /** The beginning of a line whose end is yet to come. It grows, however small the pieces are that it comes in. */
  #buffer = Buffer.alloc(0);
  #length = 0;
  #scanned: ScannedLine | undefined;
  #isDiscarded = false;

  constructor(maxLineBytes: number, listener: LineListener) {
    this.#maxLineBytes = maxLineBytes;
    this.#listener = listener;
  }

  push(chunk: Buffer): void {
    let from = 0;
    for (let newline = chunk.indexOf(NEWLINE); newline !== -1; newline = chunk.indexOf(NEWLINE, from)) {
      const isWhole = this.#length === 0 && !this.#isDiscarded && newline - from <= this.#maxLineBytes;
      if (isWhole) this.#emit(chunk.toString("utf8", from, newline));
      else {
        this.#append(chunk.subarray(from, newline));
        this.#endLine();
      }
      from = newline + 1;
    }
    if (from < chunk.length) this.#append(chunk.subarray(from));
  }

  /** The stream has ended: a last line without its newline still counts. */
  end(): void {
    this.#endLine();
  }

  #append(part: Buffer): void {
    const length = this.#length + part.length;
    if (this.#scanned === undefined && length > Math.min(EARLY_SCAN_BYTES, this.#maxLineBytes)) {
      this.#scanned = new ScannedLine();
      this.#scanned.push(this.#buffer.subarray(0, this.#length));
    }
    this.#scanned?.push(part);
    if (this.#isDiscarded) return;
    if (length > this.#maxLineBytes) {
      this.#isDiscarded = true;
      this.#reset();
    } else {
      if (length > this.#buffer.length) this.#grow(length);
      part.copy(this.#buffer, this.#length);
      this.#length = length;
    }
  }

  #grow(length: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.max(SMALL_BUFFER_BYTES, length, Math.min(this.#maxLineBytes, this.#buffer.length * 2)));
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }

  #endLine(): void {
    const scanned = this.#scanned;
    this.#scanned = undefined;
    if (this.#isDiscarded && scanned !== undefined) {
      this.#isDiscarded = false;
      this.#listener.onOverlongLine(scanned.line);
      return;
    }
    const line = this.#buffer.toString("utf8", 0, this.#length);
    this.#reset();
    this.#emit(line);
  }

  #reset(): void {
    this.#length = 0;
    if (this.#buffer.length > KEPT_BUFFER_BYTES) this.#buffer = Buffer.alloc(0);
  }

  #emit(line: string): void {
    const trimmed = line.endsWith("\r") ? line.slice(0, -1) : line;
    if (trimmed !== "") this.#listener.onLine(trimmed);
  }
}
