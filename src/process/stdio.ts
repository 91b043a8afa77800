import type { Readable, Writable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Context } from "../context.ts";
import {
  type Batch,
  isPlain,
  LONG_TEXT_LENGTH,
  type Outgoing,
  type OverlongLine,
  readInSteps,
  readText,
  withoutSteps,
} from "../mcp/message.ts";
import { readEnds, type ServerReading, settle } from "../mcp/server-line.ts";
import { HOLDER_SHARE, lastingTime, type MemoryBudget, type MemoryHolder, type Reservation } from "../memory.ts";
import { runInSteps } from "../timers.ts";
import type { UpstreamInput } from "./port.ts";

const NEWLINE = 10;
const CARRIAGE_RETURN = 13;
const LINE_END = Buffer.of(NEWLINE);
const MIN_BUFFER_BYTES = 1024;
const EMPTY = Buffer.alloc(0);
/** Long lines of all servers share this buffer, because allocation costs more than copying. */
let spare = EMPTY;
const MIN_SPARE_BYTES = 32 * 1024;
const MAX_SPARE_BYTES = 2 * 1024 * 1024;

const END_BYTES = 256;

/**
 * Splits UTF-8 into lines (MCP 2025-11-25, basic/transports, stdio). A line over the limit is discarded except for its ends, so that memory
 * stays bounded.
 */
export class LineDecoder {
  readonly #maxLineBytes: number;
  /** `next` has read the bytes before `#from`. */
  #chunk: Buffer = EMPTY;
  #from = 0;
  /** Holds an incomplete line. It grows by doubling, so that many small chunks do not cost a copy each. */
  #buffer = EMPTY;
  #length = 0;
  #discarded: { readonly isForMemory: boolean; bytes: number; head: Buffer; tail: Buffer } | undefined;

  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes;
  }

  get lineBytes(): number {
    return this.#buffer.length;
  }

  get heldBytes(): number {
    return this.#buffer.length + this.#chunk.length;
  }

  push(chunk: Buffer): void {
    const unread = this.#chunk.subarray(this.#from);
    this.#chunk = unread.length === 0 ? chunk : Buffer.concat([unread, chunk]);
    this.#from = 0;
  }

  /** Skips empty lines. @returns undefined if the next line is incomplete. */
  next(): string | OverlongLine | undefined {
    const chunk = this.#chunk;
    while (this.#from < chunk.length) {
      const start = this.#from;
      const newline = chunk.indexOf(NEWLINE, start);
      const end = newline === -1 ? chunk.length : newline;
      this.#from = end + 1;
      const isWhole = newline !== -1 && this.#length === 0 && this.#discarded === undefined && end - start <= this.#maxLineBytes;
      if (!isWhole) this.#append(chunk.subarray(start, end));
      const line = isWhole ? textOf(chunk, start, end) : newline === -1 ? "" : this.#endLine();
      if (line !== "") return line;
    }
    this.#chunk = EMPTY;
    this.#from = 0;
    return undefined;
  }

  discardLine(): void {
    if (this.#length > 0) this.#discard(true);
  }

  #append(part: Buffer): void {
    const length = this.#length + part.length;
    if (this.#discarded === undefined && length > this.#maxLineBytes) this.#discard(false);
    if (this.#discarded !== undefined) return this.#keepEnds(part);
    if (length > this.#buffer.length) {
      const former = this.#buffer;
      if (length > MIN_SPARE_BYTES && length <= spare.length) [this.#buffer, spare] = [spare, EMPTY];
      else this.#buffer = Buffer.allocUnsafeSlow(Math.max(MIN_BUFFER_BYTES, length, Math.min(this.#maxLineBytes, former.length * 2)));
      former.copy(this.#buffer, 0, 0, this.#length);
    }
    part.copy(this.#buffer, this.#length);
    this.#length = length;
  }

  #discard(isForMemory: boolean): void {
    this.#discarded = { isForMemory, bytes: 0, head: EMPTY, tail: EMPTY };
    this.#keepEnds(this.#buffer.subarray(0, this.#length));
    this.#reset();
  }

  #keepEnds(part: Buffer): void {
    const discarded = this.#discarded;
    if (discarded === undefined) return;
    discarded.bytes += part.length;
    discarded.head = Buffer.concat([discarded.head, part.subarray(0, END_BYTES - discarded.head.length)]);
    discarded.tail = Buffer.concat([discarded.tail, part.subarray(-END_BYTES)]).subarray(-END_BYTES);
  }

  #endLine(): string | OverlongLine {
    const discarded = this.#discarded;
    this.#discarded = undefined;
    if (discarded !== undefined) {
      const { bytes, isForMemory, head, tail } = discarded;
      return { kind: "overlong", bytes, isForMemory, ...readEnds(head.toString(), tail.toString()) };
    }
    const line = textOf(this.#buffer, 0, this.#length);
    this.#reset();
    return line;
  }

  #reset(): void {
    if (this.#buffer.length > spare.length && this.#buffer.length <= MAX_SPARE_BYTES) spare = this.#buffer;
    this.#buffer = EMPTY;
    this.#length = 0;
  }
}

function textOf(bytes: Buffer, start: number, end: number): string {
  return bytes.toString("utf8", start, end > start && bytes[end - 1] === CARRIAGE_RETURN ? end - 1 : end);
}

/** Memory is short for so long before a line is discarded. Meanwhile, clients may make room. */
const SHORT_MS = 1000;

/**
 * Bounds the memory of one program's output: there may be many servers, and each may keep its line incomplete for ever. If memory stays
 * short and incomplete lines take more than the largest line may, the longest ones are discarded. A private server's output counts for its
 * client, so its lines also make room when another client asks for its share.
 */
export function boundedReaders(budget: MemoryBudget): Set<OutputReader> {
  const readers = new Set<OutputReader>();
  const hasBeenShort = lastingTime(SHORT_MS);
  const longestFirst = (): OutputReader[] => [...readers].sort((a, b) => b.decoder.lineBytes - a.decoder.lineBytes);
  budget.onShortage("slow", function* () {
    if (!hasBeenShort(performance.now())) return;
    let excessBytes = -budget.limitBytes * HOLDER_SHARE;
    for (const { decoder } of readers) excessBytes += decoder.lineBytes;
    for (const reader of longestFirst()) {
      if (excessBytes <= 0) return;
      excessBytes -= reader.decoder.lineBytes;
      yield reader.discardLine();
    }
  });
  budget.onShortage("share", function* (holder) {
    for (const reader of longestFirst()) if (reader.client === holder) yield reader.discardLine();
  });
  return readers;
}

export interface OutputListener {
  /** Called with each message of a batch. */
  onReading(reading: Exclude<ServerReading, Batch> | OverlongLine): void;
  /** The listener or the reader has thrown. Further output is unreliable. */
  onDefect(error: unknown): void;
}

/** Longest pause of stdout while memory is short, and the time until the next one if it freed nothing. */
const MAX_PAUSE_MS = 1000;
const PAUSE_CHECK_MS = 20;
const MAX_TURN_MS = 50;
const LATER = Symbol("later");

/** A long message is read in steps, while stdout is paused. */
export class OutputReader {
  readonly client: MemoryHolder | undefined;
  readonly decoder: LineDecoder;
  readonly #stdout: Readable;
  readonly #listener: OutputListener;
  readonly #memory: MemoryBudget;
  readonly #readers: Set<OutputReader>;
  readonly #held: Reservation;
  #nextPauseMs = 0;
  #turnEndMs = 0;
  /** Settles when the lines that wait for memory, for the next turn, or for the end of a long line are read. Undefined if none wait. */
  later: Promise<void> | undefined;
  outputs = 0;

  constructor(
    stdout: Readable,
    { config, memory }: Context,
    readers: Set<OutputReader>,
    client: MemoryHolder | undefined,
    listener: OutputListener,
  ) {
    this.client = client;
    this.#stdout = stdout;
    this.#listener = listener;
    this.decoder = new LineDecoder(config.maxLineBytes);
    this.#memory = memory;
    this.#readers = readers.add(this);
    this.#held = memory.account(client ?? this).hold("serverOutput", 0);
    stdout.on("data", this.#push);
  }

  /** Output that has arrived is read without a pause for memory, because the exit of the server waits for it. */
  end(): void {
    this.#nextPauseMs = Infinity;
    // A last line without a newline counts.
    this.#push(LINE_END);
  }

  release(): void {
    this.#readers.delete(this);
    this.#held.release();
  }

  discardLine(): void {
    this.decoder.discardLine();
    this.#held.resize(this.decoder.heldBytes);
  }

  readonly #push = (chunk: Buffer): void => {
    this.outputs++;
    this.decoder.push(chunk);
    if (this.later !== undefined) return;
    const rest = this.#read();
    if (rest !== undefined) this.later = this.#readLater(rest);
  };

  /**
   * Reads lines until a long one, until memory is short, or for the time of a turn: each line may be for thousands of sessions.
   *
   * @returns the long line, LATER if there may be more to read, or undefined.
   */
  #read(): string | typeof LATER | undefined {
    if (this.#turnEndMs === 0) {
      this.#turnEndMs = performance.now() + MAX_TURN_MS;
      setImmediate(() => (this.#turnEndMs = 0));
    }
    try {
      for (let line = this.decoder.next(); line !== undefined; line = this.decoder.next()) {
        if (typeof line !== "string") this.#listener.onReading(line);
        else if (line.length > LONG_TEXT_LENGTH) return line;
        else {
          const reading = readText(line);
          if (reading.kind !== "batch" && isPlain(reading)) this.#listener.onReading(reading);
          else this.#deliver(withoutSteps(settle(line, reading)));
        }
        if (this.#isMemoryShort || performance.now() > this.#turnEndMs) return LATER;
      }
    } catch (error) {
      this.#listener.onDefect(error);
    } finally {
      this.#held.resize(this.decoder.heldBytes);
    }
    // An incomplete line may be all that takes memory.
    return this.#isMemoryShort ? LATER : undefined;
  }

  async #readLater(first: string | typeof LATER): Promise<void> {
    this.#stdout.pause();
    for (let rest: string | typeof LATER | undefined = first; rest !== undefined; rest = this.#read()) {
      try {
        if (rest === LATER) await nextTurn();
        else this.#deliver(await runInSteps(readLineInSteps(rest)));
        await this.#waitForMemory();
      } catch (error) {
        this.#listener.onDefect(error);
      }
    }
    this.later = undefined;
    this.#stdout.resume();
  }

  get #isMemoryShort(): boolean {
    return this.#memory.usedBytes > this.#memory.calmBytes && performance.now() > this.#nextPauseMs;
  }

  /** Clients may read some output meanwhile. One that reads nothing must not stall the others, so the wait is short. */
  async #waitForMemory(): Promise<void> {
    const endMs = performance.now() + MAX_PAUSE_MS;
    while (this.#isMemoryShort) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_CHECK_MS));
      this.#memory.relieve();
      // A pause that freed nothing would only stall the clients that do read.
      if (this.#isMemoryShort && performance.now() >= endMs) this.#nextPauseMs = performance.now() + MAX_PAUSE_MS;
    }
  }

  #deliver(reading: ServerReading): void {
    if (reading.kind !== "batch") return this.#listener.onReading(reading);
    // Only revision 2025-03-26 has batches, but a server that sends one wants it to be read.
    const { text, messages, isCut } = reading;
    for (const each of messages) this.#listener.onReading(each);
    const reason = isCut ? `only ${messages.length} messages of the batch are read` : "the batch is empty";
    if (isCut || messages.length === 0) this.#listener.onReading({ kind: "invalid", text, isJson: true, reason });
  }
}

function* readLineInSteps(line: string): Generator<undefined, ServerReading> {
  const reading = yield* readInSteps(line);
  return isPlain(reading) ? reading : yield* settle(line, reading);
}

/** One longer line is a batch of its own. If a write is interrupted, all of its lines count as written, read or not. */
const MAX_BATCH_BYTES = 256 * 1024;

/**
 * Writes lines in order, one write at a time. Lines that are sent during a write, or within one turn of the event loop, are written
 * together: one system call instead of many. A line is `written` from the call of `write` on. Until then it can be withdrawn.
 */
export class StdinWriter implements UpstreamInput {
  readonly #stream: Writable;
  readonly #onDefect: (error: unknown) => void;
  #queue: Outgoing[] = [];
  /** The text of the lines in the current write is in memory until its end. */
  readonly #onBatchWritten: (() => void)[] = [];
  #isScheduled = false;
  #isWriting = false;
  /** Set when the server can no longer answer. */
  isPaused = false;
  queuedBytes = 0;
  writes = 0;

  constructor(stream: Writable, onDefect: (error: unknown) => void) {
    this.#stream = stream;
    this.#onDefect = onDefect;
  }

  send(line: Outgoing): void {
    this.#queue.push(line);
    line.byteLength ??= Buffer.byteLength(line.text);
    this.queuedBytes += line.byteLength;
    if (this.#isScheduled || this.#isWriting) return;
    this.#isScheduled = true;
    setImmediate(this.#write);
  }

  withdraw(line: Outgoing): void {
    const index = this.#queue.lastIndexOf(line);
    if (index === -1) return;
    this.#queue.splice(index, 1);
    this.queuedBytes -= line.byteLength ?? 0;
  }

  takeUnwritten(): Outgoing[] {
    const unwritten = this.#queue;
    this.#queue = [];
    this.queuedBytes = 0;
    for (const listener of this.#onBatchWritten.splice(0)) listener();
    return unwritten;
  }

  /** Writes one more batch if no write is in progress. Lines that are still queued stay unwritten. */
  end(): void {
    this.#write();
    this.#stream.end();
  }

  readonly #write = (): void => {
    this.#isScheduled = false;
    if (this.isPaused || this.#isWriting || this.#queue.length === 0 || !this.#stream.writable) return;
    try {
      let batch = "";
      let batchBytes = 0;
      let count = 0;
      for (const line of this.#queue) {
        const lineBytes = line.byteLength ?? 0;
        if (batch !== "" && batchBytes + lineBytes > MAX_BATCH_BYTES) break;
        batchBytes += lineBytes;
        count++;
        line.isWritten = true;
        batch += `${line.text}\n`;
        if (line.isKept) continue;
        line.text = "";
        if (line.onEmptied !== undefined) this.#onBatchWritten.push(line.onEmptied);
      }
      this.#queue.splice(0, count);
      this.queuedBytes -= batchBytes;
      this.#isWriting = true;
      this.#stream.write(batch, "utf8", this.#onWritten);
    } catch (error) {
      this.#onDefect(error);
    }
  };

  readonly #onWritten = (error?: Error | null): void => {
    this.#isWriting = false;
    this.writes++;
    for (const listener of this.#onBatchWritten.splice(0)) listener();
    // After an error, the supervisor stops the process and takes back the queued lines.
    if (!error) this.#write();
  };
}
