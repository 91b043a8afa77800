import { StringDecoder } from "node:string_decoder";
import { EnvelopeScanner } from "../json/envelope-scanner.ts";
import type { OverlongLine } from "../protocol/message.ts";

export interface LineListener {
  onLine(line: string): void;
  onOverlongLine(line: OverlongLine): void;
}

const NEWLINE = 10;
const MIN_BUFFER_BYTES = 1024;
const EMPTY = Buffer.alloc(0);
/**
 * Buffers of former lines, for the next lines of any server, because allocation costs more than copying: one for short lines, one for long
 * ones. A decoder that waits for a line has no buffer.
 */
const SPARES = [
  { maxBytes: 64 * 1024, buffer: EMPTY },
  { maxBytes: 2 * 1024 * 1024, buffer: EMPTY },
];

/** Longer lines are scanned while they arrive, because they may be discarded. Scanning all at once would take too long. */
const EARLY_SCAN_BYTES = 4 * 1024 * 1024;

/** The envelope of a line that may be discarded. */
class ScannedLine {
  readonly #decoder = new StringDecoder("utf8");
  readonly #envelope = new EnvelopeScanner();
  #bytes = 0;

  push(part: Buffer): void {
    this.#bytes += part.length;
    this.#envelope.push(this.#decoder.write(part));
  }

  /** @param isForMemory true if the line was discarded to free memory. */
  line(isForMemory: boolean): OverlongLine {
    const { idText, hasMethod, hasTextBefore } = this.#envelope;
    return { bytes: this.#bytes, idText, hasMethod, isForMemory, hasTextBefore };
  }
}

/**
 * Splits a stream of UTF-8 into lines (MCP 2025-11-25, basic/transports, stdio: newline-delimited, no embedded newlines). A line over the
 * limit is scanned as it arrives and then discarded, so that memory stays bounded and later lines are still read. A line is decoded when it
 * is complete; until then its buffer has at most twice its size, or is a spare one.
 */
export class LineDecoder {
  readonly #maxLineBytes: number;
  readonly #listener: LineListener;
  /** The received part of an incomplete line. The buffer grows by doubling, so that many small chunks do not cost a copy each. */
  #buffer = EMPTY;
  #length = 0;
  #scanned: ScannedLine | undefined;
  /** The reason why the rest of the line is not kept; undefined if it is kept. */
  #discarded: "length" | "memory" | undefined;

  constructor(maxLineBytes: number, listener: LineListener) {
    this.#maxLineBytes = maxLineBytes;
    this.#listener = listener;
  }

  /** The memory of the incomplete line. */
  get bufferBytes(): number {
    return this.#buffer.length;
  }

  /** The length of the incomplete line, as far as it has arrived and is kept. */
  get lineBytes(): number {
    return this.#length;
  }

  push(chunk: Buffer): void {
    let from = 0;
    for (let newline = chunk.indexOf(NEWLINE); newline !== -1; newline = chunk.indexOf(NEWLINE, from)) {
      const isWhole = this.#length === 0 && this.#discarded === undefined && newline - from <= this.#maxLineBytes;
      if (isWhole) this.#emit(chunk.toString("utf8", from, newline));
      else {
        this.#append(chunk.subarray(from, newline));
        this.#endLine();
      }
      from = newline + 1;
    }
    if (from < chunk.length) this.#append(chunk.subarray(from));
  }

  /** Discards the incomplete line to free its memory. */
  discardLine(): void {
    if (this.#length === 0) return;
    this.#scan();
    this.#discarded = "memory";
    this.#reset();
  }

  /** Ends the stream. A last line without a newline counts. */
  end(): void {
    this.#endLine();
  }

  #append(part: Buffer): void {
    const length = this.#length + part.length;
    if (length > Math.min(EARLY_SCAN_BYTES, this.#maxLineBytes)) this.#scan();
    this.#scanned?.push(part);
    if (this.#discarded !== undefined) return;
    if (length > this.#maxLineBytes) {
      this.#discarded = "length";
      this.#reset();
    } else {
      if (length > this.#buffer.length) this.#grow(length);
      part.copy(this.#buffer, this.#length);
      this.#length = length;
    }
  }

  /** Scans the line from now on, and the part that has arrived. */
  #scan(): void {
    if (this.#scanned !== undefined) return;
    this.#scanned = new ScannedLine();
    this.#scanned.push(this.#buffer.subarray(0, this.#length));
  }

  #grow(length: number): void {
    const former = this.#buffer;
    this.#buffer = takeBuffer(length, Math.max(MIN_BUFFER_BYTES, length, Math.min(this.#maxLineBytes, former.length * 2)));
    former.copy(this.#buffer, 0, 0, this.#length);
    keepBuffer(former);
  }

  #endLine(): void {
    const scanned = this.#scanned;
    this.#scanned = undefined;
    if (this.#discarded !== undefined && scanned !== undefined) {
      const line = scanned.line(this.#discarded === "memory");
      this.#discarded = undefined;
      this.#listener.onOverlongLine(line);
      return;
    }
    const line = this.#buffer.toString("utf8", 0, this.#length);
    this.#reset();
    this.#emit(line);
  }

  #reset(): void {
    keepBuffer(this.#buffer);
    this.#buffer = EMPTY;
    this.#length = 0;
  }

  #emit(line: string): void {
    const trimmed = line.endsWith("\r") ? line.slice(0, -1) : line;
    if (trimmed !== "") this.#listener.onLine(trimmed);
  }
}

/** Returns the spare buffer for this size if it has the length, or else a new one of this size. */
function takeBuffer(length: number, bytes: number): typeof EMPTY {
  const spare = SPARES.find(({ maxBytes }) => bytes <= maxBytes);
  if (spare === undefined || spare.buffer.length < length) return Buffer.allocUnsafeSlow(bytes);
  const { buffer } = spare;
  spare.buffer = EMPTY;
  return buffer;
}

/** Keeps a buffer for the next line, if it is larger than the spare one. */
function keepBuffer(buffer: typeof EMPTY): void {
  const spare = SPARES.find(({ maxBytes }) => buffer.length <= maxBytes);
  if (spare !== undefined && buffer.length > spare.buffer.length) spare.buffer = buffer;
}
