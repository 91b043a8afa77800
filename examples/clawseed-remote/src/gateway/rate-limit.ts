const PERIOD_MS = 60_000;
/** Keys that are counted at a time, so that invented ones cannot fill the memory. */
const MAX_KEYS = 1000;

/** Returns a function that counts an event of a key, and returns false if there were too many in this minute. */
export function rateLimit(maxPerMinute: number): (key: string) => boolean {
  const counts = new Map<string, number>();
  let period = 0;
  return (key) => {
    const current = Math.floor(performance.now() / PERIOD_MS);
    if (current !== period) counts.clear();
    period = current;
    const count = counts.get(key) ?? 0;
    if (count >= maxPerMinute || (count === 0 && counts.size >= MAX_KEYS)) return false;
    counts.set(key, count + 1);
    return true;
  };
}
