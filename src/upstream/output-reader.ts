import type { Readable } from "node:stream";
import type { Reservation } from "../memory/memory-budget.ts";
import {
  type InvalidMessage,
  LONG_TEXT_LENGTH,
  type Message,
  type OverlongLine,
  readInSteps,
  readText,
  withoutSteps,
} from "../protocol/message.ts";
import { isPlain, type ResponseAfterText, type ServerReading, settle } from "../protocol/server-line.ts";
import { runInSteps } from "../timing/step-queue.ts";
import { LineDecoder } from "./line-decoder.ts";
import type { LineHolder, ServerMemory } from "./output-memory.ts";

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
export class OutputReader implements LineHolder {
  readonly #stdout: Readable;
  readonly #listener: OutputListener;
  readonly #decoder: LineDecoder;
  readonly #memory: ServerMemory;
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

  constructor(stdout: Readable, maxLineBytes: number, memory: ServerMemory, listener: OutputListener) {
    this.#stdout = stdout;
    this.#listener = listener;
    this.#decoder = new LineDecoder(maxLineBytes, {
      onLine: (line) => this.#inOrder(line),
      onOverlongLine: (line) => this.#inOrder(line),
    });
    this.#memory = memory;
    this.#held = memory.add(this).hold("serverOutput", 0);
    stdout.on("data", (chunk: Buffer) => {
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
    this.#memory.delete(this);
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
    return this.#memory.isShort && this.#mayPause;
  }

  get #mayPause(): boolean {
    return performance.now() > this.#nextPauseMs;
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
