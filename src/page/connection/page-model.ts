import {
  HISTORY_LIMITS,
  type PageGeneration,
  type PageRequest,
  type PageSecond,
  type PageState,
  type PageUpdate,
} from "../../http/page/page-update.ts";

/** An entry with a number that stays the same, for the list it is shown in. */
export interface Numbered<Value> {
  readonly key: number;
  readonly value: Value;
}

/** The state and the history that the sidecar has sent. */
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
    seconds: [...(previous?.seconds ?? []), ...update.seconds].slice(-HISTORY_LIMITS.seconds),
    requests: appended(previous?.requests ?? [], update.requests, HISTORY_LIMITS.requests),
    logLines: appended(previous?.logLines ?? [], update.logLines, HISTORY_LIMITS.logLines),
    generations: update.generations ?? previous?.generations ?? [],
  };
}

function appended<Value>(kept: readonly Numbered<Value>[], added: readonly Value[], maxLength: number): readonly Numbered<Value>[] {
  if (added.length === 0) return kept;
  const next = (kept.at(-1)?.key ?? -1) + 1;
  return [...kept, ...added.map((value, index) => ({ key: next + index, value }))].slice(-maxLength);
}
