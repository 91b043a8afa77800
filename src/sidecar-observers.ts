import type { Config } from "./config/load.ts";
import { RecentActivity } from "./http/page/recent-activity.ts";
import type { RecentLog } from "./http/page/recent-log.ts";
import { RequestLog } from "./http/request-log/request-log.ts";
import type { Defects } from "./observability/defects.ts";
import type { Log } from "./observability/log.ts";
import { RequestMetrics } from "./observability/metrics/request-metrics.ts";
import type { Secrets } from "./observability/redact.ts";
import type { RequestObserver } from "./observability/request-observer.ts";
import { observeAll } from "./observability/request-observers.ts";

export interface ObserversOptions {
  readonly config: Pick<Config, "requestLog" | "metrics">;
  readonly secrets: Pick<Secrets, "redact">;
  readonly log: Log;
  /** The lines for the page; undefined without one. */
  readonly recentLog: RecentLog | undefined;
  readonly defects: Defects;
  readonly nowMs: () => number;
}

/** The observers of requests; each is undefined if its option is off. */
export interface Observers {
  /** All of them together. */
  readonly observer: RequestObserver | undefined;
  readonly requestLog: RequestLog | undefined;
  readonly metrics: RequestMetrics | undefined;
  /** The history for the page. */
  readonly activity: RecentActivity | undefined;
}

export function createObservers({ config, secrets, log, recentLog, defects, nowMs }: ObserversOptions): Observers {
  const { requestLog: mode, metrics: hasMetrics } = config;
  const requestLog = mode === "off" ? undefined : new RequestLog({ mode, log, defects, nowMs });
  const metrics = hasMetrics ? new RequestMetrics({ nowMs, defects, redact: secrets.redact }) : undefined;
  const activity = recentLog && new RecentActivity(recentLog, nowMs);
  const observer = observeAll([requestLog, metrics, activity].filter((each) => each !== undefined));
  return { observer, requestLog, metrics, activity };
}
