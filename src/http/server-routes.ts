import type { Defects } from "../observability/defects.ts";
import type { SessionOpener } from "../lane/handshake/session-opener.ts";
import type { MemoryBudget } from "../memory/memory-budget.ts";
import type { Principal } from "../sessions/session.ts";
import type { SessionStore } from "../sessions/session-store.ts";
import { createMcpRoute } from "./endpoint/mcp-route.ts";
import { LegacySsePairs } from "./legacy-sse/legacy-sse-pairs.ts";
import { createLegacySseRoutes } from "./legacy-sse/legacy-sse-routes.ts";
import type { NamedRoute, PrincipalRoute } from "./route.ts";
import { SseConnections } from "./output/sse-connection.ts";
import { UnreadOutput } from "./output/unread-output.ts";

export interface ServerRoutesOptions {
  readonly opener: SessionOpener;
  readonly sessions: SessionStore;
  readonly isDraining: () => boolean;
  readonly maxBodyBytes: number;
  readonly keepAliveMs: number;
  /** The limits of HTTP+SSE; undefined if it is off. */
  readonly legacySse: { readonly maxSessions: number; readonly requestTimeoutMs: number } | undefined;
  readonly memory: MemoryBudget;
  /** Called for each connection that is closed because its client is slow, with its unread text in UTF-16 units. */
  readonly onSlowReader: (unreadLength: number) => void;
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

  constructor({ keepAliveMs, legacySse, onSlowReader, ...rest }: ServerRoutesOptions) {
    const { memory, defects, nowMs } = rest;
    const unread = new UnreadOutput({ nowMs, onCut: onSlowReader });
    memory.addRelief((bytes) => unread.cutOffSlow(bytes));
    const options = { ...rest, unread };
    const connections = new SseConnections(keepAliveMs, unread, defects);
    const pairs = legacySse === undefined ? undefined : new LegacySsePairs({ ...options, ...legacySse, connections });
    this.endpoint = createMcpRoute({ ...options, connections });
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
