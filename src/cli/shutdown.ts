import { constants } from "node:os";

/** A source of signals: the process, or a test's emitter. */
export interface SignalSource {
  on(signal: NodeJS.Signals, listener: (signal: NodeJS.Signals) => void): unknown;
}

const SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT"];

/**
 * Waits for the first SIGTERM or SIGINT. A second one calls `onSecond` with the exit code that a shell reports for it.
 *
 * @returns the first signal.
 */
export function waitForSignal(source: SignalSource, onSecond: (exitCode: number) => void): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let hasFirst = false;
    for (const name of SIGNALS) {
      source.on(name, (signal) => {
        if (hasFirst) onSecond(128 + (constants.signals[signal] ?? 0));
        hasFirst = true;
        resolve(signal);
      });
    }
  });
}
