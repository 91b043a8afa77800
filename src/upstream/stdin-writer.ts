import type { Writable } from "node:stream";
import type { Outgoing } from "../protocol/outgoing.ts";
import type { UpstreamInput } from "./port.ts";

/** The largest write, unless one line is longer. If a write is interrupted, all of its lines count as written, read or not. */
const MAX_BATCH_BYTES = 256 * 1024;

/**
 * Writes lines to the MCP server's stdin in order, one write at a time. Lines that are sent during a write, or within one turn of the event
 * loop, are written together: one system call instead of many. A line is `written` from the call of `write` on. Until then it is queued
 * here and can be withdrawn, or taken back after an exit.
 */
export class StdinWriter implements UpstreamInput {
  readonly #stream: Writable;
  readonly #onDefect: (error: unknown) => void;
  readonly #queue = new Set<Outgoing>();
  /** The listeners of the lines in the current write, whose text is in memory until its end. */
  #onBatchWritten: (() => void)[] = [];
  #queuedBytes = 0;
  #writes = 0;
  #isScheduled = false;
  #isWriting = false;
  #isPaused = false;

  /** @param onDefect called with an error that a write throws. */
  constructor(stream: Writable, onDefect: (error: unknown) => void) {
    this.#stream = stream;
    this.#onDefect = onDefect;
  }

  /** The bytes of the lines that are not written yet. */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  /** The number of writes that the stream has taken. */
  get writes(): number {
    return this.#writes;
  }

  send(line: Outgoing): void {
    this.#queue.add(line);
    line.byteLength ??= Buffer.byteLength(line.text);
    this.#queuedBytes += line.byteLength;
    if (this.#isScheduled || this.#isWriting) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#writeGuarded();
    });
  }

  /** Stops writing, because the server can no longer answer. */
  pause(): void {
    this.#isPaused = true;
  }

  /** Removes a line that is no longer wanted, if it is still queued. */
  withdraw(line: Outgoing): void {
    this.#remove(line);
  }

  /** Removes and returns the lines that the server cannot have seen. */
  takeUnwritten(): Outgoing[] {
    const unwritten = [...this.#queue];
    this.#queue.clear();
    this.#queuedBytes = 0;
    this.#releaseBatch();
    return unwritten;
  }

  /** Writes one more batch if no write is in progress, and closes stdin. Lines that are still queued stay unwritten. */
  end(): void {
    this.#writeBatch();
    this.#stream.end();
  }

  #remove(line: Outgoing): void {
    if (this.#queue.delete(line)) this.#queuedBytes -= line.byteLength ?? 0;
  }

  #writeGuarded(): void {
    try {
      this.#writeBatch();
    } catch (error) {
      this.#onDefect(error);
    }
  }

  #writeBatch(): void {
    if (this.#isPaused || this.#isWriting || this.#queue.size === 0 || !this.#stream.writable) return;
    let batch = "";
    let batchBytes = 0;
    for (const line of this.#queue) {
      batchBytes += line.byteLength ?? 0;
      if (batch !== "" && batchBytes > MAX_BATCH_BYTES) break;
      this.#remove(line);
      line.state = "written";
      batch += `${line.text}\n`;
      if (line.isKept) continue;
      line.text = "";
      if (line.onEmptied !== undefined) this.#onBatchWritten.push(line.onEmptied);
    }
    this.#isWriting = true;
    this.#stream.write(batch, "utf8", this.#onWritten);
  }

  #releaseBatch(): void {
    const listeners = this.#onBatchWritten;
    this.#onBatchWritten = [];
    for (const listener of listeners) listener();
  }

  readonly #onWritten = (error?: Error | null): void => {
    this.#isWriting = false;
    this.#writes++;
    this.#releaseBatch();
    // After an error the pipe is broken. The supervisor then stops the process and takes back the queued lines.
    if (!error) this.#writeGuarded();
  };
}
