import type { Context } from "../context.ts";
import { type AskKinds, nameOf } from "../mcp/capabilities.ts";
import type { SidecarError } from "../mcp/errors.ts";
import type { MemoryHolder } from "../memory.ts";
import { Timer } from "../timers.ts";
import { serversPerClient } from "./asking-calls.ts";
import type { AskingRouting } from "./asking-routing.ts";
import { addLoads, type LaneLoad } from "./call.ts";
import type { HeldRequest } from "./calls.ts";
import { noPrivateServerLeft, shuttingDown } from "./failures.ts";
import type { Lane } from "./lane.ts";
import { UNUSED_MS } from "./lanes.ts";
import type { EraLane, Target } from "./stateless-client.ts";

/** The time without use after which a server may make room, if its client has the most of them, and more than one. */
const SPARE_MS = 5000;

interface Server {
  readonly name: string;
  /** The only client of the process, from its start to its end. */
  readonly holder: MemoryHolder;
  readonly kinds: AskKinds;
  readonly asking: EraLane<AskingRouting>;
  lastUsedAtMs: number;
  readonly idle: Timer;
}

/**
 * The lanes of a server with sessions for clients that can answer its questions. A question does not name its call, so a process that may
 * ask serves one client for its life. It learns only once, in its handshake, which questions it may ask. So each client has a process for
 * each set of capabilities that it declares. While one waits for the answer of its client, other calls of this client use another one. No
 * client may have more than half of all processes.
 */
export class AskingLanes {
  readonly #context: Context;
  readonly #startLane: (name: string, kinds: AskKinds, onChanged: () => void) => EraLane<AskingRouting>;
  /** The most recently used one first. */
  #servers: Server[] = [];
  readonly #stopping = new Set<Server>();
  #lastNumber = 0;
  #isStopping = false;
  #unattributed = 0;

  /** @param startLane starts a server that is offered these questions. `onChanged` is called when it is free for other calls, or no longer is. */
  constructor(context: Context, startLane: (name: string, kinds: AskKinds, onChanged: () => void) => EraLane<AskingRouting>) {
    this.#context = context;
    this.#startLane = startLane;
  }

  get size(): number {
    return this.#servers.length + this.#stopping.size;
  }

  get lanes(): Lane[] {
    return this.#servers.map(({ asking }) => asking.lane);
  }

  /** The number of questions that could not be assigned to a call. */
  get unattributed(): number {
    return this.#servers.reduce((sum, { asking }) => sum + asking.lane.routing.unattributed, this.#unattributed);
  }

  /** The load by the name of the capabilities. */
  get load(): Readonly<Record<string, LaneLoad & { readonly servers: number }>> {
    const byName = Map.groupBy(this.#servers, ({ kinds }) => nameOf(kinds));
    const entries = [...byName].map(([name, servers]) => {
      return [name, { servers: servers.length, ...addLoads(servers.map(({ asking }) => asking.lane.calls.load)) }] as const;
    });
    return Object.fromEntries(entries);
  }

  /** Finds a server for a client that declares these questions. Waits until one is ready and free. */
  find(kinds: AskKinds, request: HeldRequest, onFound: (target: Target) => void, onFailed: (error: SidecarError) => void): void {
    const { holder } = request.owner.memory;
    const { method } = request.request;
    // A discovery is answered from the handshake.
    const known =
      method === "server/discover"
        ? this.#of(holder, kinds).find(({ asking }) => asking.lane.calls.lastHandshake !== undefined)
        : undefined;
    const server = known ?? this.#choose(holder, kinds);
    if (server === undefined) return onFailed(this.#isEnding ? shuttingDown(method, false) : this.#noServerLeft(holder));
    server.lastUsedAtMs = this.#context.nowMs();
    const { lane, params } = server.asking;
    const handshake = lane.calls.lastHandshake;
    if (handshake !== undefined && (known !== undefined || lane.routing.isFree)) return onFound({ lane, params, handshake });
    lane.whenReady(request, () => this.find(kinds, request, onFound, onFailed), onFailed);
  }

  /** Ends the servers of a client whose token was removed. */
  endAllOf(holder: MemoryHolder): void {
    for (const server of this.#servers) if (server.holder === holder) this.#end(server, "token removed");
  }

  /** Takes bounded time. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const { idle } of this.#servers) idle.clear();
    for (const lane of this.lanes) lane.close();
    await Promise.all([...this.#servers, ...this.#stopping].map(({ asking }) => asking.stop()));
  }

  /** True if no more servers start. */
  get #isEnding(): boolean {
    const { draining, kill } = this.#context;
    return this.#isStopping || draining.aborted || kill.aborted;
  }

  #of(holder: MemoryHolder, kinds: AskKinds): Server[] {
    return this.#servers.filter((server) => server.holder === holder && server.kinds === kinds);
  }

  /** Returns a free server of a client, and starts one if there is none; else the one that was used last. Undefined if there is no place. */
  #choose(holder: MemoryHolder, kinds: AskKinds): Server | undefined {
    const servers = this.#of(holder, kinds);
    const free = servers.find(({ asking }) => asking.lane.routing.isFree);
    const chosen = free ?? (this.#makePlace(holder) ? this.#start(holder, kinds) : servers[0]);
    if (chosen !== undefined) this.#servers = [chosen, ...this.#servers.filter((each) => each !== chosen)];
    return chosen;
  }

  /**
   * Ends an unused server if all places are taken, or all that this client may have.
   *
   * @returns false if all servers are in use.
   */
  #makePlace(holder: MemoryHolder): boolean {
    if (this.#isEnding) return false;
    if (!this.#hasShare(holder) && this.#servers.length < this.#context.config.maxPrivateServers) return true;
    const unused = this.#candidates(holder).findLast(({ inMs }) => inMs <= 0)?.server;
    if (unused !== undefined) this.#end(unused, "room for another one");
    return unused !== undefined;
  }

  /** Returns the servers that may end for another one of this client, each with the time until then, as far as it is foreseeable. */
  #candidates(holder: MemoryHolder): { readonly server: Server; readonly inMs: number }[] {
    const counts = new Map<MemoryHolder, number>();
    for (const server of this.#servers) counts.set(server.holder, (counts.get(server.holder) ?? 0) + 1);
    const most = Math.max(2, ...counts.values());
    const atMs = this.#context.nowMs();
    const unusedInMs = (server: Server): number =>
      isInUse(server) ? UNUSED_MS : server.lastUsedAtMs + (counts.get(server.holder) === most ? SPARE_MS : UNUSED_MS) - atMs;
    const servers = this.#hasShare(holder) ? this.#servers.filter((server) => server.holder === holder) : this.#servers;
    return servers.map((server) => ({ server, inMs: unusedInMs(server) }));
  }

  #hasShare(holder: MemoryHolder): boolean {
    return this.#servers.filter((server) => server.holder === holder).length >= serversPerClient(this.#context.config.maxPrivateServers);
  }

  #noServerLeft(holder: MemoryHolder): SidecarError {
    const maxServers = this.#context.config.maxPrivateServers;
    const freeInMs = Math.min(...this.#candidates(holder).map(({ inMs }) => inMs));
    return noPrivateServerLeft(maxServers, freeInMs, this.#hasShare(holder) ? serversPerClient(maxServers) : undefined);
  }

  #start(holder: MemoryHolder, kinds: AskKinds): Server {
    const { config, nowMs, timers } = this.#context;
    const name = `asking-${++this.#lastNumber}`;
    const asking = this.#startLane(name, kinds, () => this.#onChanged(holder, kinds));
    const idle = new Timer(timers, (atMs) => this.#endIfIdle(server, atMs));
    const server: Server = { name, holder, kinds, asking, lastUsedAtMs: nowMs(), idle };
    this.#servers.push(server);
    idle.set(nowMs() + config.sessionIdleTimeoutMs);
    // RESTART_LIMIT is reached. The next request starts another process.
    void asking.ended.then(() => {
      if (!this.#isEnding) this.#end(server, "server ended");
    });
    return server;
  }

  /** A server has become free, or waits for an answer. The requests of its client that wait for one look again. */
  #onChanged(holder: MemoryHolder, kinds: AskKinds): void {
    setImmediate(() => {
      for (const { asking } of this.#of(holder, kinds)) this.#context.defects.guard("question", () => asking.lane.calls.releaseWaiting());
    });
  }

  #end(server: Server, reason: string): void {
    if (!this.#servers.includes(server)) return;
    this.#servers = this.#servers.filter((each) => each !== server);
    this.#stopping.add(server);
    server.idle.clear();
    this.#unattributed += server.asking.lane.routing.unattributed;
    this.#context.log.info({ lane: server.name, reason }, "lane ended");
    const { lane } = server.asking;
    // Subscriptions end gracefully: their clients can open them at another server.
    this.#context.defects.guard("lane end", () => lane.routing.onRestarted(undefined));
    this.#context.defects.guard("lane end", () => lane.close("server lost"));
    void server.asking.stop().then(() => this.#stopping.delete(server));
  }

  #endIfIdle(server: Server, nowMs: number): void {
    if (isInUse(server)) server.lastUsedAtMs = nowMs;
    const dueAtMs = server.lastUsedAtMs + this.#context.config.sessionIdleTimeoutMs;
    if (dueAtMs > nowMs) server.idle.set(dueAtMs);
    else this.#end(server, "idle");
  }
}

function isInUse({ asking: { lane } }: Server): boolean {
  const { requestsInFlight, waiting } = lane.calls.load;
  return requestsInFlight > 0 || waiting > 0 || !lane.routing.isFree || lane.routing.state.hasListeners;
}
