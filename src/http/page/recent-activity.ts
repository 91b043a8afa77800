import { copied } from "../../json/strings.ts";
import { shorten } from "../../json/text.ts";
import type { RequestEnding } from "../../observability/counters.ts";
import type { ObservedRequest, RejectedRequest, RequestObserver } from "../../observability/request-observer.ts";
import type { UpstreamObserver } from "../../upstream/port.ts";
import { HISTORY_LIMITS, type PageRequest } from "./page-update.ts";
import { isToolError } from "../../observability/metrics/request-metrics.ts";
import { RecentGenerations } from "./recent-generations.ts";
import { RecentItems } from "./recent-items.ts";
import type { RecentLog } from "./recent-log.ts";
import { RequestRate } from "./request-rate.ts";

/** Names of methods and tools. Most requests have one of a few. */
const MAX_KNOWN_NAMES = 200;

/** The endings without an error. */
const SUCCESSES: ReadonlySet<PageRequest["ending"]> = new Set(["results", "dismissed", "unread"]);

/** A request that has ended. `at` is the time since the epoch, in milliseconds. */
export type RecentRequest = Omit<PageRequest, "at"> & { readonly at: number };

/** The history for the page, at most 1.5 MB. Recording begins at the start, because people open the page after a failure. */
export class RecentActivity implements RequestObserver {
  readonly requests = new RecentItems<RecentRequest>({ maxCount: HISTORY_LIMITS.requests });
  readonly rate: RequestRate;
  readonly generations = new RecentGenerations();
  readonly log: RecentLog;
  readonly #nowMs: () => number;
  readonly #knownNames = new Map<string, string>();

  /** @param nowMs as `performance.now`. */
  constructor(log: RecentLog, nowMs: () => number) {
    [this.log, this.#nowMs] = [log, nowMs];
    this.rate = new RequestRate(() => performance.timeOrigin + nowMs());
  }

  /** Returns an observer of a lane's server. @param isProbe as in `RecentGenerations`. */
  readonly observeLane = (lane: string, isProbe: boolean): UpstreamObserver => this.generations.observe(lane, isProbe);

  ended({ method, tool, acceptedAtMs }: ObservedRequest, ending: RequestEnding, body: string | undefined): void {
    const durationMs = this.#nowMs() - acceptedAtMs;
    const shown = ending === "results" && isToolError(method, body ?? "") ? "tool_error" : ending;
    this.rate.count(!SUCCESSES.has(shown), durationMs);
    const toolName = tool === undefined ? null : this.#kept(tool);
    this.requests.add({ at: Date.now(), method: this.#kept(method), tool: toolName, durationMs, ending: shown });
  }

  rejected({ code }: RejectedRequest): void {
    this.rate.count(true, undefined);
    this.requests.add({ at: Date.now(), method: null, tool: null, durationMs: null, ending: code });
  }

  /** Returns a copy of a name, which may be a slice of its request: that would stay in memory. */
  #kept(name: string): string {
    const known = this.#knownNames.get(name);
    if (known !== undefined) return known;
    const copy = copied(shorten(name));
    if (copy.length === name.length && this.#knownNames.size < MAX_KNOWN_NAMES) this.#knownNames.set(copy, copy);
    return copy;
  }
}
