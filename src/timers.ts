import type { Defects } from "./observe/log.ts";

/** The maximum delay of a timer. A longer one fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** A point in time with a callback. Off until it is set, and again once it fires. */
export class Timer {
  /** Infinity while it is off. Only the list changes it. */
  atMs = Number.POSITIVE_INFINITY;
  /** Its place in the list; -1 while it is off. Only the list changes it. */
  index = -1;
  /** Its number among all that were set. Only the list changes it. */
  sequence = 0;
  readonly onDue: (nowMs: number) => void;
  readonly #timers: Timers;

  /** @param onDue called each time it fires. Timers of the same time are called in the order in which they were set. */
  constructor(timers: Timers, onDue: (nowMs: number) => void) {
    this.#timers = timers;
    this.onDue = onDue;
  }

  /** Turns it on, or moves it. Infinity turns it off. */
  set(atMs: number): void {
    this.#timers.move(this, atMs);
  }

  clear(): void {
    this.#timers.move(this, Number.POSITIVE_INFINITY);
  }
}

/**
 * All timers of the process, with one timer of Node for the earliest of them: a timer object of Node per call would cost more than the call.
 * A timer whose callback throws affects no other one.
 */
export class Timers {
  readonly #nowMs: () => number;
  readonly #defects: Pick<Defects, "recover">;
  /** Those that are on, as a binary heap. */
  readonly #heap: Timer[] = [];
  #sequence = 0;
  #firedAtMs = Number.NEGATIVE_INFINITY;
  /** The time for which the timer of Node is set. It is not moved when the earliest is turned off: it then fires once without effect. */
  #nextAtMs = Number.POSITIVE_INFINITY;
  #timeout: NodeJS.Timeout | undefined;

  constructor(nowMs: () => number, defects: Pick<Defects, "recover">) {
    this.#nowMs = nowMs;
    this.#defects = defects;
  }

  /** The number of timers that are on. */
  get size(): number {
    return this.#heap.length;
  }

  /** See `Timer.set`. */
  move(timer: Timer, atMs: number): void {
    const { index } = timer;
    if (atMs === Number.POSITIVE_INFINITY) {
      if (index === -1) return;
      timer.atMs = atMs;
      timer.index = -1;
      const last = this.#heap.pop();
      if (last !== undefined && last !== timer) this.#place(last, index);
      return;
    }
    // A timer that is set for the past by a callback comes after all that are due now.
    timer.atMs = Math.max(atMs, this.#firedAtMs);
    timer.sequence = ++this.#sequence;
    this.#place(timer, index === -1 ? this.#heap.length : index);
    if (timer.atMs < this.#nextAtMs) this.#wakeAt(timer.atMs);
  }

  /** Puts a timer into the heap, at this index or where it belongs instead. */
  #place(timer: Timer, free: number): void {
    const heap = this.#heap;
    let index = free;
    while (index > 0) {
      const above = (index - 1) >> 1;
      const parent = heap[above];
      if (parent === undefined || !isBefore(timer, parent)) break;
      heap[index] = parent;
      parent.index = index;
      index = above;
    }
    for (;;) {
      let below = index * 2 + 1;
      let child = heap[below];
      const other = heap[below + 1];
      if (child !== undefined && other !== undefined && isBefore(other, child)) {
        child = other;
        below++;
      }
      if (child === undefined || !isBefore(child, timer)) break;
      heap[index] = child;
      child.index = index;
      index = below;
    }
    heap[index] = timer;
    timer.index = index;
  }

  #wakeAt(atMs: number): void {
    clearTimeout(this.#timeout);
    this.#nextAtMs = atMs;
    this.#timeout = setTimeout(this.#fire, Math.min(MAX_TIMER_MS, Math.max(0, Math.ceil(atMs - this.#nowMs()))));
    // What waits for a deadline keeps the process alive through its sockets.
    this.#timeout.unref();
  }

  readonly #fire = (): void => {
    const nowMs = (this.#firedAtMs = this.#nowMs());
    const lastSequence = this.#sequence;
    // Timers that are set by the callbacks need no timer of Node yet.
    this.#nextAtMs = Number.NEGATIVE_INFINITY;
    let [first] = this.#heap;
    // Those that a callback sets for now are due later, so that they cannot keep the event loop from anything else.
    while (first !== undefined && first.atMs <= nowMs && first.sequence <= lastSequence) {
      first.clear();
      try {
        first.onDue(nowMs);
      } catch (error) {
        this.#defects.recover("deadline", error);
      }
      [first] = this.#heap;
    }
    this.#nextAtMs = Number.POSITIVE_INFINITY;
    if (first !== undefined) this.#wakeAt(first.atMs);
  };
}

function isBefore(a: Timer, b: Timer): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.sequence < b.sequence);
}

/** The steps that wait for a turn. Each returns false if its work goes on. */
const waiting: (() => boolean)[] = [];

/**
 * Runs work in steps. Each turn of the event loop runs one step of one work item; the items take turns.
 *
 * @param onDone called with the result of the work, in a later turn, as a step of its own.
 * @param onDefect called with an error that the work or `onDone` throws. It must not throw.
 */
export function runInSteps<Result>(
  work: Generator<undefined, Result>,
  onDone: (result: Result) => void,
  onDefect: (error: unknown) => void,
): void {
  let finish: (() => void) | undefined;
  const step = (): boolean => {
    try {
      if (finish !== undefined) {
        finish();
        return true;
      }
      const { done, value } = work.next();
      // `onDone` may take as long as a step, so it gets its own turn.
      if (done === true) finish = () => onDone(value);
      return false;
    } catch (error) {
      onDefect(error);
      return true;
    }
  };
  if (waiting.push(step) === 1) setImmediate(runStep);
}

function runStep(): void {
  const step = waiting[0];
  const isDone = step?.() !== false;
  waiting.shift();
  if (step !== undefined && !isDone) waiting.push(step);
  if (waiting.length > 0) setImmediate(runStep);
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
