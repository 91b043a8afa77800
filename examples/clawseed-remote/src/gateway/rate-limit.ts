const PERIOD_MS = 60_000;

/**
 * Returns a function that adds an amount to that of a key, and returns false if the key has reached its limit within a minute. A negative amount takes
 * some back.
 *
 * @param maxKeys that are counted at a time, so that invented ones cannot fill the memory, nor have limits of their own without end.
 */
export function rateLimit(maxPerMinute: number, maxKeys: number): (key: string, amount?: number) => boolean {
  /** In the order of their ends. */
  const minutes = new Map<string, { readonly endMs: number; sum: number }>();
  return (key, amount = 1) => {
    const nowMs = performance.now();
    for (const [each, { endMs }] of minutes) {
      if (endMs > nowMs) break;
      minutes.delete(each);
    }
    const minute = minutes.get(key) ?? { endMs: nowMs + PERIOD_MS, sum: 0 };
    if (!minutes.has(key) && minutes.size >= maxKeys) return false;
    if (amount >= 0 && minute.sum >= maxPerMinute) return false;
    minute.sum = Math.max(0, minute.sum + amount);
    minutes.set(key, minute);
    return true;
  };
}
