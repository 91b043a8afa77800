import type { Counters } from "../counters.ts";
import type { Lanes } from "../mux/lanes.ts";
import type { SessionStore } from "../mux/session-store.ts";
import { describeReadiness, type HealthOptions } from "./health-routes.ts";
import { sendJson } from "./json-response.ts";
import { discardBody } from "./refuse.ts";
import type { Route } from "./route.ts";
import type { SseConnections } from "./sse-connection.ts";

export interface StatusOptions extends HealthOptions {
  readonly version: string;
  readonly lanes: Lanes;
  readonly sessions: SessionStore;
  readonly connections: SseConnections;
  readonly counters: Counters;
  /** What the tool policy knows; undefined where there is nothing to tell. */
  readonly policy: () => object | undefined;
  readonly nowMs: () => number;
}

/** What the sidecar does and has done since its start, in numbers (docs/operations/status.md). Always 200: whether it is ready, `/readyz` says. */
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
