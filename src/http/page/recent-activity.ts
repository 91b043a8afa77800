import { shorten } from "../../json/text.ts";
import type { RequestEnding } from "../../observability/counters.ts";
import type { ObservedRequest, RejectedRequest, RequestObserver } from "../../observability/request-observer.ts";
import type { UpstreamObserver } from "../../upstream/port.ts";
import type { PageRequest } from "./page-update.ts";
import { RecentGenerations } from "./recent-generations.ts";
import { RecentItems } from "./recent-items.ts";
import type { RecentLog } from "./recent-log.ts";
import { RequestRate } from "./request-rate.ts";

const MAX_REQUESTS = 200;

/** A request that has ended. `at` is the time since the epoch, in milliseconds. */
export type RecentRequest = Omit<PageRequest, "at"> & { readonly at: number };

/** The history that the page shows. It takes at most 1.5 MB, and is recorded from the start on, because people look after something has happened. */
export class RecentActivity implements RequestObserver {
  readonly requests = new RecentItems<RecentRequest>({ maxCount: MAX_REQUESTS });
  readonly rate = new RequestRate(() => Date.now());
  readonly generations = new RecentGenerations();
  readonly log: RecentLog;
  readonly #nowMs: () => number;

  constructor(log: RecentLog, nowMs: () => number) {
    [this.log, this.#nowMs] = [log, nowMs];
  }

  /** Returns an observer of a lane's server. @param isProbe as in `RecentGenerations`. */
  readonly observeLane = (lane: string, isProbe: boolean): UpstreamObserver => this.generations.observe(lane, isProbe);

  ended({ method, tool, acceptedAtMs }: ObservedRequest, ending: RequestEnding): void {
    const durationMs = this.#nowMs() - acceptedAtMs;
    this.rate.count(ending !== "results" && ending !== "dismissed" && ending !== "unread", durationMs);
    this.requests.add({ at: Date.now(), method: shorten(method), tool: tool === undefined ? null : shorten(tool), durationMs, ending });
  }

  rejected({ code }: RejectedRequest): void {
    this.rate.count(true, undefined);
    this.requests.add({ at: Date.now(), method: null, tool: null, durationMs: null, ending: code });
  }
}
