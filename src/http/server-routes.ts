import type { Counters } from "../observability/counters.ts";
import type { Defects } from "../observability/defects.ts";
import type { Log } from "../observability/log.ts";
import type { RequestObserver } from "../observability/request-observer.ts";
import type { SessionOpener } from "../lane/handshake/session-opener.ts";
import type { MemoryBudget } from "../memory/memory-budget.ts";
import type { Principal } from "../sessions/principal.ts";
import type { SessionStore } from "../sessions/session-store.ts";
import { ArrivingBodies } from "./endpoint/arriving-bodies.ts";
import { StatelessPosts } from "./endpoint/stateless-posts.ts";
import type { StatelessRequests } from "../era/stateless-requests.ts";
import { createMcpRoute } from "./endpoint/mcp-route.ts";
import { LegacySsePairs } from "./legacy-sse/legacy-sse-pairs.ts";
import { createLegacySseRoutes } from "./legacy-sse/legacy-sse-routes.ts";
import type { NamedRoute, PrincipalRoute } from "./route.ts";
import { createUnreadOutput } from "./output/create-unread-output.ts";
import { SseConnections } from "./output/sse-connection.ts";
import { createObserve } from "./request-log/observe.ts";

export interface ServerRoutesOptions {
  readonly opener: SessionOpener;
  readonly sessions: SessionStore;
  readonly isDraining: () => boolean;
  readonly maxBodyBytes: number;
  /** The requests without a session; undefined if they are not served. */
  readonly stateless: StatelessRequests | undefined;
  readonly keepAliveMs: number;
  /** The limits of HTTP+SSE; undefined if it is off. */
  readonly legacySse: { readonly maxSessions: number; readonly requestTimeoutMs: number } | undefined;
  /** Undefined if nothing observes requests. */
  readonly observer: RequestObserver | undefined;
  readonly memory: MemoryBudget;
  readonly counters: Counters;
  readonly log: Log;
  readonly defects: Defects;
  readonly nowMs: () => number;
}

/** The HTTP side of one MCP server: the routes by which clients reach it, without guards, and their event streams. */
export class ServerRoutes {
  /** The route of the MCP endpoint. */
  readonly endpoint: PrincipalRoute;
  /** The routes of HTTP+SSE; none if it is off. */
  readonly legacySse: readonly NamedRoute[];
  readonly #connections: SseConnections;
  readonly #pairs: LegacySsePairs | undefined;

  constructor({ keepAliveMs, legacySse, stateless: requests, observer, counters, log, ...rest }: ServerRoutesOptions) {
    const { memory, defects } = rest;
    const unread = createUnreadOutput({ ...rest, counters, log });
    const bodies = new ArrivingBodies();
    memory.addShareRelief((bytes, holder) => bodies.reject(bytes, holder));
    const observe = observer && createObserve(observer);
    const options = { ...rest, counters, unread, bodies, observe };
    const connections = new SseConnections(keepAliveMs, unread, defects);
    const pairs = legacySse === undefined ? undefined : new LegacySsePairs({ ...options, ...legacySse, connections });
    const stateless = requests === undefined ? undefined : new StatelessPosts({ ...options, requests, connections });
    this.endpoint = createMcpRoute({ ...options, stateless, connections });
    this.legacySse = pairs === undefined ? [] : createLegacySseRoutes({ ...options, connections, pairs });
    this.#connections = connections;
    this.#pairs = pairs;
  }

  get openStreams(): number {
    return this.#connections.size;
  }

  /** Ends the HTTP+SSE streams of a principal. */
  endAllOf(owner: Principal): void {
    this.#pairs?.endAllOf(owner);
  }

  /** Ends each HTTP+SSE stream after its requests are answered. */
  drain(): void {
    this.#pairs?.drain();
  }
}
