import type { Defects } from "./observe/log.ts";

/** The maximum delay of a timer. A longer one fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;
/** The delay before a sweep that threw is repeated. */
const AFTER_DEFECT_MS = 100;

/**
 * One timer for any number of deadlines, because a timer object per call costs more than the call. The timer is set for the earliest
 * deadline. When it fires, `sweep` handles all due deadlines and returns the earliest remaining one. A deadline need not be removed when
 * it is met: the timer then fires once without effect.
 */
export class DeadlineSweep {
  readonly #nowMs: () => number;
  readonly #defects: Pick<Defects, "guard">;
  readonly #sweep: (nowMs: number) => number;
  #timer: NodeJS.Timeout | undefined;
  #dueAtMs = Number.POSITIVE_INFINITY;

  /** @param sweep returns the next deadline, or Infinity. */
  constructor(nowMs: () => number, defects: Pick<Defects, "guard">, sweep: (nowMs: number) => number) {
    this.#nowMs = nowMs;
    this.#defects = defects;
    this.#sweep = sweep;
  }

  watch(deadlineMs: number): void {
    if (deadlineMs >= this.#dueAtMs) return;
    clearTimeout(this.#timer);
    this.#dueAtMs = deadlineMs;
    this.#timer = setTimeout(this.#fire, Math.min(MAX_TIMER_MS, Math.max(0, Math.ceil(deadlineMs - this.#nowMs()))));
    // Pending requests keep the process alive through their sockets.
    this.#timer.unref();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#dueAtMs = Number.NEGATIVE_INFINITY;
  }

  readonly #fire = (): void => {
    this.#dueAtMs = Number.POSITIVE_INFINITY;
    const nowMs = this.#nowMs();
    let nextMs = nowMs + AFTER_DEFECT_MS;
    this.#defects.guard("deadline", () => {
      nextMs = this.#sweep(nowMs);
    });
    if (nextMs !== Number.POSITIVE_INFINITY) this.watch(nextMs);
  };
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
  readonly #intervalMs: number;
  #fullAtMs = Number.NEGATIVE_INFINITY;

  /** @param perMinute at least 1. */
  constructor(perMinute: number) {
    this.#intervalMs = MINUTE_MS / perMinute;
  }

  /**
   * Takes a token.
   *
   * @param nowMs the time of a monotonic clock.
   * @returns undefined if a token was taken. Otherwise the time until the next token, in milliseconds, more than 0.
   */
  take(nowMs: number): number | undefined {
    const waitMs = this.waitMs(nowMs);
    if (waitMs === undefined) this.#fullAtMs = Math.max(this.#fullAtMs, nowMs) + this.#intervalMs;
    return waitMs;
  }

  /** True if the bucket is full, so that it equals a new one. */
  isFull(nowMs: number): boolean {
    return this.#fullAtMs <= nowMs;
  }

  /** Returns the same as `take`, but does not take a token. */
  waitMs(nowMs: number): number | undefined {
    const waitMs = Math.max(this.#fullAtMs, nowMs) + this.#intervalMs - MINUTE_MS - nowMs;
    return waitMs > ROUNDING_MS ? waitMs : undefined;
  }
}
