import { copied, shorten } from "../json/text.ts";
import type { EndedRequest } from "../observe/record.ts";
import type { UpstreamObserver } from "../process/port.ts";
import type { Context } from "../context.ts";
import { describeExit } from "./health.ts";
import { HISTORY_LIMITS, type PageGeneration, type PageRequest, type PageSecond } from "./page-update.ts";

/** The limits of a line, and of all lines. In UTF-16 units. */
const MAX_LINE_LENGTH = 16 * 1024;
const MAX_LENGTH = 256 * 1024;

/** The last items of a series. */
class RecentItems<Item> {
  /** The number of all items so far. */
  count = 0;
  readonly #maxCount: number;
  readonly #items: Item[] = [];
  /** The length of those that are texts. */
  #length = 0;

  constructor(maxCount: number) {
    this.#maxCount = maxCount;
  }

  add(item: Item): void {
    this.#items.push(item);
    if (typeof item === "string") this.#length += item.length;
    this.count++;
    while (this.#items.length > this.#maxCount || this.#length > MAX_LENGTH) {
      const oldest = this.#items.shift();
      if (typeof oldest === "string") this.#length -= oldest.length;
    }
  }

  /** Returns the items after the first `seenCount` ones, as far as they are kept, oldest first. */
  after(seenCount: number): readonly Item[] {
    return this.#items.slice(Math.max(0, this.#items.length - (this.count - seenCount)));
  }
}

export class RecentLog extends RecentItems<string> {
  constructor() {
    super(HISTORY_LIMITS.logLines);
  }

  /** @param line with secrets masked. */
  override add(line: string): void {
    super.add(line.length > MAX_LINE_LENGTH ? copied(shorten(line, MAX_LINE_LENGTH)) : line);
  }
}

/** The history for the page, at most 1.5 MB. Recording begins at the start, because people open the page after a failure. */
export class RecentActivity {
  readonly requests = new RecentItems<PageRequest>(HISTORY_LIMITS.requests);
  /** The last generations of all lanes, oldest first. Another array after each change. */
  generations: readonly PageGeneration[] = [];
  readonly log: RecentLog;
  readonly #nowMs: () => number;
  readonly #firstSecond: number;
  /** Those with requests, oldest first. */
  readonly #seconds: PageSecond[] = [];

  constructor({ records, nowMs }: Context, log: RecentLog) {
    [this.log, this.#nowMs] = [log, nowMs];
    this.#firstSecond = this.currentSecond;
    records.onEnded = (request) => this.#onEnded(request);
  }

  /** The current second, in seconds since the epoch. */
  get currentSecond(): number {
    return Math.floor(epochMs(this.#nowMs()) / 1000);
  }

  /** Returns the seconds from `first` to right before `end`, as far as they are kept, oldest first. Both are since the epoch. */
  secondsBetween(first: number, end: number): PageSecond[] {
    const start = Math.max(first, this.#firstSecond, end - HISTORY_LIMITS.seconds);
    const passed = Array.from({ length: Math.max(0, end - start) }, (_, index) => start + index);
    return passed.map((number) => this.#seconds.find((each) => each.number === number) ?? newSecond(number));
  }

  #onEnded({ method, tool, acceptedAtMs, endedAtMs, ending }: EndedRequest): void {
    const at = epochMs(endedAtMs);
    const durationMs = acceptedAtMs === undefined ? null : endedAtMs - acceptedAtMs;
    this.requests.add({ at, method: method === undefined ? null : shorten(method), tool: tool ? shorten(tool) : null, durationMs, ending });
    const number = Math.floor(at / 1000);
    let second = this.#seconds.at(-1);
    if (second?.number !== number) {
      this.#seconds.push((second = newSecond(number)));
      while ((this.#seconds[0]?.number ?? number) < number - HISTORY_LIMITS.seconds) this.#seconds.shift();
    }
    second.requests++;
    if (ending !== "results" && ending !== "dismissed" && ending !== "unread") second.errors++;
    if (durationMs === null) return;
    second.timed++;
    second.totalMs += durationMs;
    second.longestMs = Math.max(second.longestMs, durationMs);
  }

  /**
   * Returns an observer of a lane's server.
   *
   * @param lane its name in the log.
   * @param isProbe true for a process that shows if the server supports its handshake. An exit before the handshake is not a failure, and is not kept.
   */
  readonly observeLane = (lane: string, isProbe: boolean): UpstreamObserver => {
    let current: PageGeneration = { lane, number: 0, startedAt: 0, readyAt: null, exit: null };
    let wasReady = false;
    return (event) => {
      const all = [...this.generations];
      const index = all.indexOf(current);
      if (event === "started") {
        current = { lane, number: current.number + 1, startedAt: Date.now(), readyAt: null, exit: null };
        // Running servers stay, as long as there are others. The first one is that of the shared lane.
        if (all.push(current) > HISTORY_LIMITS.generations) {
          const oldest = all.findIndex(({ exit }) => exit !== null);
          all.splice(oldest === -1 ? 1 : oldest, 1);
        }
      } else if (event === "ready") {
        wasReady = true;
        current = { ...current, readyAt: Date.now() };
        if (index !== -1) all[index] = current;
      } else if (index !== -1) {
        // A line may be a slice of a long text, which would stay in memory.
        current = { ...current, exit: describeExit({ ...event, stderrTail: event.stderrTail.map(copied) }) };
        all.splice(index, 1, ...(isProbe && !wasReady ? [] : [current]));
      }
      this.generations = all;
    };
  };
}

function newSecond(number: number): PageSecond {
  return { number, requests: 0, errors: 0, timed: 0, totalMs: 0, longestMs: 0 };
}

/** @param atMs as `performance.now`, which is never set back. */
function epochMs(atMs: number): number {
  return performance.timeOrigin + atMs;
}
