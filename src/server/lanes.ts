import type { Config } from "../config/load.ts";
import type { Context } from "../context.ts";
import type { SidecarError } from "../mcp/errors.ts";
import { type RequestMessage, Slot } from "../mcp/message.ts";
import { type MemoryAccount, type MemoryHolder, type Reservation, textMemoryBytes } from "../memory.ts";
import type { Session } from "../session/session.ts";
import type { SessionStore } from "../session/store.ts";
import type { SessionStreams } from "../session/streams.ts";
import { Timer } from "../timers.ts";
import { addLoads, type LaneLoad } from "./call.ts";
import { initializeTooLarge, noPrivateServerLeft, shuttingDown } from "./failures.ts";
import type { Lane } from "./lane.ts";
import type { Routing } from "./routing.ts";

export interface SupervisedLane<Routed extends Routing = Routing> {
  readonly lane: Lane<Routed>;
  /** Resolves when the server has exited and will not be restarted. Never rejects. */
  readonly ended: Promise<unknown>;
  /** Terminates the server. Takes bounded time; never rejects. */
  stop(): Promise<void>;
}

/** A lane in the pool. Its users are clients, from their `initialize` to the end of their session. */
export class PooledLane {
  readonly supervised: SupervisedLane;
  readonly sessions = new Set<Session>();
  readonly #onUnused: () => void;
  #users = 1;

  /** Its creator is the first user. @param onUnused called when the last user has released the lane. */
  constructor(supervised: SupervisedLane, onUnused: () => void) {
    this.supervised = supervised;
    this.#onUnused = onUnused;
  }

  acquire(): this {
    this.#users++;
    return this;
  }

  /** Opens the session of a user. @param initialize the request that it began with. */
  open(session: Session, initialize: RequestMessage): void {
    this.sessions.add(session);
    this.supervised.lane.addSession(session, initialize);
  }

  /** Removes a user whose session has ended, or who has got none. To be called once for each. */
  release(session?: Session): void {
    if (session !== undefined) this.sessions.delete(session);
    this.#users--;
    if (this.#users === 0) this.#onUnused();
  }
}

/**
 * The time after its last sign of life in which a client that has sent no request keeps its server. The first request follows the
 * response to `initialize` by a round trip, which takes seconds only on a very busy machine.
 */
const FIRST_REQUEST_MS = 5000;
/** The time after which a client without request and stream may lose its server. A person reads and types meanwhile. */
export const UNUSED_MS = 60_000;

/** Returns the session whose server makes room for a new client: one that was never used, else the one that was unused for longest. */
function findSessionToEnd(sessions: Iterable<Session>, nowMs: number): Session | undefined {
  const [first] = [...sessions]
    .filter((session) => dueInMs(session, nowMs) <= 0)
    .sort((a, b) => Number(a.hasCalled) - Number(b.hasCalled) || a.lastUsedAtMs - b.lastUsedAtMs);
  return first;
}

/** Returns the shortest time until a session may have to end for a new client. The end of its use is not foreseeable. */
function dueInMs({ isInUse, hasCalled, lastUsedAtMs }: Session, nowMs: number): number {
  if (isInUse) return UNUSED_MS;
  return lastUsedAtMs + (hasCalled ? UNUSED_MS : FIRST_REQUEST_MS) - nowMs;
}

/** Returns the shortest time until one of these lanes may be free for a new client. */
function placeFreeInMs(lanes: Iterable<Pick<PooledLane, "sessions">>, idleTimeoutMs: number, nowMs: number): number {
  let freeInMs = Math.min(UNUSED_MS, idleTimeoutMs);
  for (const { sessions } of lanes) {
    // The session of a server that starts may remain unused.
    if (sessions.size === 0) freeInMs = Math.min(freeInMs, FIRST_REQUEST_MS);
    for (const session of sessions) {
      const idleInMs = session.isInUse ? idleTimeoutMs : session.lastUsedAtMs + idleTimeoutMs - nowMs;
      freeInMs = Math.min(freeInMs, idleInMs, dueInMs(session, nowMs));
    }
  }
  return freeInMs;
}

/** The capabilities that let a server send requests to its client. Such a server must have exactly one client. */
const ASKABLE_CAPABILITIES = [Slot.sampling, Slot.elicitation, Slot.roots];

/** True if the client that sends this `initialize` gets its own server. */
export function needsOwnServer({ outline }: RequestMessage, isolation: Config["isolation"]): boolean {
  if (isolation !== "auto") return isolation === "session";
  return ASKABLE_CAPABILITIES.some((slot) => outline.has(slot));
}

/** The limit for the `initialize` of a client with a private server. It is kept in memory for the next start of that server. */
const MAX_KEPT_BYTES = 256 * 1024;

const SHARED = "shared";

/** The client of a private server. */
export interface PrivateClient {
  readonly streams: SessionStreams;
  readonly memory: MemoryAccount;
  /** True if the client has initialized its session at another replica, so that it does not send `notifications/initialized` again. */
  readonly isTakenUp: boolean;
}

type CreatePrivate = (name: string, initialize: RequestMessage, client: PrivateClient, start: Promise<void> | undefined) => SupervisedLane;

/** The pool of lanes: the shared lane, and a private lane for each client that needs its own server. */
export class Lanes {
  readonly #context: Context;
  /** The lane whose server runs from the start to the end. */
  readonly shared: SupervisedLane;
  readonly #isStateless: () => boolean | undefined;
  readonly #createPrivate: CreatePrivate;
  readonly #sessions: SessionStore;
  /** By name. Includes lanes whose server is still stopping: its process counts until it has exited. */
  readonly #lanes = new Map<string, PooledLane>();
  readonly #ending = new Set<PooledLane>();
  /** The lanes whose server starts when another one has exited, in the order of their clients, with the function that starts it. */
  readonly #waiting = new Map<PooledLane, () => void>();
  #lastNumber = 0;

  /**
   * @param isStateless true if the shared server keeps no state of any client, so that all clients share it. Undefined until that is known.
   * @param createPrivate creates the lane of one client. Its server gets the client's `initialize`, and starts at once, or when `start` resolves.
   */
  constructor(
    context: Context,
    shared: SupervisedLane,
    isStateless: () => boolean | undefined,
    createPrivate: CreatePrivate,
    sessions: SessionStore,
  ) {
    this.#context = context;
    this.shared = shared;
    this.#isStateless = isStateless;
    this.#createPrivate = createPrivate;
    this.#sessions = sessions;
    // Its first user is the pool, so it never ends.
    this.#lanes.set(SHARED, new PooledLane(shared, () => undefined));
  }

  get load(): { readonly shared: SupervisedLane["lane"]["calls"]["load"]; readonly private: LaneLoad & { readonly servers: number } } {
    const loads = this.#private().map(({ supervised }) => supervised.lane.calls.load);
    return { shared: this.shared.lane.calls.load, private: { servers: this.#serverCount, ...addLoads(loads) } };
  }

  /** True if a client with this `initialize` gets its own server, as far as that is known. */
  isPrivate(initialize: RequestMessage): boolean {
    return this.#isStateless() !== true && needsOwnServer(initialize, this.#context.config.isolation);
  }

  /** True if `isPrivate` is known to be right. */
  isDecided(initialize: RequestMessage): boolean {
    return !needsOwnServer(initialize, this.#context.config.isolation) || this.#isStateless() !== undefined;
  }

  /** Returns the error if a client with this `initialize` can get no lane now. */
  refusal(initialize: RequestMessage): SidecarError | undefined {
    const { config, draining, kill, nowMs } = this.#context;
    const isPrivate = this.isPrivate(initialize);
    if (isPrivate && Buffer.byteLength(initialize.text) > MAX_KEPT_BYTES) return initializeTooLarge(MAX_KEPT_BYTES);
    if (draining.aborted || kill.aborted) return shuttingDown("initialize", false);
    if (!isPrivate || !this.#isFull || findSessionToEnd(this.#privateSessions(), nowMs()) !== undefined) return undefined;
    return noPrivateServerLeft(config.maxPrivateServers, placeFreeInMs(this.#private(), config.sessionIdleTimeoutMs, nowMs()));
  }

  /**
   * Returns the lane for a client with this `initialize`; starts its server if there is none. If all places are taken, a session ends to
   * make room, and the new server starts when the other one has exited. The client must be admitted by `refusal`.
   */
  acquire(initialize: RequestMessage, client: PrivateClient): PooledLane {
    const { config, nowMs, timers } = this.#context;
    const name = this.isPrivate(initialize) ? `private-${++this.#lastNumber}` : SHARED;
    const existing = this.#lanes.get(name);
    if (existing !== undefined) return existing.acquire();
    const ending = this.#isFull ? findSessionToEnd(this.#privateSessions(), nowMs()) : undefined;
    if (ending !== undefined) this.#evict(ending, "room for a new client");
    const start = this.#hasPlace ? undefined : Promise.withResolvers<void>();
    // The server gets it again at each start.
    const kept = client.memory.hold("requests", textMemoryBytes(initialize.text));
    const supervised = this.#createPrivate(name, initialize, client, start?.promise);
    const idle = new Timer(timers, (atMs) => this.#endIfIdle(pooled, idle, atMs));
    const end = (): void => {
      idle.clear();
      void this.#end(name, pooled, kept);
    };
    const pooled = new PooledLane(supervised, end);
    this.#lanes.set(name, pooled);
    if (start !== undefined) this.#waiting.set(pooled, start.resolve);
    idle.set(nowMs() + config.sessionIdleTimeoutMs);
    void supervised.ended.then(end);
    return pooled;
  }

  /** Rejects unsent requests of a client until this much memory is free. @returns the bytes that are free. */
  freeUnsent(bytes: number, holder: MemoryHolder): number {
    let freeBytes = 0;
    for (const { lane } of this.#all()) if (freeBytes < bytes) freeBytes += lane.freeUnsent(bytes - freeBytes, holder);
    return freeBytes;
  }

  /** Ends GET streams, and resolves when the last request in flight has ended. */
  async drain(): Promise<void> {
    for (const { sessions } of this.#lanes.values()) for (const { streams } of sessions) streams.endStandalone();
    await Promise.all(this.#all().map(({ lane }) => lane.calls.whenEmpty()));
  }

  /** Fails all requests that are in flight or queued, and terminates all servers. Takes bounded time. */
  async stop(): Promise<void> {
    for (const { lane } of this.#all()) lane.close();
    await Promise.all(this.#all().map((supervised) => supervised.stop()));
  }

  /** Never rejects: a defect of one session or lane must not keep the server running. */
  async #end(name: string, pooled: PooledLane, kept: Reservation): Promise<void> {
    if (this.#ending.has(pooled)) return;
    this.#ending.add(pooled);
    this.#waiting.delete(pooled);
    const { defects } = this.#context;
    // The lane still has sessions if its server ended by itself. They can never get another response.
    for (const session of pooled.sessions) defects.guard("session end", () => this.#sessions.end(session));
    defects.guard("lane end", () => pooled.supervised.lane.close());
    await pooled.supervised.stop();
    kept.release();
    this.#lanes.delete(name);
    this.#ending.delete(pooled);
    this.#startWaiting();
  }

  /** The number of private server processes, those that are stopping included. */
  get #serverCount(): number {
    // The pool always has the shared lane.
    return this.#lanes.size - 1 - this.#waiting.size;
  }

  get #hasPlace(): boolean {
    return this.#serverCount < this.#context.config.maxPrivateServers;
  }

  /** True if clients have or await all places. The place of a server that is stopping goes to the next client. */
  get #isFull(): boolean {
    return this.#lanes.size - 1 - this.#ending.size >= this.#context.config.maxPrivateServers;
  }

  #startWaiting(): void {
    for (const [pooled, start] of this.#waiting) {
      if (!this.#hasPlace || this.#context.draining.aborted) return;
      this.#waiting.delete(pooled);
      start();
    }
  }

  /** Ends the session of a private server if it was not used for long. @param idle its timer. */
  #endIfIdle({ sessions }: PooledLane, idle: Timer, nowMs: number): void {
    const [session] = sessions;
    // A request to a disconnected client does not count as use: a server that keeps sending requests would never stop.
    if (session?.isInUse === true) session.touch(nowMs);
    // The session may be opened at any time.
    const dueAtMs = (session?.lastUsedAtMs ?? nowMs) + this.#context.config.sessionIdleTimeoutMs;
    if (session === undefined || dueAtMs > nowMs) idle.set(dueAtMs);
    else this.#evict(session, "idle");
  }

  #evict(session: Session, reason: string): void {
    const [lane] = [...this.#lanes].find(([, { sessions }]) => sessions.has(session)) ?? [];
    this.#context.log.info({ lane, reason }, "session ended");
    this.#sessions.evict(session);
  }

  #all(): SupervisedLane[] {
    return [...this.#lanes.values()].map(({ supervised }) => supervised);
  }

  *#privateSessions(): Generator<Session> {
    for (const { sessions } of this.#private()) yield* sessions;
  }

  #private(): PooledLane[] {
    return [...this.#lanes.values()].filter(({ supervised }) => supervised !== this.shared);
  }
}
