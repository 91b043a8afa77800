import type { Readable, Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { Context } from "../context.ts";
import { EnvelopeScanner } from "../json/envelope.ts";
import {
  type InvalidMessage,
  LONG_TEXT_LENGTH,
  type Message,
  type Outgoing,
  type OverlongLine,
  readInSteps,
  readText,
  withoutSteps,
} from "../mcp/message.ts";
import { isPlain, type ResponseAfterText, type ServerReading, settle } from "../mcp/server-line.ts";
import { FullTime, HOLDER_SHARE, type MemoryAccount, type MemoryBudget, type MemoryHolder, type Reservation } from "../memory.ts";
import { runInSteps } from "../timers.ts";
import type { UpstreamInput } from "./port.ts";

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
  readonly #onLine: (line: string | OverlongLine) => void;
  /** The received part of an incomplete line. The buffer grows by doubling, so that many small chunks do not cost a copy each. */
  #buffer = EMPTY;
  #length = 0;
  #scanned: ScannedLine | undefined;
  /** The reason why the rest of the line is not kept; undefined if it is kept. */
  #discarded: "length" | "memory" | undefined;

  constructor(maxLineBytes: number, onLine: (line: string | OverlongLine) => void) {
    this.#maxLineBytes = maxLineBytes;
    this.#onLine = onLine;
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
      this.#onLine(line);
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
    if (trimmed !== "") this.#onLine(trimmed);
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

/** The time for which memory is short before a line is discarded. Meanwhile, clients may make room. */
const SHORT_MS = 1000;

/**
 * The memory for the output of all servers. A line of one server has a limit of its own, but there may be many servers, and each may keep its
 * line incomplete for ever. If memory stays short and incomplete lines take more than the largest line may, the longest ones are discarded.
 * The output of a private server counts for its client, so its lines also make room when another client asks for its share.
 */
export class OutputMemory {
  readonly #budget: MemoryBudget;
  /** The readers, and the client of each; undefined for a shared server. */
  readonly #readers = new Map<OutputReader, MemoryHolder | undefined>();
  readonly #shortTime = new FullTime(SHORT_MS);

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
    budget.onShortage("slow", (bytes) => {
      if (bytes > 0 && this.#shortTime.hasLasted(performance.now())) this.#discardLongest(bytes, [...this.#readers.keys()]);
    });
    budget.onShortage("share", (bytes, holder) => {
      const readers = [...this.#readers].flatMap(([reader, client]) => (client === holder ? [reader] : []));
      discard(bytes, readers);
    });
  }

  /** Adds the reader of a server's output. @param client that of a private server. @returns its account. */
  add(reader: OutputReader, client: MemoryHolder | undefined): MemoryAccount {
    this.#readers.set(reader, client);
    return this.#budget.account(client ?? reader);
  }

  delete(reader: OutputReader): void {
    this.#readers.delete(reader);
  }

  #discardLongest(bytes: number, readers: readonly OutputReader[]): void {
    const lineBytes = readers.reduce((sum, reader) => sum + reader.lineBytes, 0);
    discard(Math.min(bytes, lineBytes - this.#budget.limitBytes * HOLDER_SHARE), readers);
  }
}

/** Discards the longest lines, until this many bytes are free. */
function discard(bytes: number, readers: readonly OutputReader[]): void {
  let leftBytes = bytes;
  for (const reader of readers.toSorted((a, b) => b.lineBytes - a.lineBytes)) {
    if (leftBytes <= 0 || reader.lineBytes === 0) return;
    leftBytes -= reader.lineBytes;
    reader.discardLine();
  }
}

export interface OutputListener {
  onMessage(message: Message): void;
  /** Called with a line, or an element of a batch, that is not a JSON-RPC message. */
  onNoise(noise: Pick<InvalidMessage, "text" | "reason" | "isJson" | "answeredId">): void;
  /** Called with a line that has other text before a response. */
  onResponseAfterText(line: ResponseAfterText): void;
  onOverlongLine(line: OverlongLine): void;
  /** Called with an error that another listener or the reader has thrown. Further output is unreliable. */
  onDefect(error: unknown): void;
}

/** The longest pause while memory is short, and the time until the next one if it was in vain. */
const MAX_PAUSE_MS = 1000;
const PAUSE_CHECK_MS = 20;
/** Memory of a UTF-16 unit, at most. */
const UTF16_BYTES = 2;

/** The time for reading lines in one turn of the event loop. */
const MAX_TURN_MS = 50;

/**
 * Reads the messages that a server writes to stdout, in order. A long message is read in steps. Meanwhile later messages wait, and stdout
 * is paused.
 */
export class OutputReader {
  readonly #stdout: Readable;
  readonly #listener: OutputListener;
  readonly #decoder: LineDecoder;
  readonly #memory: MemoryBudget;
  readonly #outputs: OutputMemory;
  readonly #held: Reservation;
  /** Lines that wait for a long one, or for the next turn. */
  #waiting: (string | OverlongLine)[] = [];
  #isReading = false;
  /** The earliest time of the next pause for memory. */
  #nextPauseMs = 0;
  /** The UTF-16 length of the lines that wait. */
  #waitingLength = 0;
  /** The end of the current turn; 0 before its first line. */
  #turnEndMs = 0;
  #idle: PromiseWithResolvers<void> | undefined;
  /** The number of pieces in which the output has arrived. */
  outputs = 0;

  /** @param client that of a private server. */
  constructor(
    stdout: Readable,
    { config, memory }: Context,
    outputs: OutputMemory,
    client: MemoryHolder | undefined,
    listener: OutputListener,
  ) {
    this.#stdout = stdout;
    this.#listener = listener;
    this.#decoder = new LineDecoder(config.maxLineBytes, (line) => this.#inOrder(line));
    this.#memory = memory;
    this.#outputs = outputs;
    this.#held = outputs.add(this, client).hold("serverOutput", 0);
    stdout.on("data", (chunk: Buffer) => {
      this.outputs++;
      this.#guard(() => {
        this.#decoder.push(chunk);
        this.#count();
        // An incomplete line may be all that takes memory.
        if (!this.#isReading && this.#isMemoryShort) this.#pauseForMemory();
      });
    });
  }

  /** Ends the stream. The output that has arrived is read without a pause for memory, because the exit of the server waits for it. */
  end(): void {
    this.#nextPauseMs = Number.POSITIVE_INFINITY;
    this.#guard(() => this.#decoder.end());
  }

  /** Releases its memory. Must be called when the process is gone. */
  release(): void {
    this.#outputs.delete(this);
    this.#held.release();
  }

  /** True while a long line is read in steps. */
  get isReading(): boolean {
    return this.#isReading;
  }

  get lineBytes(): number {
    return this.#decoder.lineBytes;
  }

  discardLine(): void {
    this.#decoder.discardLine();
    this.#count();
  }

  /** Resolves when all received lines are read. */
  whenIdle(): Promise<void> {
    if (!this.#isReading) return Promise.resolve();
    this.#idle ??= Promise.withResolvers();
    return this.#idle.promise;
  }

  #count(): void {
    this.#held.resize(this.#decoder.bufferBytes + this.#waitingLength * UTF16_BYTES);
  }

  #inOrder(line: string | OverlongLine): void {
    if (this.#isReading) {
      this.#waiting.push(line);
      this.#waitingLength += lengthOf(line);
      return;
    }
    this.#take(line);
    this.#rest();
  }

  /** True if this turn has taken its time. Many lines may arrive at once, and each may be for thousands of sessions. */
  #isTurnOver(): boolean {
    const nowMs = performance.now();
    if (this.#turnEndMs === 0) {
      this.#turnEndMs = nowMs + MAX_TURN_MS;
      setImmediate(() => {
        this.#turnEndMs = 0;
      });
    }
    return nowMs > this.#turnEndMs;
  }

  /** Rests after a line, if the turn was long or memory is short. */
  #rest(): void {
    if (this.#isReading) return;
    if (this.#isMemoryShort) this.#pauseForMemory();
    else if (this.#isTurnOver()) this.#goOnLater((goOn) => setImmediate(goOn));
  }

  get #isMemoryShort(): boolean {
    return this.#memory.excessBytes > 0 && performance.now() > this.#nextPauseMs;
  }

  #goOnLater(schedule: (goOn: () => void) => void): void {
    this.#isReading = true;
    this.#stdout.pause();
    schedule(() => {
      this.#isReading = false;
      this.#goOn();
    });
  }

  /** Pauses until clients have read some output. A client that reads nothing must not stall the others, so the pause is short. */
  #pauseForMemory(): void {
    const endMs = performance.now() + MAX_PAUSE_MS;
    this.#goOnLater((goOn) => {
      const check = (): void => {
        this.#guard(() => this.#memory.relieve());
        if (this.#isMemoryShort && performance.now() < endMs) setTimeout(check, PAUSE_CHECK_MS);
        else {
          // A pause that freed nothing would only stall the clients that do read.
          if (this.#isMemoryShort) this.#nextPauseMs = performance.now() + MAX_PAUSE_MS;
          goOn();
        }
      };
      setTimeout(check, PAUSE_CHECK_MS);
    });
  }

  #take(line: string | OverlongLine): void {
    if (typeof line !== "string") return this.#listener.onOverlongLine(line);
    if (line.length <= LONG_TEXT_LENGTH) return this.#deliver(readLine(line));
    this.#isReading = true;
    this.#stdout.pause();
    const goOn = (deliver: () => void): void => {
      this.#isReading = false;
      this.#guard(deliver);
      this.#goOn();
    };
    runInSteps(
      readLineInSteps(line),
      (reading) => goOn(() => this.#deliver(reading)),
      (error) => goOn(() => this.#listener.onDefect(error)),
    );
  }

  #guard(handle: () => void): void {
    try {
      handle();
    } catch (error) {
      this.#listener.onDefect(error);
    }
  }

  #goOn(): void {
    if (this.#isMemoryShort) return this.#pauseForMemory();
    const lines = this.#waiting;
    this.#waiting = [];
    this.#waitingLength = 0;
    for (const [index, line] of lines.entries()) {
      this.#guard(() => this.#take(line));
      this.#rest();
      if (!this.#isReading) continue;
      // This line is long, or memory is short, so the others wait again.
      this.#waiting = [...lines.slice(index + 1), ...this.#waiting];
      this.#waitingLength = this.#waiting.reduce((sum, each) => sum + lengthOf(each), 0);
      this.#guard(() => this.#count());
      return;
    }
    this.#guard(() => this.#count());
    this.#stdout.resume();
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  #deliver(reading: ServerReading): void {
    if (reading.kind === "after-text") return this.#listener.onResponseAfterText(reading);
    if (reading.kind !== "batch") return this.#deliverOne(reading);
    // Only revision 2025-03-26 has batches, but a server that sends one wants it to be read.
    for (const each of reading.messages) this.#deliverOne(each);
    const { text, count, messages } = reading;
    if (count === 0) this.#listener.onNoise({ text, isJson: true, reason: "the batch is empty" });
    if (count > messages.length)
      this.#listener.onNoise({ text, isJson: true, reason: `only ${messages.length} messages of the batch are read` });
  }

  #deliverOne(message: Message | InvalidMessage): void {
    if (message.kind === "invalid") this.#listener.onNoise(message);
    else this.#listener.onMessage(message);
  }
}

function readLine(line: string): ServerReading {
  const reading = readText(line, "server");
  return isPlain(reading) ? reading : withoutSteps(settle(line, reading));
}

function* readLineInSteps(line: string): Generator<undefined, ServerReading> {
  const reading = yield* readInSteps(line, "server");
  return isPlain(reading) ? reading : yield* settle(line, reading);
}

function lengthOf(line: string | OverlongLine): number {
  return typeof line === "string" ? line.length : 0;
}

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
      line.isWritten = true;
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
