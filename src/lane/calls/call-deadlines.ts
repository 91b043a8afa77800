import type { Defects } from "../../observability/defects.ts";
import { DeadlineSweep } from "../../timing/deadline-sweep.ts";
import type { RequestQueue } from "../queue/request-queue.ts";
import type { Call } from "./call.ts";
import type { CallTable } from "./call-table.ts";

export interface CallDeadlinesOptions {
  readonly calls: CallTable;
  readonly queue: RequestQueue;
  /** Called on each sweep of the deadlines. @returns the next deadline, or Infinity. */
  readonly onDue: (nowMs: number) => number;
  /** The delay after which a response begins as a stream. */
  readonly streamAfterMs: number;
  readonly defects: Pick<Defects, "guard">;
  readonly nowMs: () => number;
}

/** The deadlines of a lane: those of its calls and of its queue, and the times at which slow responses begin. */
export class CallDeadlines {
  readonly #calls: CallTable;
  readonly #streamAfterMs: number;
  readonly #ends: DeadlineSweep;
  readonly #slow: DeadlineSweep;

  constructor({ calls, queue, onDue, streamAfterMs, defects, nowMs }: CallDeadlinesOptions) {
    this.#calls = calls;
    this.#streamAfterMs = streamAfterMs;
    this.#ends = new DeadlineSweep(nowMs, defects, (atMs) => Math.min(onDue(atMs), calls.expire(atMs), queue.expire(atMs)));
    this.#slow = new DeadlineSweep(nowMs, defects, (atMs) => this.#beginSlow(atMs));
  }

  /** Schedules a sweep. */
  watch(deadlineMs: number): void {
    this.#ends.watch(deadlineMs);
  }

  watchCall({ deadlineMs, exchange }: Call): void {
    this.#ends.watch(deadlineMs);
    this.#slow.watch(exchange.acceptedAtMs + this.#streamAfterMs);
  }

  close(): void {
    this.#ends.close();
    this.#slow.close();
  }

  /** Begins the responses of calls that take long. @returns the time of the next one, or Infinity. */
  #beginSlow(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { exchange, state, pause } of this.#calls.values()) {
      if (pause === "parked") continue;
      // A queued call may still fail with status 503, which is impossible once its response has begun.
      const dueAtMs = (state === "written" ? exchange.acceptedAtMs : nowMs) + this.#streamAfterMs;
      if (dueAtMs > nowMs) nextMs = Math.min(nextMs, dueAtMs);
      else exchange.keepAlive();
    }
    return nextMs;
  }
}
