import { HISTORY_LIMITS, type PageSecond } from "./page-update.ts";

interface Second {
  /** Seconds since the epoch. */
  readonly number: number;
  requests: number;
  errors: number;
  timed: number;
  totalMs: number;
  longestMs: number;
}

const NO_REQUESTS: Omit<Second, "number"> = { requests: 0, errors: 0, timed: 0, totalMs: 0, longestMs: 0 };

/** The number and the durations of requests in each of the last seconds. */
export class RequestRate {
  readonly #epochMs: () => number;
  readonly #firstSecond: number;
  /** Those with requests, oldest first. */
  readonly #seconds: Second[] = [];

  /** @param epochMs returns the time since the epoch, by a clock that is never set back. */
  constructor(epochMs: () => number) {
    this.#epochMs = epochMs;
    this.#firstSecond = this.current;
  }

  /** The current second, in seconds since the epoch. */
  get current(): number {
    return Math.floor(this.#epochMs() / 1000);
  }

  /** @param durationMs undefined for a request that was rejected before it was read. */
  count(isError: boolean, durationMs: number | undefined): void {
    const second = this.#second();
    second.requests++;
    if (isError) second.errors++;
    if (durationMs === undefined) return;
    second.timed++;
    second.totalMs += durationMs;
    second.longestMs = Math.max(second.longestMs, durationMs);
  }

  /** Returns the seconds from `first` to right before `end`, as far as they are kept, oldest first. Both are since the epoch. */
  between(first: number, end: number): PageSecond[] {
    const counted = new Map(this.#seconds.map((each) => [each.number, each]));
    const passed: PageSecond[] = [];
    for (let number = Math.max(first, this.#firstSecond, end - HISTORY_LIMITS.seconds); number < end; number++) {
      const { requests, errors, timed, totalMs, longestMs } = counted.get(number) ?? NO_REQUESTS;
      passed.push({
        at: new Date(number * 1000).toISOString(),
        requests,
        errors,
        timed,
        meanMs: timed === 0 ? null : rounded(totalMs / timed),
        longestMs: timed === 0 ? null : rounded(longestMs),
      });
    }
    return passed;
  }

  #second(): Second {
    const { current } = this;
    const last = this.#seconds.at(-1);
    if (last?.number === current) return last;
    const second = { ...NO_REQUESTS, number: current };
    this.#seconds.push(second);
    while ((this.#seconds[0]?.number ?? current) < current - HISTORY_LIMITS.seconds) this.#seconds.shift();
    return second;
  }
}

/** Rounds to a tenth of a millisecond. */
function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}
