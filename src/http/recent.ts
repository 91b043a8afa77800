import { copied, shorten } from "../json/text.ts";
import { type EndedRequest, RequestHistory } from "../observe/record.ts";
import type { UpstreamExit, UpstreamObserver } from "../process/port.ts";
import type { Context } from "../context.ts";
import { HISTORY_LIMITS, type PageGeneration, type PageRequest, type PageUpdate } from "./page-update.ts";

/** The limits of a line, and of all lines. In UTF-16 units. */
const MAX_LINE_LENGTH = 16 * 1024;
const MAX_LENGTH = 256 * 1024;

export class RecentLog {
  readonly lines: string[] = [];
  count = 0;
  #length = 0;

  /** @param line with secrets masked. */
  add(line: string): void {
    const kept = line.length > MAX_LINE_LENGTH ? copied(shorten(line, MAX_LINE_LENGTH)) : line;
    this.count++;
    this.#length += kept.length;
    this.lines.push(kept);
    while (this.lines.length > HISTORY_LIMITS.logLines || this.#length > MAX_LENGTH) this.#length -= this.lines.shift()?.length ?? 0;
  }
}

/** At most 1.5 MB. Recording begins at the start: people open the page after a failure. */
export class RecentActivity {
  readonly requests = new RequestHistory(HISTORY_LIMITS.requests, HISTORY_LIMITS.seconds);
  /** The runs of all lanes, oldest first. Another array after each change. */
  generations: readonly (Omit<PageGeneration, "exit"> & { readonly exit: UpstreamExit | undefined })[] = [];
  readonly log: RecentLog;
  readonly #nowMs: () => number;
  readonly #firstSecond: number;

  constructor({ records, nowMs }: Context, log: RecentLog) {
    [this.log, this.#nowMs] = [log, nowMs];
    this.#firstSecond = this.currentSecond;
    records.history = this.requests;
  }

  /** Since the epoch. */
  get currentSecond(): number {
    return Math.floor(epochMs(this.#nowMs()) / 1000);
  }

  /** Returns only seconds that are still kept, oldest first. */
  secondsBetween(first: number, end: number): PageUpdate["seconds"] {
    const start = Math.max(first, this.#firstSecond, end - HISTORY_LIMITS.seconds);
    const passed = Array.from({ length: Math.max(0, end - start) }, (_, index) => start + index);
    return passed.map(
      (number) => this.requests.seconds.find((each) => each.number === number) ?? { number, requests: 0, errors: 0, longestMs: 0 },
    );
  }

  /** @param isProbe true for a process that shows if the server supports its handshake. An exit before that is no failure. */
  readonly observeLane = (lane: string, isProbe: boolean): UpstreamObserver => {
    let current: RecentActivity["generations"][number] = { lane, number: 0, startedAt: 0, readyAt: null, exit: undefined };
    let wasReady = false;
    return (event) => {
      const all = [...this.generations];
      const index = all.indexOf(current);
      if (event === "started") {
        current = { lane, number: current.number + 1, startedAt: Date.now(), readyAt: null, exit: undefined };
        // Running servers stay, as long as there are others. The first one is that of the shared lane.
        if (all.push(current) > HISTORY_LIMITS.generations) {
          const oldest = all.findIndex(({ exit }) => exit !== undefined);
          all.splice(oldest === -1 ? 1 : oldest, 1);
        }
      } else if (event === "ready") {
        wasReady = true;
        current = { ...current, readyAt: Date.now() };
        if (index !== -1) all[index] = current;
      } else if (index !== -1) {
        // A line may be a slice of a long text, which would stay in memory.
        current = { ...current, exit: { ...event, stderrTail: event.stderrTail.map(copied) } };
        all.splice(index, 1, ...(isProbe && !wasReady ? [] : [current]));
      }
      this.generations = all;
    };
  };
}

export function pageRequest({ method, tool, acceptedAtMs, endedAtMs, ending, isError }: EndedRequest): PageRequest {
  return {
    at: epochMs(endedAtMs),
    method: method === undefined ? null : shorten(method),
    tool: tool === undefined ? null : shorten(tool),
    durationMs: acceptedAtMs === undefined ? null : endedAtMs - acceptedAtMs,
    ending,
    isError,
  };
}

/** @param atMs as `performance.now`, which is never set back. */
function epochMs(atMs: number): number {
  return performance.timeOrigin + atMs;
}
