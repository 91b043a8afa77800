import type { PageGeneration, PageRequest, PageSecond, PageState, PageUpdate } from "../../http/page/page-update.ts";

const MAX_SECONDS = 120;
const MAX_REQUESTS = 200;
const MAX_LOG_LINES = 200;

/** An entry with a number that stays the same, for the list it is shown in. */
export interface Numbered<Value> {
  readonly key: number;
  readonly value: Value;
}

/** Everything that the sidecar has told. */
export interface PageModel {
  readonly state: PageState;
  readonly seconds: readonly PageSecond[];
  /** Oldest first, as are the lines and generations. */
  readonly requests: readonly Numbered<PageRequest>[];
  readonly logLines: readonly Numbered<string>[];
  readonly generations: readonly PageGeneration[];
}

/** Returns the model after an update. The first update of a connection replaces all that is kept: `previous` is undefined then. */
export function updatedModel(previous: PageModel | undefined, update: PageUpdate): PageModel {
  return {
    state: update.state,
    seconds: [...(previous?.seconds ?? []), ...update.seconds].slice(-MAX_SECONDS),
    requests: appended(previous?.requests ?? [], update.requests, MAX_REQUESTS),
    logLines: appended(previous?.logLines ?? [], update.logLines, MAX_LOG_LINES),
    generations: update.generations ?? previous?.generations ?? [],
  };
}

function appended<Value>(kept: readonly Numbered<Value>[], added: readonly Value[], maxLength: number): readonly Numbered<Value>[] {
  if (added.length === 0) return kept;
  const next = (kept.at(-1)?.key ?? -1) + 1;
  return [...kept, ...added.map((value, index) => ({ key: next + index, value }))].slice(-maxLength);
}
