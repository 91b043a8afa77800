import type { PageSecond } from "./page-update.ts";

const MAX_SECONDS = 120;

interface Second {
  /** Seconds since the epoch. */
  readonly number: number;
  requests: number;
  errors: number;
  /** The requests with a duration. */
  timed: number;
  totalMs: number;
  longestMs: number;
}

/** The number and the durations of requests in each of the last seconds. */
export class RequestRate {
  readonly #now: () => number;
  /** Those with requests, oldest first. */
  readonly #seconds: Second[] = [];

  /** @param now returns the time since the epoch, in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** The second that has not passed yet. Since the epoch. */
  get current(): number {
    return Math.floor(this.#now() / 1000);
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

  /** Returns the seconds from `first` on that have passed, as far as they are kept, oldest first. @param first seconds since the epoch. */
  since(first: number): PageSecond[] {
    const { current } = this;
    const counted = new Map(this.#seconds.map((each) => [each.number, each]));
    const passed: PageSecond[] = [];
    for (let number = Math.max(first, current - MAX_SECONDS); number < current; number++) {
      const { requests, errors, timed, totalMs, longestMs } = counted.get(number) ?? NO_REQUESTS;
      passed.push({
        at: new Date(number * 1000).toISOString(),
        requests,
        errors,
        meanMs: timed === 0 ? 0 : rounded(totalMs / timed),
        longestMs: rounded(longestMs),
      });
    }
    return passed;
  }

  #second(): Second {
    const { current } = this;
    const last = this.#seconds.at(-1);
    // A clock that is set back continues the last second.
    if (last !== undefined && last.number >= current) return last;
    const second = { ...NO_REQUESTS, number: current };
    this.#seconds.push(second);
    while ((this.#seconds[0]?.number ?? current) <= current - MAX_SECONDS) this.#seconds.shift();
    return second;
  }
}

const NO_REQUESTS: Omit<Second, "number"> = { requests: 0, errors: 0, timed: 0, totalMs: 0, longestMs: 0 };

/** Rounds to a tenth of a millisecond. */
function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}
