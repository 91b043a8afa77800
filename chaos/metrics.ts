// Compares the wrapper's metrics with the requests of its clients.

import { Series } from "../test/support/series.ts";
import type { Adapter } from "./adapters.ts";
import { type Tally, UNCOUNTED } from "./tally.ts";

const DURATION = "mcp_server_operation_duration_seconds_count";

/** Notes a difference if a number of the wrapper is not between these. */
export type Check = (what: string, theirs: number, fewest: number, most: number) => void;

/** @returns the metrics; undefined if the wrapper has none. */
export async function readMetrics({ metricsPath, token }: Adapter, origin: string): Promise<Series | undefined> {
  if (metricsPath === undefined) return undefined;
  const response = await fetch(new URL(metricsPath, origin), token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } });
  if (!response.ok) throw new Error(`${metricsPath}: ${response.status}`);
  return new Series(await response.text());
}

/** Checks the number of durations by error. Must be called when no request is in flight. */
export function checkMetrics(series: Series, { verdicts, errorsByCode, uncounted }: Tally, check: Check): void {
  const unseen = verdicts.abandoned + verdicts["cut-by-delete"] + verdicts.lost;
  // These requests may have begun before the measurement, and end after it.
  const count = (labels: Readonly<Record<string, string | undefined>>): number =>
    [...UNCOUNTED].reduce(
      (sum, method) => sum - series.sum(DURATION, { ...labels, mcp_method_name: method }),
      series.sum(DURATION, labels),
    );
  const right = verdicts.right - uncounted.right;
  check("metrics: results", count({ error_type: undefined }) + count({ error_type: "tool_error" }), right, right + unseen);
  for (const code of new Set([...errorsByCode.keys(), ...series.values(DURATION, "error_type")])) {
    // A session that is not found is rejected before it is a request, and is rejected for streams too.
    if (!/^[A-Z_]+$/.test(code) || code === "SESSION_NOT_FOUND" || code === "_OTHER") continue;
    const seen = (errorsByCode.get(code) ?? 0) - (uncounted.errorsByCode.get(code) ?? 0);
    check(`metrics: ${code}`, count({ error_type: code }), seen, seen + unseen);
  }
}
