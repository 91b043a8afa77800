import type { MemoryBudget } from "../memory.ts";
import type { Counters } from "../observe/counters.ts";
import type { Defects, Log } from "../observe/log.ts";
import type { RequestObserver } from "../observe/record.ts";
import type { SessionOpener } from "../server/session-opener.ts";
import type { StatelessRequests } from "../server/stateless-requests.ts";
import type { Principal } from "../session/session.ts";
import type { SessionStore } from "../session/store.ts";
import { ArrivingBodies } from "./body.ts";
import { SseConnections } from "./event-streams.ts";
import { createLegacySseRoutes, LegacySsePairs } from "./legacy-sse.ts";
import { createMcpRoute } from "./mcp-route.ts";
import { StatelessPosts } from "./post.ts";
import { createObserve, type NamedRoute, type PrincipalRoute } from "./response.ts";
import { createUnreadOutput } from "./unread-output.ts";

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
