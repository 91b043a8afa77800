import { copied, shorten } from "../json/text.ts";
import type { ObservedRequest, RejectedRequest, RequestEnding, RequestObserver } from "../observe/record.ts";
import { isToolError } from "../observe/metrics.ts";
import type { UpstreamObserver } from "../process/port.ts";
import { describeExit, HISTORY_LIMITS, type PageGeneration, type PageRequest, type PageSecond } from "./page-update.ts";

/** The last items of a series. */
class RecentItems<Item> {
  /** The number of all items so far. */
  count = 0;
  readonly #maxCount: number;
  readonly #maxLength: number;
  readonly #items: Item[] = [];
  #length = 0;

  /** @param maxLength the limit of the sum of the lengths of texts. */
  constructor(maxCount: number, maxLength = Number.POSITIVE_INFINITY) {
    [this.#maxCount, this.#maxLength] = [maxCount, maxLength];
  }

  add(item: Item): void {
    this.#items.push(item);
    if (typeof item === "string") this.#length += item.length;
    this.count++;
    while (this.#items.length > this.#maxCount || this.#length > this.#maxLength) {
      const oldest = this.#items.shift();
      if (typeof oldest === "string") this.#length -= oldest.length;
    }
  }

  /** Returns the items after the first `seenCount` ones, as far as they are kept, oldest first. */
  after(seenCount: number): readonly Item[] {
    return this.#items.slice(Math.max(0, this.#items.length - (this.count - seenCount)));
  }
}

/** The limits of a line, and of all lines. In UTF-16 units. */
const MAX_LINE_LENGTH = 16 * 1024;
const MAX_LENGTH = 256 * 1024;

export class RecentLog extends RecentItems<string> {
  constructor() {
    super(HISTORY_LIMITS.logLines, MAX_LENGTH);
  }

  /** @param line with secrets masked. */
  override add(line: string): void {
    super.add(line.length > MAX_LINE_LENGTH ? copied(shorten(line, MAX_LINE_LENGTH)) : line);
  }
}

function newSecond(at: number): PageSecond {
  return { at, requests: 0, errors: 0, timed: 0, totalMs: 0, longestMs: 0 };
}

/** The number and the durations of requests in each of the last seconds. */
class RequestRate {
  readonly #nowMs: () => number;
  readonly #firstSecond: number;
  /** Those with requests, oldest first. */
  readonly #seconds: PageSecond[] = [];

  /** @param nowMs as `performance.now`, which is never set back. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#firstSecond = this.current;
  }

  /** The current second, in seconds since the epoch. */
  get current(): number {
    return Math.floor((performance.timeOrigin + this.#nowMs()) / 1000);
  }

  /** @param durationMs undefined for a request that was rejected before it was read. */
  count(isError: boolean, durationMs: number | undefined): void {
    const { current } = this;
    let second = this.#seconds.at(-1);
    if (second?.at !== current) {
      this.#seconds.push((second = newSecond(current)));
      while ((this.#seconds[0]?.at ?? current) < current - HISTORY_LIMITS.seconds) this.#seconds.shift();
    }
    second.requests++;
    if (isError) second.errors++;
    if (durationMs === undefined) return;
    second.timed++;
    second.totalMs += durationMs;
    second.longestMs = Math.max(second.longestMs, durationMs);
  }

  /** Returns the seconds from `first` to right before `end`, as far as they are kept, oldest first. Both are since the epoch. */
  between(first: number, end: number): PageSecond[] {
    const start = Math.max(first, this.#firstSecond, end - HISTORY_LIMITS.seconds);
    const passed = Array.from({ length: Math.max(0, end - start) }, (_, index) => start + index);
    return passed.map((at) => this.#seconds.find((each) => each.at === at) ?? newSecond(at));
  }
}

/** Returns a copy of a name, which may be a slice of its request: that would stay in memory. */
function kept(name: string): string {
  return copied(shorten(name));
}

/** The endings without an error. */
const SUCCESSES: ReadonlySet<PageRequest["ending"]> = new Set(["results", "dismissed", "unread"]);

/** The history for the page, at most 1.5 MB. Recording begins at the start, because people open the page after a failure. */
export class RecentActivity implements RequestObserver {
  readonly requests = new RecentItems<PageRequest>(HISTORY_LIMITS.requests);
  readonly rate: RequestRate;
  /** The last generations of all lanes, oldest first. Another array after each change. */
  generations: readonly PageGeneration[] = [];
  readonly log: RecentLog;
  readonly #nowMs: () => number;

  /** @param nowMs as `performance.now`. */
  constructor(log: RecentLog, nowMs: () => number) {
    [this.log, this.#nowMs] = [log, nowMs];
    this.rate = new RequestRate(nowMs);
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
    const change = (changed: Partial<PageGeneration>): void => {
      const index = this.generations.indexOf(current);
      current = { ...current, ...changed };
      if (index !== -1) this.generations = this.generations.with(index, current);
    };
    return {
      onStarted: () => {
        current = { lane, number: current.number + 1, startedAt: Date.now(), readyAt: null, exit: null };
        const all = [...this.generations, current];
        // Running servers stay, as long as there are others. The first one is that of the shared lane.
        const oldest = all.length > HISTORY_LIMITS.generations ? (all.find(({ exit }) => exit !== null) ?? all[1]) : undefined;
        this.generations = oldest === undefined ? all : all.filter((each) => each !== oldest);
      },
      onReady: () => {
        wasReady = true;
        change({ readyAt: Date.now() });
      },
      onLost: (exit) => {
        if (isProbe && !wasReady) this.generations = this.generations.filter((each) => each !== current);
        // A line may be a slice of a long text, which would stay in memory.
        else change({ exit: describeExit({ ...exit, stderrTail: exit.stderrTail.map(copied) }) });
      },
    };
  };

  ended({ method, tool, acceptedAtMs }: ObservedRequest, ending: RequestEnding, body: string | undefined): void {
    const durationMs = this.#nowMs() - acceptedAtMs;
    const shown = ending === "results" && isToolError(method, body ?? "") ? "tool_error" : ending;
    this.rate.count(!SUCCESSES.has(shown), durationMs);
    const toolName = tool === undefined ? null : kept(tool);
    this.requests.add({ at: Date.now(), method: kept(method), tool: toolName, durationMs, ending: shown });
  }

  rejected({ code }: RejectedRequest): void {
    this.rate.count(true, undefined);
    this.requests.add({ at: Date.now(), method: null, tool: null, durationMs: null, ending: code });
  }
}
