import type { Counters } from "../observability/counters.ts";
import type { Lanes } from "../lane/lanes.ts";
import type { MemoryBudget } from "../memory/memory-budget.ts";
import type { StatelessStatus } from "../era/stateless-requests.ts";
import type { UpstreamStatus } from "../upstream/port.ts";
import { describeReadiness } from "./health-routes.ts";
import { sendJson } from "./json-response.ts";
import { discardBody } from "./reject.ts";
import type { Route } from "./route.ts";

/** The present state of one MCP server, and its counters. */
export interface ServerStatus {
  /** The name of this process in event ids and in the states of calls that wait for answers. */
  readonly replica: string;
  readonly upstream: UpstreamStatus;
  /** `modern` is the second process, for requests without a session. `asking` are those that may ask such clients, by capabilities. */
  readonly lanes: Lanes["load"] & {
    readonly modern: Lanes["load"]["private"];
    readonly asking: Readonly<Record<string, Lanes["load"]["private"]>>;
  };
  readonly sessions: number;
  readonly openStreams: number;
  readonly counters: Counters;
  /** The requests without a session, and the era of the server for them; undefined if they are not served. */
  readonly stateless: StatelessStatus | undefined;
  /** The status of the tool policy; undefined without one. */
  readonly policy: object | undefined;
}

export interface StatusOptions {
  readonly version: string;
  readonly status: () => ServerStatus;
  readonly memory: Pick<MemoryBudget, "status">;
  /** A replacer for `JSON.stringify` that masks secrets. */
  readonly replacer: (key: string, value: unknown) => unknown;
  readonly nowMs: () => number;
}

/** Creates the route of `/status`: state and counters since the start (docs/operations/status.md). It answers 200 even if not ready. */
export function createStatusRoute(options: StatusOptions): Route {
  const { version, memory, nowMs, replacer } = options;
  const startedAtMs = nowMs();

  return (request, response) => {
    const { replica, upstream, lanes, sessions, openStreams, stateless, counters, policy } = options.status();
    const body = {
      version,
      replica,
      uptimeMs: Math.round(nowMs() - startedAtMs),
      ...describeReadiness(upstream).body,
      lanes,
      sessions,
      openStreams,
      stateless,
      rssBytes: process.memoryUsage.rss(),
      memory: memory.status,
      counters,
      policy,
    };
    sendJson(response, 200, JSON.stringify(body, replacer), { "Cache-Control": "no-store" });
    discardBody(request);
  };
}
