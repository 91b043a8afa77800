import type { IncomingMessage, ServerResponse } from "node:http";
import type { MemoryBudget } from "../memory.ts";
import type { Counters } from "../observe/counters.ts";
import type { UpstreamStatus } from "../process/port.ts";
import type { Lanes } from "../server/lanes.ts";
import type { StatelessRequests } from "../server/stateless-requests.ts";
import { discardBody, type NamedRoute, type PrincipalRoute, type Route, sendJson } from "./response.ts";

interface HealthOptions {
  readonly status: () => { readonly upstream: UpstreamStatus };
  /** A replacer for `JSON.stringify` that masks secrets. */
  readonly replacer: (key: string, value: unknown) => unknown;
  /** True if the client may read more than the state, such as the last lines that the server wrote to stderr. */
  readonly mayReadDetails: (request: IncomingMessage) => boolean;
}

/**
 * Creates the health routes. `/livez` reports that the process answers; `/readyz` and `/healthz` report that the server has finished its
 * handshake. Their HTTP status needs no token.
 */
export function createHealthRoutes(options: HealthOptions): readonly NamedRoute[] {
  const { status: readStatus, mayReadDetails, replacer } = options;
  const send = (request: IncomingMessage, response: ServerResponse, httpStatus: number, body: object): void => {
    sendJson(response, httpStatus, JSON.stringify(body, replacer), {
      "Content-Type": "application/json; charset=utf-8",
      "Cache-Control": "no-store",
    });
    discardBody(request);
  };
  const readiness: PrincipalRoute = (request, response) => {
    const { isReady, body } = describeReadiness(readStatus().upstream);
    const { status, state } = body;
    send(request, response, isReady ? 200 : 503, mayReadDetails(request) ? body : { status, state });
  };
  return [
    ["live", (request, response) => send(request, response, 200, { status: "live" })],
    ["ready", readiness],
    ["health", readiness],
  ];
}

function describeReadiness(status: UpstreamStatus): { readonly isReady: boolean; readonly body: Readiness } {
  const isReady = status.state === "ready";
  return { isReady, body: describe(status, isReady) };
}

interface Readiness {
  readonly status: "ready" | "not-ready";
  readonly state: UpstreamStatus["state"];
}

function describe(status: UpstreamStatus, isReady: boolean): Readiness & Readonly<Record<string, unknown>> {
  const { state, pid, generation, restarts, lastExit, nextRetryAt } = status;
  return {
    status: isReady ? "ready" : "not-ready",
    state,
    pid: pid ?? null,
    generation,
    restarts,
    lastExit:
      lastExit === undefined
        ? null
        : {
            generation: lastExit.generation,
            exitCode: lastExit.exitCode ?? null,
            signal: lastExit.signal ?? null,
            kind: lastExit.kind,
            reason: lastExit.reason,
            likelyCause: lastExit.likelyCause ?? null,
            at: lastExit.at.toISOString(),
            stderrTail: lastExit.stderrTail,
            stderrLastLine: lastExit.stderrTail.at(-1) ?? null,
          },
    nextRetryAt: nextRetryAt?.toISOString() ?? null,
  };
}

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
  readonly stateless: StatelessRequests["status"] | undefined;
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
