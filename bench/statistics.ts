/** Nearest-rank percentile of ascending values; NaN when there are none. */
export function percentile(sorted: ArrayLike<number>, percent: number): number {
  const rank = Math.max(1, Math.ceil((percent / 100) * sorted.length));
  return sorted[rank - 1] ?? Number.NaN;
}

/** NaN when there are no values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  if (sorted.length % 2 === 1) return upper;
  return ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/**
 * The median of the ratios within each round; NaN when there are none. On a machine whose speed changes from one minute to the next,
 * what was measured seconds apart can be compared; medians over all rounds cannot.
 */
export function medianRatio(numerators: readonly number[], denominators: readonly number[]): number {
  const ratios = numerators
    .map((numerator, round) => numerator / (denominators[round] ?? Number.NaN))
    .filter((ratio) => !Number.isNaN(ratio));
  return median(ratios);
}
