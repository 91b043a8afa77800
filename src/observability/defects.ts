import type { Counters } from "./counters.ts";
import { describeError } from "../errors.ts";
import type { Log } from "./log.ts";

/**
 * Guards the code that handles events from outside. A defect of the sidecar then fails only the exchange of the event, or at worst its lane.
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
   * @param event the name of the event source in the log.
   * @param recover fails the exchange or lane of the event.
   */
  guard(event: string, handle: () => void, recover?: () => void): void {
    try {
      handle();
    } catch (error) {
      this.recover(event, error, recover);
    }
  }

  /** Handles an error that the caller has caught. Hot paths use this, because a closure per event would cost too much. Never throws. */
  recover(event: string, error: unknown, recover?: () => void): void {
    this.note(event, error);
    if (recover !== undefined) this.guard(event, recover);
  }

  /** Logs and counts an error. */
  note(event: string, error: unknown): void {
    this.#counters.defects++;
    this.#log.error({ kind: event, err: error, reason: describeError(error) }, "defect of the sidecar");
  }
}
