import type { HistogramValue } from "./definitions.ts";

/** The upper bounds of the buckets in seconds, as OpenTelemetry's conventions for MCP advise. */
export const BOUNDS_SECONDS: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** The distribution of durations. */
export class Histogram {
  /** By bound. Durations above the last one count in `#count` only. */
  readonly #counts = new Float64Array(BOUNDS_SECONDS.length);
  #count = 0;
  #sumMs = 0;

  observe(durationMs: number): void {
    this.#count++;
    this.#sumMs += durationMs;
    for (let index = 0; index < BOUNDS_SECONDS.length; index++) {
      if (durationMs > (BOUNDS_SECONDS[index] ?? 0) * 1000) continue;
      this.#counts[index] = (this.#counts[index] ?? 0) + 1;
      return;
    }
  }

  get value(): HistogramValue {
    let total = 0;
    const cumulative = Array.from(this.#counts, (count) => (total += count));
    return { count: this.#count, sum: this.#sumMs / 1000, cumulative };
  }
}
