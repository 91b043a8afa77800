import { setImmediate as nextTurn } from "node:timers/promises";
import type { Defects } from "./observe/log.ts";

/** A longer timer fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** A timer costs more than a call, so calls have one in common. */
export class Timer {
  atMs = Infinity;
  readonly #nowMs: () => number;
  readonly #defects: Defects;
  readonly #onDue: (nowMs: number) => void;
  #timeout: NodeJS.Timeout | undefined;

  constructor({ nowMs, defects }: { readonly nowMs: () => number; readonly defects: Defects }, onDue: (nowMs: number) => void) {
    [this.#nowMs, this.#defects, this.#onDue] = [nowMs, defects, onDue];
  }

  set(atMs: number): void {
    this.clear();
    if (atMs === Infinity) return;
    this.atMs = atMs;
    const waitMs = Math.ceil(atMs - this.#nowMs());
    this.#timeout = setTimeout(() => this.#fire(), Math.min(MAX_TIMER_MS, Math.max(0, waitMs)));
    // What waits for a deadline keeps the process alive through its sockets.
    this.#timeout.unref();
  }

  clear(): void {
    if (this.atMs === Infinity) return;
    clearTimeout(this.#timeout);
    this.atMs = Infinity;
  }

  #fire(): void {
    const nowMs = this.#nowMs();
    if (nowMs < this.atMs) return this.set(this.atMs);
    this.clear();
    this.#defects.guard("deadline", () => this.#onDue(nowMs));
  }
}

let lastTurn: Promise<void> = Promise.resolve();

/** Each step of long work has its own turn of the event loop, and so has what follows the result. The works take turns. */
export async function runInSteps<Result>(work: Generator<undefined, Result>): Promise<Result> {
  let step: IteratorResult<undefined, Result> | undefined;
  for (;;) {
    await (lastTurn = lastTurn.then(nextTurn));
    if (step?.done === true) return step.value;
    step = work.next();
  }
}

const MINUTE_MS = 60_000;
/** The largest rounding error of sums of fractions of a millisecond. */
export const ROUNDING_MS = 1e-3;

/** A token bucket that is full at first, and holds `perMinute` tokens. */
export class RateLimit {
  readonly perMinute: number;
  #fullAtMs = -Infinity;

  constructor(perMinute: number) {
    this.perMinute = perMinute;
  }

  /** @returns undefined if a token was taken; otherwise the milliseconds until the next token, more than 0. */
  take(nowMs: number): number | undefined {
    const waitMs = this.waitMs(nowMs);
    if (waitMs === undefined) this.#fullAtMs = Math.max(this.#fullAtMs, nowMs) + MINUTE_MS / this.perMinute;
    return waitMs;
  }

  isFull(nowMs: number): boolean {
    return this.#fullAtMs <= nowMs;
  }

  waitMs(nowMs: number): number | undefined {
    const waitMs = Math.max(this.#fullAtMs, nowMs) + MINUTE_MS / this.perMinute - MINUTE_MS - nowMs;
    return waitMs > ROUNDING_MS ? waitMs : undefined;
  }
}
