/** Returns the nearest-rank percentile of ascending values, or NaN without values. */
export function percentile(sorted: readonly number[], percent: number): number {
  const rank = Math.max(1, Math.ceil((percent / 100) * sorted.length));
  return sorted[rank - 1] ?? Number.NaN;
}

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

/**
 * Estimates the ratio of two quantities from the ratios within each round. If the speed of the machine changes from minute to minute,
 * measurements that are seconds apart are comparable, but medians over all rounds are not.
 */
export function estimateRatio(numerators: readonly number[], denominators: readonly number[]): RatioEstimate {
  const logs = numerators.map((numerator, round) => Math.log(numerator / (denominators[round] ?? Number.NaN)));
  const mean = sum(logs) / logs.length;
  const variance = sum(logs.map((log) => (log - mean) ** 2)) / (logs.length - 1);
  const margin = (T_VALUES[logs.length - 2] ?? 2) * Math.sqrt(variance / logs.length);
  return { ratio: Math.exp(mean), lower: Math.exp(mean - margin), upper: Math.exp(mean + margin) };
}

export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, column) => Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const cell = (text: string, column: number): string => {
    const width = widths[column] ?? 0;
    return column === 0 ? text.padEnd(width) : text.padStart(width);
  };
  const rule = widths.map((width, column) => (column === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`));
  return [header.map(cell), rule, ...rows.map((row) => row.map(cell))].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
