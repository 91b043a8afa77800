import { setImmediate as nextTurn } from "node:timers/promises";
import type { Defects } from "./observe/log.ts";

/** The maximum delay of a timer. A longer one fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** The clock of all timers, the guard of their callbacks, and their number. */
export class Timers {
  /** The number of timers that are on. Only they change it. */
  size = 0;
  readonly nowMs: () => number;
  readonly defects: Pick<Defects, "guard">;

  constructor(nowMs: () => number, defects: Pick<Defects, "guard">) {
    this.nowMs = nowMs;
    this.defects = defects;
  }
}

/** A point in time with a callback. Off until it is set, and again once it fires. It costs more than a call, so calls have one in common. */
export class Timer {
  /** Infinity while it is off. Only the timer changes it. */
  atMs = Number.POSITIVE_INFINITY;
  readonly #timers: Timers;
  readonly #onDue: (nowMs: number) => void;
  #timeout: NodeJS.Timeout | undefined;

  constructor(timers: Timers, onDue: (nowMs: number) => void) {
    this.#timers = timers;
    this.#onDue = onDue;
  }

  /** Turns it on, or moves it. */
  set(atMs: number): void {
    this.clear();
    if (atMs === Number.POSITIVE_INFINITY) return;
    this.atMs = atMs;
    this.#timers.size++;
    this.#wait();
  }

  clear(): void {
    if (this.atMs === Number.POSITIVE_INFINITY) return;
    clearTimeout(this.#timeout);
    this.atMs = Number.POSITIVE_INFINITY;
    this.#timers.size--;
  }

  #wait(): void {
    const waitMs = Math.ceil(this.atMs - this.#timers.nowMs());
    this.#timeout = setTimeout(() => this.#fire(), Math.min(MAX_TIMER_MS, Math.max(0, waitMs)));
    // What waits for a deadline keeps the process alive through its sockets.
    this.#timeout.unref();
  }

  #fire(): void {
    const nowMs = this.#timers.nowMs();
    // A timeout of Node may be a moment early, and has a maximum.
    if (nowMs < this.atMs) return this.#wait();
    this.clear();
    this.#timers.defects.guard("deadline", () => this.#onDue(nowMs));
  }
}

/** The last turn that was given to a long work. */
let lastTurn: Promise<void> = Promise.resolve();

/** Resolves in a turn of the event loop that no other work has. */
function ownTurn(): Promise<void> {
  return (lastTurn = lastTurn.then(() => nextTurn()));
}

/** Runs long work. Each step has a turn of its own, and so has what follows the result. The works take turns. */
export async function runInSteps<Result>(work: Generator<undefined, Result>): Promise<Result> {
  for (;;) {
    await ownTurn();
    const { done, value } = work.next();
    if (done !== true) continue;
    await ownTurn();
    return value;
  }
}

const MINUTE_MS = 60_000;
/** The largest rounding error of sums of fractions of a millisecond. */
export const ROUNDING_MS = 1e-3;

/**
 * A token bucket that is full at first. It holds `perMinute` tokens and gains as many in a minute, evenly. Its only state is the time at
 * which it is full again.
 */
export class RateLimit {
  /** At least 1. */
  readonly perMinute: number;
  #fullAtMs = Number.NEGATIVE_INFINITY;

  constructor(perMinute: number) {
    this.perMinute = perMinute;
  }

  /**
   * Takes a token.
   *
   * @param nowMs the time of a monotonic clock.
   * @returns undefined if a token was taken. Otherwise the time until the next token, in milliseconds, more than 0.
   */
  take(nowMs: number): number | undefined {
    const waitMs = this.waitMs(nowMs);
    if (waitMs === undefined) this.#fullAtMs = Math.max(this.#fullAtMs, nowMs) + MINUTE_MS / this.perMinute;
    return waitMs;
  }

  /** True if the bucket is full, so that it equals a new one. */
  isFull(nowMs: number): boolean {
    return this.#fullAtMs <= nowMs;
  }

  /** Returns the same as `take`, but does not take a token. */
  waitMs(nowMs: number): number | undefined {
    const waitMs = Math.max(this.#fullAtMs, nowMs) + MINUTE_MS / this.perMinute - MINUTE_MS - nowMs;
    return waitMs > ROUNDING_MS ? waitMs : undefined;
  }
}
