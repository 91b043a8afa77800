/** Returns the nearest-rank percentile of ascending values, or NaN without values. */
export function percentile(sorted: ArrayLike<number>, percent: number): number {
  const rank = Math.max(1, Math.ceil((percent / 100) * sorted.length));
  return sorted[rank - 1] ?? Number.NaN;
}

/** Returns the median, or NaN without values. */
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

export interface RatioEstimate {
  /** The geometric mean. */
  readonly ratio: number;
  /** The 95 % confidence interval. */
  readonly lower: number;
  readonly upper: number;
}

/** Student's t for 1 to 20 degrees of freedom, two-sided, 95 %. */
const T_VALUES = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093, 2.086,
];

/** Estimates the ratio of two quantities from the ratios of interleaved pairs of measurements. */
export function estimateRatio(ratios: readonly number[]): RatioEstimate {
  const logs = ratios.map((ratio) => Math.log(ratio));
  const mean = sum(logs) / logs.length;
  const variance = sum(logs.map((log) => (log - mean) ** 2)) / (logs.length - 1);
  const margin = (T_VALUES[logs.length - 2] ?? 2) * Math.sqrt(variance / logs.length);
  return { ratio: Math.exp(mean), lower: Math.exp(mean - margin), upper: Math.exp(mean + margin) };
}

/**
 * Returns the median of the ratios within each round, or NaN without rounds. If the speed of the machine changes from minute to minute,
 * measurements that are seconds apart are comparable, but medians over all rounds are not.
 */
export function medianRatio(numerators: readonly number[], denominators: readonly number[]): number {
  const ratios = numerators
    .map((numerator, round) => numerator / (denominators[round] ?? Number.NaN))
    .filter((ratio) => !Number.isNaN(ratio));
  return median(ratios);
}
