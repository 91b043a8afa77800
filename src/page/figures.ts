import type { PageGeneration, PageRequest } from "../http/page-update.ts";

/** `p95Ms` is undefined if no request has a duration. */
export function figuresOf(requests: readonly PageRequest[]) {
  const durations = requests.flatMap(({ durationMs }) => durationMs ?? []).toSorted((one, other) => one - other);
  return {
    calls: requests.length,
    errors: requests.filter(({ isError }) => isError).length,
    p95Ms: durations[Math.ceil(durations.length * 0.95) - 1],
  };
}

export function toolFigures(requests: readonly PageRequest[]): ReadonlyMap<string, ReturnType<typeof figuresOf>> {
  const byTool = Map.groupBy(requests, ({ tool }) => tool ?? "");
  byTool.delete("");
  return new Map(Array.from(byTool, ([tool, calls]) => [tool, figuresOf(calls)]));
}

const ENDING_WORDS: ReadonlyMap<string, string> = new Map([
  ["results", "result"],
  ["errors", "error response"],
  ["dismissed", "cancelled"],
  ["unread", "client disconnected"],
]);

export function endingText(ending: PageRequest["ending"]): string {
  return ENDING_WORDS.get(ending) ?? ending.toLowerCase().replaceAll("_", " ");
}

/**
 * The times without a ready server, in milliseconds since the epoch. The first one is the start. The reason is undefined if the server
 * had not run before, or was stopped.
 *
 * @param runs of one server, oldest first.
 */
export function outagesOf(runs: readonly PageGeneration[], now: number) {
  const outages: { readonly from: number; readonly to: number; readonly reason: string | undefined }[] = [];
  let from = runs[0]?.startedAt ?? now;
  let reason: string | undefined;
  for (const { readyAt, exit } of runs) {
    if (readyAt !== null) outages.push({ from, to: readyAt, reason });
    if (exit === null) return readyAt === null ? [...outages, { from, to: now, reason }] : outages;
    if (readyAt !== null) from = Date.parse(exit.at);
    reason = exit.kind === "stopped" ? undefined : exit.reason;
  }
  return [...outages, { from, to: now, reason }];
}
