import type { Counters } from "../observability/counters.ts";
import type { Lanes } from "../lane/lanes.ts";
import type { SessionStore } from "../sessions/session-store.ts";
import { describeReadiness, type HealthOptions } from "./health-routes.ts";
import { sendJson } from "./json-response.ts";
import { discardBody } from "./reject.ts";
import type { Route } from "./route.ts";
import type { SseConnections } from "./sse-connection.ts";

export interface StatusOptions extends HealthOptions {
  readonly version: string;
  readonly lanes: Lanes;
  readonly sessions: SessionStore;
  readonly connections: SseConnections;
  readonly counters: Counters;
  /** The status of the tool policy; undefined without one. */
  readonly policy: () => object | undefined;
  readonly nowMs: () => number;
}

/** Creates the route of `/status`: state and counters since the start (docs/operations/status.md). It answers 200 even if not ready. */
export function createStatusRoute(options: StatusOptions): Route {
  const { version, lanes, sessions, connections, counters, policy, nowMs, replacer } = options;
  const startedAtMs = nowMs();

  return (request, response) => {
    const status = {
      version,
      uptimeMs: Math.round(nowMs() - startedAtMs),
      ...describeReadiness(options).body,
      lanes: lanes.load,
      sessions: sessions.size,
      openStreams: connections.size,
      rssBytes: process.memoryUsage.rss(),
      counters,
      policy: policy(),
    };
    sendJson(response, 200, JSON.stringify(status, replacer), { "Cache-Control": "no-store" });
    discardBody(request);
  };
}
