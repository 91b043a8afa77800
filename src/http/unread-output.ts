import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Context } from "../context.ts";
import { lastingTime, type MemoryAccount, type Reservation } from "../memory.ts";
import { Timer } from "../timers.ts";

export function countCutOff({ counters, limitedLog }: Context, unreadLength: number, reason: string): void {
  counters.http.readersCutOff++;
  limitedLog.warn({ bytes: unreadLength, reason }, "connection cut off");
}

/** A shorter response is not counted while it is the current one of its connection. In UTF-16 units, as in a socket of Node. */
const SMALL_LENGTH = 64 * 1024;
/** Node keeps the text and its bytes. */
const COPIES = 2;
/** A client that reads nothing for so long is slow. */
const SLOW_READER_MS = 1000;
/** A client that has read before gets more time: the operating system takes up to 2 MB at once. */
const SLOWER_READER_MS = 5000;
/** At first, the operating system fills its own buffers. The client has read nothing then. */
const FILL_MS = 250;
const LOOK_MS = 500;
const MIN_LOOK_MS = 20;

interface Unread {
  readonly memory: Reservation;
  readonly sinceMs: number;
  /** At the last progress; undefined while the operating system fills its buffers. */
  takenBytes: number | undefined;
  progressAtMs: number | undefined;
  readonly onEnd: () => void;
}

/** Unread output counts as memory of its client. Slow readers are cut off if memory is short. */
export class UnreadOutput {
  readonly #context: Context;
  /** The longest unread first. */
  readonly #unread = new Map<ServerResponse, Unread>();
  readonly #nextLook: Timer;
  #lookedAtMs = -Infinity;
  readonly #hasBeenFull = lastingTime(SLOW_READER_MS);

  constructor(context: Context) {
    this.#context = context;
    this.#nextLook = new Timer(context, (nowMs) => this.#onInterval(nowMs));
    context.memory.onShortage("slow", () => this.#cutOffSlow());
    context.memory.onShortage("full", () => this.#cutOffReading());
  }

  /** Must be called after each write to the response, and when it is destroyed. */
  count(response: ServerResponse, account: MemoryAccount): void {
    const { writableLength: length, destroyed } = response;
    if (destroyed) return this.#forget(response);
    const known = this.#unread.get(response);
    if (known !== undefined) known.memory.resize(length * COPIES);
    // Small texts would add up in responses that wait for an earlier one on their connection.
    else if (length > SMALL_LENGTH || (length > 0 && response.socket === null)) this.#add(response, account, length);
  }

  /** Counts again first: then there may be enough. */
  #cutOffSlow(): Iterator<void> | undefined {
    const nowMs = this.#context.nowMs();
    if (!this.#look(nowMs)) return undefined;
    return this.#cutOff(nowMs, ({ sinceMs, progressAtMs }) =>
      progressAtMs === undefined ? sinceMs + SLOW_READER_MS : progressAtMs + SLOWER_READER_MS,
    );
  }

  /** Clients that read get a second: slow ones may make room until then. */
  *#cutOffReading(): Generator<void> {
    const nowMs = this.#context.nowMs();
    if (this.#hasBeenFull(nowMs)) yield* this.#cutOff(nowMs, ({ sinceMs }) => sinceMs + SLOW_READER_MS);
  }

  /** @param dueAtMs returns the time from which on a connection may be cut off; the earliest is the first. */
  *#cutOff(nowMs: number, dueAtMs: (unread: Unread) => number): Generator<void> {
    const due = [...this.#unread].filter(([, unread]) => dueAtMs(unread) <= nowMs).sort(([, a], [, b]) => dueAtMs(a) - dueAtMs(b));
    for (const [response] of due) {
      const length = response.writableLength;
      this.#forget(response);
      response.destroy();
      countCutOff(this.#context, length, "the memory budget is used up");
      yield;
    }
  }

  #onInterval(nowMs: number): void {
    this.#nextLook.set(nowMs + LOOK_MS);
    // Slow clients may be the only ones: then nothing else asks for room.
    this.#context.memory.relieve();
    this.#look(nowMs);
  }

  /** @returns false if the last look was just now. */
  #look(nowMs: number): boolean {
    if (nowMs - this.#lookedAtMs < MIN_LOOK_MS) return false;
    this.#lookedAtMs = nowMs;
    for (const [response, unread] of this.#unread) {
      unread.memory.resize(response.writableLength * COPIES);
      if (nowMs - unread.sinceMs < FILL_MS) continue;
      const taken = takenBytes(response.req.socket);
      unread.takenBytes ??= taken;
      if (taken - unread.takenBytes < SMALL_LENGTH) continue;
      unread.takenBytes = taken;
      unread.progressAtMs = nowMs;
    }
    return true;
  }

  #add(response: ServerResponse, account: MemoryAccount, length: number): void {
    const onEnd = (): void => this.#forget(response);
    // A reservation may close slow connections, so it is made before this one is added.
    const memory = account.hold("unread", length * COPIES);
    const sinceMs = this.#context.nowMs();
    this.#unread.set(response, { memory, sinceMs, takenBytes: undefined, progressAtMs: undefined, onEnd });
    if (this.#unread.size === 1) this.#nextLook.set(sinceMs + LOOK_MS);
    response.on("drain", onEnd);
    response.on("close", onEnd);
  }

  #forget(response: ServerResponse): void {
    const unread = this.#unread.get(response);
    if (unread === undefined) return;
    this.#unread.delete(response);
    unread.memory.release();
    response.off("drain", unread.onEnd);
    response.off("close", unread.onEnd);
    if (this.#unread.size === 0) this.#nextLook.clear();
  }
}

/** Only the handle shows them: for Node, a large write is unread until its end. */
export function takenBytes(socket: Socket): number {
  const { _handle: handle } = socket as Socket & {
    readonly _handle?: { readonly bytesWritten?: number; readonly writeQueueSize?: number } | null;
  };
  return (handle?.bytesWritten ?? 0) - (handle?.writeQueueSize ?? 0);
}
