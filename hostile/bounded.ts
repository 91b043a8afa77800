// A time limit for the waits of the harness.

import { setTimeout as sleep } from "node:timers/promises";

/** @returns the value of the promise, or undefined if it takes longer. A later value or failure is ignored. */
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
