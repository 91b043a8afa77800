import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "../context.ts";
import type { MemoryBudget } from "../memory.ts";
import type { Counters } from "../observe/record.ts";
import type { UpstreamExit, UpstreamStatus } from "../process/port.ts";
import { addLoads } from "../server/call.ts";
import type { Pool } from "../server/pool.ts";
import type { StatelessRequests } from "../server/stateless-requests.ts";
import { type Route, sendJson } from "./response.ts";

/** `/readyz` and `/healthz` tell if the handshake is done. @param mayReadDetails true if the client may read more, such as lines of stderr. */
export function createHealthRoutes(
  { secrets }: Context,
  readStatus: () => Status,
  mayReadDetails: (request: IncomingMessage) => boolean,
): Readonly<Record<"live" | "ready" | "health", Route>> {
  const send = (response: ServerResponse, httpStatus: number, body: object): void =>
    sendJson(response, httpStatus, JSON.stringify(body, secrets.replacer), {
      "Content-Type": "application/json; charset=utf-8",
      "Cache-Control": "no-store",
    });
  const readiness: Route = (request, response) => {
    const { status, state, pid, generation, restarts, readyAt, lastExit, nextRetryAt } = readStatus();
    const details = mayReadDetails(request) ? { pid, generation, restarts, readyAt, lastExit, nextRetryAt } : {};
    send(response, status === "ready" ? 200 : 503, { status, state, ...details });
  };
  return { live: (_request, response) => send(response, 200, { status: "live" }), ready: readiness, health: readiness };
}

export function describeExit(exit: UpstreamExit | undefined) {
  if (exit === undefined) return null;
  const { generation, exitCode, signal, kind, reason, likelyCause, at, stderrTail } = exit;
  return {
    generation,
    exitCode: exitCode ?? null,
    signal: signal ?? null,
    kind,
    reason,
    likelyCause: likelyCause ?? null,
    at: at.toISOString(),
    stderrTail,
    stderrLastLine: stderrTail.at(-1) ?? null,
  };
}

/** In the form of `/status` and `/readyz`. */
export function describeServer({ state, pid, generation, restarts, readyAt, lastExit, nextRetryAt }: UpstreamStatus) {
  return {
    status: state === "ready" ? "ready" : "not-ready",
    state,
    pid: pid ?? null,
    generation,
    restarts,
    readyAt: (state === "ready" ? readyAt?.toISOString() : undefined) ?? null,
    lastExit: describeExit(lastExit),
    nextRetryAt: nextRetryAt?.toISOString() ?? null,
  };
}

/** The body of `/status`, and the source of `/metrics` and the page (docs/operations/status.md). */
export interface Status extends ReturnType<typeof describeServer> {
  readonly version: string;
  readonly uptimeMs: number;
  /** In event ids and in the states of parked calls. */
  readonly replica: string;
  /** The time of the server's first question, RFC 3339; null if there was none. */
  readonly asksSince: string | null;
  /** `modern` is the second process, for requests without a session. `asking` are those that may ask such clients, by capabilities. */
  readonly lanes: Pool["load"];
  readonly sessions: number;
  readonly openStreams: number;
  /** Undefined if they are not served. */
  readonly stateless: StatelessRequests["status"] | undefined;
  readonly rssBytes: number;
  readonly memory: MemoryBudget["status"];
  readonly counters: Counters;
  readonly policy: object | undefined;
}

export function createStatus(
  { counters, memory, nowMs }: Context,
  version: string,
  ofServer: () => Omit<Status, "version" | "uptimeMs" | "rssBytes" | "memory" | "counters">,
): () => Status {
  const startedAtMs = nowMs();
  return () => {
    const { policy, ...server } = ofServer();
    const uptimeMs = Math.round(nowMs() - startedAtMs);
    return { version, uptimeMs, ...server, rssBytes: process.memoryUsage.rss(), memory: memory.status, counters, policy };
  };
}

/** All lanes that may ask count as one. */
export function laneLoads({ pid, lanes }: Status) {
  const { shared, private: ofClients, modern, asking } = lanes;
  const servers = Object.values(asking).reduce((sum, each) => sum + each.servers, 0);
  return {
    shared: { ...addLoads([shared]), servers: Number(pid !== null) },
    private: ofClients,
    modern,
    asking: { ...addLoads(Object.values(asking)), servers },
  };
}

/** Answers 200 even if the server is not ready. */
export function createStatusRoute({ secrets }: Context, readStatus: () => Status): Route {
  return (_request, response) => sendJson(response, 200, JSON.stringify(readStatus(), secrets.replacer), { "Cache-Control": "no-store" });
}
