import type { Counters } from "./counters.ts";
import { describeError } from "./errors.ts";
import type { Log } from "./observability/log.ts";

/**
 * The boundary between events from outside and the code that handles them: each event source has a guard. A defect of the sidecar then
 * fails the exchange, or at worst the lane, that the event belongs to, and nothing else.
 */
export class Defects {
  readonly #log: Log;
  readonly #counters: Counters;

  constructor(log: Log, counters: Counters) {
    this.#log = log;
    this.#counters = counters;
  }

  /**
   * Handles one event. Never throws.
   *
   * @param event names the event source, for the log.
   * @param recover fails what the event belongs to.
   */
  guard(event: string, handle: () => void, recover?: () => void): void {
    try {
      handle();
    } catch (error) {
      this.recover(event, error, recover);
    }
  }

  /** Records an error that the caller has caught: on hot paths, a function for each event would cost too much. Never throws. */
  recover(event: string, error: unknown, recover?: () => void): void {
    this.note(event, error);
    if (recover !== undefined) this.guard(event, recover);
  }

  /** Logs and counts what was thrown. */
  note(event: string, error: unknown): void {
    this.#counters.defects++;
    this.#log.error({ kind: event, err: error, reason: describeError(error) }, "defect of the sidecar");
  }
}
