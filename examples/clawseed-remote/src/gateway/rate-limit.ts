const PERIOD_MS = 60_000;

/** Sums of a minute, for each key. A key that has no sum is not stored. */
export interface RateLimit {
  /** Adds an amount. A negative one takes some back, and 0 only asks. @returns false if the sum had reached the limit before. */
  readonly add: (key: string, amount?: number) => boolean;
  /** True for a key that has a sum, and while fewer than `maxKeys` have one. Only new keys need a place: others are not harmed by invented ones. */
  readonly hasPlaceFor: (key: string, maxKeys: number) => boolean;
}

export function rateLimit(maxPerMinute: number): RateLimit {
  /** In the order of their ends. */
  const minutes = new Map<string, { readonly endMs: number; sum: number }>();
  const forgetEnded = (nowMs: number): void => {
    for (const [key, { endMs }] of minutes) {
      if (endMs > nowMs) break;
      minutes.delete(key);
    }
  };
  return {
    add: (key, amount = 1) => {
      const nowMs = performance.now();
      forgetEnded(nowMs);
      const minute = minutes.get(key) ?? { endMs: nowMs + PERIOD_MS, sum: 0 };
      if (amount >= 0 && minute.sum >= maxPerMinute) return false;
      minute.sum = Math.max(0, minute.sum + amount);
      if (amount > 0) minutes.set(key, minute);
      return true;
    },
    hasPlaceFor: (key, maxKeys) => {
      forgetEnded(performance.now());
      return minutes.has(key) || minutes.size < maxKeys;
    },
  };
}
