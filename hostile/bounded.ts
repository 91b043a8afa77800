// Every wait of the harness has an end.

import { setTimeout as sleep } from "node:timers/promises";

/** @returns undefined if the promise takes longer; what it brings later is ignored, failures too. */
export async function within<Value>(promise: Promise<Value>, limitMs: number): Promise<Value | undefined> {
  const timer = new AbortController();
  promise.catch(() => undefined);
  const overdue = sleep(limitMs, undefined, { signal: timer.signal }).catch(() => undefined);
  try {
    return await Promise.race([promise, overdue]);
  } finally {
    timer.abort();
  }
}
