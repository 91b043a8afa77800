import type { Writable } from "node:stream";
import type { Outgoing } from "../jsonrpc/outgoing.ts";

/** Lines are joined up to about this size, so that a batch that is half written says little about lines that were not. */
const MAX_BATCH_BYTES = 256 * 1024;

/**
 * Writes lines to the MCP server's stdin in order, one write at a time. Lines that come while a write is under way, or within one turn
 * of the event loop, go out together: one system call instead of many. A line is `written` from the moment its bytes are handed to the
 * operating system; until then it waits here and can be withdrawn, or taken back when the server has died.
 */
export class StdinWriter {
  readonly #stream: Writable;
  readonly #onDefect: (error: unknown) => void;
  readonly #queue = new Set<Outgoing>();
  #queuedBytes = 0;
  #isScheduled = false;
  #isWriting = false;
  #isPaused = false;

  /** @param onDefect is given what a write throws. */
  constructor(stream: Writable, onDefect: (error: unknown) => void) {
    this.#stream = stream;
    this.#onDefect = onDefect;
  }

  /** Bytes that wait for the server to read. */
  get queuedBytes(): number {
    return this.#queuedBytes;
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

  /** Writes nothing more: the server could not answer it. */
  pause(): void {
    this.#isPaused = true;
  }

  /** Takes a line back that nobody wants any more. */
  withdraw(line: Outgoing): void {
    line.state = "withdrawn";
    this.#remove(line);
  }

  /** Takes back the lines that the server cannot have seen. */
  takeUnwritten(): Outgoing[] {
    const unwritten = [...this.#queue];
    this.#queue.clear();
    this.#queuedBytes = 0;
    return unwritten;
  }

  /** Closes stdin behind what is being written, or can be written at once; what is still queued then stays unwritten. */
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
      if (!line.isKept) line.text = "";
    }
    this.#isWriting = true;
    this.#stream.write(batch, "utf8", this.#onWritten);
  }

  readonly #onWritten = (error?: Error | null): void => {
    this.#isWriting = false;
    // After an error the pipe is broken: the supervisor ends this process and takes back what is queued.
    if (!error) this.#writeGuarded();
  };
}
