import type { Defects } from "../defects.ts";

/** A longer one fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;
/** Delay until a sweep that failed is resumed. */
const AFTER_DEFECT_MS = 100;

/**
 * One timer for any number of deadlines, because a timer object per call costs more than the call. It is set for the earliest deadline
 * it was told of; when it fires, `sweep` settles what is due and returns the earliest of the rest. Deadlines that were met in time
 * need not be taken back: the timer then fires once for nothing.
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
    // What must not be forgotten keeps the process alive by its own socket.
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
