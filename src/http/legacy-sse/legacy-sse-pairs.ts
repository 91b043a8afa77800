import type { ServerResponse } from "node:http";
import type { Defects } from "../../observability/defects.ts";
import { DeadlineSweep } from "../../timing/deadline-sweep.ts";
import type { MemoryAccount, MemoryHolder } from "../../memory/memory-budget.ts";
import type { SessionStore } from "../../sessions/session-store.ts";
import type { Principal } from "../../sessions/principal.ts";
import { LegacySsePair } from "./legacy-sse-pair.ts";
import type { SseConnections } from "../output/sse-connection.ts";

export interface LegacySsePairsOptions {
  readonly connections: SseConnections;
  readonly sessions: SessionStore;
  /** Above this limit, the oldest stream without a session ends, of the same client if it has one. The session store limits the streams with a session. */
  readonly maxSessions: number;
  /** Time limit for a client to send `initialize`. */
  readonly requestTimeoutMs: number;
  readonly defects: Pick<Defects, "guard">;
  readonly nowMs: () => number;
}

/** The clients of HTTP+SSE, by the id in the URL that they post to. */
export class LegacySsePairs {
  readonly #options: LegacySsePairsOptions;
  readonly #pairs = new Map<string, LegacySsePair>();
  readonly #unused: DeadlineSweep;

  constructor(options: LegacySsePairsOptions) {
    this.#options = options;
    this.#unused = new DeadlineSweep(options.nowMs, options.defects, (nowMs) => this.#endUnused(nowMs));
  }

  /** Answers with the stream of a new client. */
  open(response: ServerResponse, owner: Principal | undefined, memory: MemoryAccount): void {
    const { connections, maxSessions, requestTimeoutMs, nowMs } = this.#options;
    if (this.#pairs.size >= maxSessions) this.#end(this.#oldestWithoutSession(memory.holder));
    const [path = ""] = (response.req.url ?? "").split("?");
    const pair = new LegacySsePair(connections.open(response, memory), path, nowMs(), owner, memory);
    this.#pairs.set(pair.id, pair);
    response.once("close", () => this.#options.defects.guard("client disconnect", () => this.#onClosed(pair)));
    this.#unused.watch(pair.openedAtMs + requestTimeoutMs);
  }

  get(id: string): LegacySsePair | undefined {
    return this.#pairs.get(id);
  }

  /** Ends each connection after its requests are answered. */
  drain(): void {
    this.#unused.close();
    for (const pair of this.#pairs.values()) pair.end();
  }

  /** Ends the streams of a principal. */
  endAllOf(owner: Principal): void {
    for (const pair of this.#pairs.values()) if (pair.owner === owner) this.#end(pair);
  }

  /** Prefers a stream of this holder, so that a flood of streams ends its own. */
  #oldestWithoutSession(holder: MemoryHolder): LegacySsePair | undefined {
    let oldest: LegacySsePair | undefined;
    for (const pair of this.#pairs.values()) {
      if (pair.isInitialized) continue;
      if (pair.holder === holder) return pair;
      oldest ??= pair;
    }
    return oldest;
  }

  #end(pair: LegacySsePair | undefined): void {
    if (pair === undefined) return;
    this.#pairs.delete(pair.id);
    pair.end();
  }

  #onClosed(pair: LegacySsePair): void {
    this.#pairs.delete(pair.id);
    pair.disconnect();
    if (pair.session !== undefined) this.#options.sessions.end(pair.session);
  }

  /** Ends the streams whose clients have not sent `initialize` in time. @returns the next deadline, or Infinity. */
  #endUnused(nowMs: number): number {
    const { requestTimeoutMs } = this.#options;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const pair of this.#pairs.values()) {
      if (pair.session !== undefined) continue;
      const dueAtMs = pair.openedAtMs + requestTimeoutMs;
      if (dueAtMs > nowMs) nextMs = Math.min(nextMs, dueAtMs);
      // An `initialize` in progress has its own deadline.
      else if (pair.isInitialized) nextMs = Math.min(nextMs, nowMs + requestTimeoutMs);
      else this.#end(pair);
    }
    return nextMs;
  }
}
