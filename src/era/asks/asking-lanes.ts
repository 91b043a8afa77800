import type { SupervisedLane } from "../../lane/pooled-lane.ts";
import { addLoads, type LaneLoad } from "../../lane/lane-load.ts";
import { UNUSED_MS } from "../../lane/places.ts";
import type { HeldRequest } from "../../lane/queue/held-until-ready.ts";
import type { Lane } from "../../lane/lane.ts";
import type { MemoryHolder } from "../../memory/memory-budget.ts";
import type { Defects } from "../../observability/defects.ts";
import type { Log } from "../../observability/log.ts";
import type { SidecarError } from "../../errors.ts";
import type { Caller } from "../../sessions/caller.ts";
import { DeadlineSweep } from "../../timing/deadline-sweep.ts";
import type { KnownParams } from "../checks/known-params.ts";
import { type AskKinds, countKinds, isSubset, nameOf } from "./ask-kinds.ts";
import type { AskingRouting } from "./asking-routing.ts";

/** The number of different sets of capabilities that have servers. Clients with another one use the largest set that is a part of it. */
const MAX_SETS = 4;
/** The number of servers of a set up to which a client gets another one, because a server may still work on a cancelled call of others. */
const MAX_CLEAN = 4;
/** The time without use after which a server may make room, if its set has another one. */
const SPARE_MS = 5000;

/** A lane whose server may ask its clients. */
export interface AskingLane extends SupervisedLane {
  readonly routing: AskingRouting;
  readonly params: KnownParams;
}

export interface AskingLanesOptions {
  /** Starts a server that is offered these questions. @param onChanged called when it is free for other calls, or no longer is. */
  readonly start: (name: string, kinds: AskKinds, onChanged: () => void) => AskingLane;
  readonly maxServers: number;
  /** The time without use after which a server ends. */
  readonly idleTimeoutMs: number;
  readonly defects: Pick<Defects, "guard">;
  readonly log: Log;
  readonly nowMs: () => number;
}

interface Server {
  readonly name: string;
  readonly kinds: AskKinds;
  readonly asking: AskingLane;
  lastUsedAtMs: number;
}

/**
 * The lanes of a server with sessions for clients that can answer its questions. A server learns only once, in its handshake, which
 * questions it may ask. So each set of capabilities has servers of its own, from its first request on. Its clients share one of them. While
 * that one waits for the answer of a client, the others use another one.
 */
export class AskingLanes {
  readonly #options: AskingLanesOptions;
  /** The most recently used one first. */
  #servers: Server[] = [];
  readonly #stopping = new Set<Server>();
  readonly #idle: DeadlineSweep;
  #lastNumber = 0;
  #isDraining = false;
  #unattributed = 0;

  constructor(options: AskingLanesOptions) {
    this.#options = options;
    this.#idle = new DeadlineSweep(options.nowMs, options.defects, (nowMs) => this.#endIdle(nowMs));
  }

  get size(): number {
    return this.#servers.length + this.#stopping.size;
  }

  /** The number of questions that could not be assigned to a call. */
  get unattributed(): number {
    return this.#servers.reduce((sum, { asking }) => sum + asking.routing.unattributed, this.#unattributed);
  }

  /** The load by the name of the capabilities. */
  get load(): Readonly<Record<string, LaneLoad & { readonly servers: number }>> {
    const byName = Map.groupBy(this.#servers, ({ kinds }) => nameOf(kinds));
    const entries = [...byName].map(([name, servers]) => {
      return [name, { servers: servers.length, ...addLoads(servers.map(({ asking }) => asking.lane.load)) }] as const;
    });
    return Object.fromEntries(entries);
  }

  /**
   * Finds a server for a client that declares these questions. Waits until one is ready and free.
   *
   * @param onFound called with undefined if no server may ask one of these questions.
   */
  find(
    wanted: AskKinds,
    request: Pick<HeldRequest, "owner" | "exchange" | "request">,
    onFound: (lane: AskingLane | undefined) => void,
    onFailed: (error: SidecarError) => void,
  ): void {
    const kinds = this.#servedKinds(wanted);
    // A discovery is answered from the handshake.
    const known = request.request.method === "server/discover" ? this.#of(kinds).find(hasHandshake) : undefined;
    const server = known ?? (kinds === 0 ? undefined : this.#choose(kinds, request.owner));
    if (server === undefined) return onFound(undefined);
    server.lastUsedAtMs = this.#options.nowMs();
    const { lane, routing } = server.asking;
    if (known !== undefined || (hasHandshake(server) && routing.isFree)) return onFound(server.asking);
    lane.whenReady({ ...request, onReady: () => this.find(wanted, request, onFound, onFailed), onFailed });
  }

  /** Removes the state of a caller. */
  endCaller(caller: Caller): void {
    for (const lane of this.#lanes()) lane.endCaller(caller);
  }

  /** Rejects unsent requests of a client until this much memory is free. @returns the bytes that are free. */
  freeUnsent(bytes: number, holder: MemoryHolder): number {
    let freeBytes = 0;
    for (const lane of this.#lanes()) if (freeBytes < bytes) freeBytes += lane.freeUnsent(bytes - freeBytes, holder);
    return freeBytes;
  }

  async drain(): Promise<void> {
    this.#isDraining = true;
    await Promise.all(this.#lanes().map((lane) => lane.drain()));
  }

  /** Takes bounded time. Never rejects. */
  async stop(): Promise<void> {
    this.#isDraining = true;
    this.#idle.close();
    for (const lane of this.#lanes()) lane.close();
    await Promise.all([...this.#servers, ...this.#stopping].map(({ asking }) => asking.stop()));
  }

  kill(): void {
    this.#isDraining = true;
    for (const { asking } of [...this.#servers, ...this.#stopping]) asking.kill();
  }

  #lanes(): Lane[] {
    return this.#servers.map(({ asking }) => asking.lane);
  }

  /** Returns the set that serves a client: its own, or else the largest part of it; 0 if there is none. */
  #servedKinds(wanted: AskKinds): AskKinds {
    const served = new Set(this.#servers.map(({ kinds }) => kinds));
    if (served.has(wanted)) return wanted;
    if (!this.#isDraining && (served.size < MAX_SETS || this.#endUnusedSet(served)) && this.#makePlace()) return wanted;
    return [...served].filter((kinds) => isSubset(kinds, wanted)).toSorted((a, b) => countKinds(b) - countKinds(a))[0] ?? 0;
  }

  /** Ends an unused server if all places are taken. @returns false if all servers are in use. */
  #makePlace(): boolean {
    const { maxServers, nowMs } = this.#options;
    if (this.#servers.length < maxServers) return true;
    const atMs = nowMs();
    const unused = this.#servers.findLast((server) => {
      const unusedMs = this.#of(server.kinds).length > 1 ? SPARE_MS : UNUSED_MS;
      return !isInUse(server) && server.lastUsedAtMs <= atMs - unusedMs;
    });
    if (unused !== undefined) this.#end(unused, "room for another one");
    return unused !== undefined;
  }

  /** Ends the servers of a set that no client has used for long. @returns false if there is none. */
  #endUnusedSet(served: ReadonlySet<AskKinds>): boolean {
    const beforeMs = this.#options.nowMs() - UNUSED_MS;
    const unused = [...served].find((kinds) => this.#of(kinds).every((each) => !isInUse(each) && each.lastUsedAtMs <= beforeMs));
    if (unused === undefined) return false;
    for (const server of this.#of(unused)) this.#end(server, "room for another one");
    return true;
  }

  #of(kinds: AskKinds): Server[] {
    return this.#servers.filter((server) => server.kinds === kinds);
  }

  /** Returns a free server, and starts one if there is none; else the one that was used last. */
  #choose(kinds: AskKinds, caller: Caller): Server | undefined {
    const servers = this.#of(kinds);
    const free = servers.filter(({ asking }) => asking.routing.isFree);
    const best = free.find(({ asking }) => !asking.routing.mayWorkForOthers(caller)) ?? this.#startAnother(kinds, free);
    const chosen = best ?? free[0] ?? servers[0];
    if (chosen !== undefined) this.#servers = [chosen, ...this.#servers.filter((each) => each !== chosen)];
    return chosen;
  }

  /** Starts a server beside others that wait for answers, or may still work on cancelled calls of others. */
  #startAnother(kinds: AskKinds, free: readonly Server[]): Server | undefined {
    if (this.#isDraining) return undefined;
    // One that only works on cancelled calls is replaced.
    const replaced = free.length >= MAX_CLEAN ? free.findLast((server) => !isInUse(server)) : undefined;
    if (replaced !== undefined) this.#end(replaced, "it may work on cancelled calls");
    return (free.length < MAX_CLEAN || replaced !== undefined) && this.#makePlace() ? this.#start(kinds) : undefined;
  }

  #start(kinds: AskKinds): Server {
    const { start, idleTimeoutMs, nowMs } = this.#options;
    const name = `asking-${++this.#lastNumber}`;
    const asking = start(name, kinds, () => this.#onChanged(kinds));
    const server = { name, kinds, asking, lastUsedAtMs: nowMs() };
    this.#servers.push(server);
    this.#idle.watch(nowMs() + idleTimeoutMs);
    // RESTART_LIMIT is reached. The next request starts another process.
    void asking.ended.then(() => {
      if (!this.#isDraining) this.#end(server, "server ended");
    });
    return server;
  }

  /** A server has become free, or waits for an answer. The requests that wait for one of its set look again. */
  #onChanged(kinds: AskKinds): void {
    setImmediate(() => {
      for (const { asking } of this.#of(kinds)) this.#options.defects.guard("question", () => asking.routing.releaseHeld());
    });
  }

  #end(server: Server, reason: string): void {
    if (!this.#servers.includes(server)) return;
    this.#servers = this.#servers.filter((each) => each !== server);
    this.#stopping.add(server);
    this.#unattributed += server.asking.routing.unattributed;
    this.#options.log.info({ lane: server.name, reason }, "lane ended");
    const { lane, routing } = server.asking;
    // Subscriptions end gracefully: their clients can open them at another server.
    this.#options.defects.guard("lane end", () => routing.onRestarted(undefined));
    this.#options.defects.guard("lane end", () => lane.close("server lost"));
    void server.asking.stop().then(() => this.#stopping.delete(server));
  }

  #endIdle(nowMs: number): number {
    const { idleTimeoutMs } = this.#options;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const server of this.#servers) {
      if (isInUse(server)) server.lastUsedAtMs = nowMs;
      const dueAtMs = server.lastUsedAtMs + idleTimeoutMs;
      if (dueAtMs > nowMs) nextMs = Math.min(nextMs, dueAtMs);
      else this.#end(server, "idle");
    }
    return nextMs;
  }
}

function hasHandshake({ asking }: Server): boolean {
  return asking.lane.lastHandshake !== undefined;
}

function isInUse({ asking: { lane, routing } }: Server): boolean {
  const { requestsInFlight, waiting } = lane.load;
  return requestsInFlight > 0 || waiting > 0 || !routing.isFree || routing.hasListeners;
}
