import type { Defects } from "../observability/defects.ts";

/** The maximum delay of a timer. A longer one fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;
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
