import type { Config } from "../config/load.ts";
import type { Context } from "../context.ts";
import { textOf } from "../json/read.ts";
import { shorten } from "../json/text.ts";
import { type AskKinds, canBeAsked, capabilitiesOf, nameOf, offeredKinds, questionCapabilities } from "../mcp/capabilities.ts";
import { describeError, SidecarError } from "../mcp/errors.ts";
import { type RequestMessage, Slot } from "../mcp/message.ts";
import { initializeOf } from "../mcp/translate.ts";
import { type MemoryHolder, type Reservation, serversPerClient, textMemoryBytes } from "../memory.ts";
import type { ClientInfo } from "../process/handshake.ts";
import type { ServerEra, UpstreamHandshake, UpstreamObserver } from "../process/port.ts";
import type { Supervisor, SupervisorFailure } from "../process/supervisor.ts";
import type { Session } from "../session/session.ts";
import type { SessionStore } from "../session/store.ts";
import type { SessionStreams } from "../session/streams.ts";
import { RateLimit, Timer } from "../timers.ts";
import { addLoads, type LaneLoad } from "./call.ts";
import type { HeldRequest } from "./calls.ts";
import { initializeTooLarge, noPrivateServerLeft, sessionRateExceeded, shuttingDown, tooManySessions } from "./failures.ts";
import type { KnownParams } from "./known-params.ts";
import type { Lane } from "./lane.ts";

/** See docs/ARCHITECTURE.md, servers. */
export type Profile =
  | { readonly kind: "shared" | "modern"; readonly holder?: undefined }
  | { readonly kind: "asking"; readonly holder: MemoryHolder; readonly offered: AskKinds }
  | {
      readonly kind: "private";
      readonly holder: MemoryHolder;
      readonly initialize: RequestMessage;
      readonly streams: SessionStreams;
      /** Sessions with equal terms share the server until it asks. Undefined if it is not shared. */
      readonly terms: Parameters<typeof initializeOf>[0] | undefined;
    };

/** @param era of the shared server, and of a second process; undefined until it is known. */
export function kindOfServer(
  isolation: Config["isolation"],
  era: { readonly shared?: ServerEra | undefined; readonly second?: ServerEra | undefined },
  client: "session" | "request",
  isAskable: boolean,
): Profile["kind"] {
  // A server without sessions keeps nothing of a client, and its questions are results of calls.
  if (isolation === "shared" || era.shared === "modern") return "shared";
  // A question does not name its call. So a process that may ask has one client for its life.
  if (client === "session") return isolation === "session" || isAskable ? "private" : "shared";
  if (era.shared === undefined) return "shared";
  if (era.second !== "legacy") return "modern";
  return isAskable ? "asking" : "shared";
}

/** A server without request and stream may end for another client after this time, in which a person reads and types. */
const UNUSED_MS = 60_000;
/** A server whose client has sent no request yet, or can use another one, may end after this time. */
const SPARE_MS = 5000;
/** Only the first session uses a private server for this time after the handshake. Most servers that ask do so at once. */
const FIRST_SESSION_MS = 1000;
/** A session that shares a server must be able to go on at another one, so its id must have room for its capabilities. */
const MAX_CAPABILITIES_BYTES = 256;
const MAX_KEPT_BYTES = 256 * 1024;

/** A lane with its supervisor and its users. It stays the same if the process restarts. */
export class PooledServer {
  readonly profile: Profile;
  readonly name: string;
  readonly lane: Lane;
  readonly params: KnownParams;
  readonly supervisor: Pick<Supervisor, "firstReady" | "run" | "status" | "stop">;
  readonly observers: UpstreamObserver[];
  /** Resolves to undefined when it is stopped. Rejects only because of a defect. */
  failed: Promise<SupervisorFailure | undefined> = Promise.resolve(undefined);
  state: "waiting" | "running" | "stopping" = "waiting";
  readonly sessions = new Set<Session>();
  /**
   * Which sessions it admits, if it is private:
   *
   * - `first`: the one that started it. Others wait.
   * - `all` of its client with the same terms.
   * - `one`: it has asked its only session, or has no terms.
   * - `none`: it asked after several sessions had used it, and ends after the calls in flight.
   */
  admits: "first" | "all" | "one" | "none";
  kept: Reservation | undefined;
  idle: Timer | undefined;
  opening: Timer | undefined;
  #usedAtMs = 0;

  constructor(
    profile: Profile,
    name: string,
    lane: Lane,
    params: KnownParams,
    supervisor: PooledServer["supervisor"],
    observers: PooledServer["observers"] = [],
  ) {
    [this.profile, this.name, this.lane, this.params] = [profile, name, lane, params];
    [this.supervisor, this.observers] = [supervisor, observers];
    this.admits = profile.kind === "private" && profile.terms !== undefined ? "first" : "one";
  }

  /** A request of the server to a disconnected client does not count as use: a server that keeps sending them would never stop. */
  get isInUse(): boolean {
    if (this.lane.isBusy) return true;
    if (this.profile.kind === "private") return this.sessions.values().some(({ isInUse }) => isInUse);
    return this.lane.routing.state.listeners.size > 0;
  }

  get usedAtMs(): number {
    return this.sessions.values().reduce((last, { lastUsedAtMs }) => Math.max(last, lastUsedAtMs), this.#usedAtMs);
  }

  use(nowMs: number): void {
    this.#usedAtMs = nowMs;
  }

  clearTimers(): void {
    this.idle?.clear();
    this.opening?.clear();
  }
}

/**
 * The servers of one command, by profile. The shared one gets `initialize` first. If it is of the legacy era, a second process gets
 * `server/discover` at the first request without a session. Some servers exit, are silent, or can never have a session after that (MCP
 * 2026-07-28, basic/transports/stdio). MAX_PRIVATE_SERVERS limits the others, which have one client each.
 */
export class Pool {
  readonly shared: PooledServer;
  readonly #context: Context;
  readonly #sessions: SessionStore;
  readonly #create: (profile: Profile, name: string) => PooledServer;
  readonly #clientInfoText: string;
  readonly #rate: RateLimit | undefined;
  /** In the order of their start. Each counts until its process has exited. */
  readonly #servers = new Set<PooledServer>();
  readonly #lastNumbers = { private: 0, asking: 0 };
  #modern: PooledServer | undefined;
  #secondEra: ServerEra | undefined;
  #hasBeenModern = false;
  /** When the verdict `legacy` ends, and the server is asked again. */
  #askAgainAtMs = Infinity;
  /** When a server asked a client first: RFC 3339 in UTC. */
  asksSince: string | null = null;
  #isStopping = false;

  constructor(context: Context, sessions: SessionStore, create: (profile: Profile, name: string) => PooledServer, clientInfo: ClientInfo) {
    [this.#context, this.#sessions, this.#create] = [context, sessions, create];
    this.#clientInfoText = JSON.stringify(clientInfo);
    const { childEra, isolation, sessionsPerMinute } = context.config;
    this.#rate = sessionsPerMinute === undefined ? undefined : new RateLimit(sessionsPerMinute);
    // With ISOLATION=shared, the shared process is the only one.
    this.#secondEra = childEra !== "auto" || isolation === "shared" ? "legacy" : undefined;
    this.shared = this.#start({ kind: "shared" });
  }

  /** The era for requests without a session; undefined until it is known. */
  get era(): ServerEra | undefined {
    const shared = this.shared.lane.calls.lastHandshake?.era;
    return shared === "legacy" ? this.#secondEra : shared;
  }

  get lanes(): Lane[] {
    return [...this.#servers].map(({ lane }) => lane);
  }

  get load() {
    const loadOf = (servers: readonly PooledServer[]): LaneLoad & { readonly servers: number } => ({
      servers: servers.filter(({ state }) => state !== "waiting").length,
      ...addLoads(servers.map(({ lane }) => lane.calls.load)),
    });
    const asking = Map.groupBy(this.#of("asking"), ({ profile }) => nameOf(profile.kind === "asking" ? profile.offered : 0));
    return {
      shared: this.shared.lane.calls.load,
      private: loadOf(this.#of("private")),
      modern: loadOf(this.#of("modern")),
      asking: Object.fromEntries([...asking].map(([name, servers]) => [name, loadOf(servers)])),
    };
  }

  get askingCount(): number {
    return this.#of("asking").length;
  }

  /** True if a client with this `initialize` gets its own server, as far as is known. */
  isPrivate(initialize: RequestMessage): boolean {
    return this.#kindFor("session", canBeAsked(initialize)) === "private";
  }

  isDecided(initialize: RequestMessage): boolean {
    return !this.isPrivate(initialize) || this.#sharedEra !== undefined || this.shared.supervisor.status().state === "failed";
  }

  /**
   * Nothing is started or evicted unless the session has a place.
   *
   * @param isLimited true if it counts for SESSIONS_PER_MINUTE.
   */
  acquire(initialize: RequestMessage, streams: SessionStreams, isLimited: boolean): PooledServer | SidecarError {
    const { config, nowMs } = this.#context;
    const { memory } = streams;
    const { holder } = memory;
    const isPrivate = this.isPrivate(initialize);
    if (isPrivate && Buffer.byteLength(initialize.text) > MAX_KEPT_BYTES) return initializeTooLarge(MAX_KEPT_BYTES);
    if (this.#isEnding) return shuttingDown();
    const running = isPrivate ? this.findJoinable(initialize, streams) : this.shared;
    const place = running === undefined ? this.#placeFor("private", holder) : undefined;
    if (place instanceof SidecarError) return place;
    if (!this.#sessions.hasRoomFor(holder)) return tooManySessions(this.#sessions.maxSessions);
    const waitMs = isLimited ? this.#rate?.take(nowMs()) : undefined;
    if (waitMs !== undefined) return sessionRateExceeded(config.sessionsPerMinute ?? 0, waitMs);
    if (running !== undefined) return running;
    if (place !== undefined) this.#evict(place, "room for a new client");
    const terms = this.#termsOf(initialize, streams.canResume);
    const shared = terms && initializeOf(terms);
    const own = shared ?? initialize;
    const server = this.#start({ kind: "private", holder, initialize: own, streams, terms: shared && terms });
    server.kept = memory.hold("requests", textMemoryBytes(own.text));
    return server;
  }

  findJoinable(initialize: RequestMessage, { canResume, memory }: Pick<SessionStreams, "canResume" | "memory">): PooledServer | undefined {
    const terms = this.isPrivate(initialize) ? this.#termsOf(initialize, canResume) : undefined;
    if (terms === undefined) return undefined;
    return [...this.#servers].find(({ admits, lane, profile, state }) => {
      if (profile.kind !== "private" || profile.holder !== memory.holder || state === "stopping") return false;
      if ((admits !== "first" && admits !== "all") || profile.terms?.capabilitiesText !== terms.capabilitiesText) return false;
      // The id of a session has the revision of the server, which may be an earlier one than its client has requested.
      return [profile.terms.protocolVersion, lane.calls.lastHandshake?.protocolVersion].includes(terms.protocolVersion);
    });
  }

  serverOf(session: Session): PooledServer | undefined {
    return this.#of("private").find(({ sessions }) => sessions.has(session));
  }

  /** @returns false if there are too many sessions. */
  addSession(server: PooledServer, session: Session, initialize: RequestMessage): boolean {
    const { lane, profile, sessions } = server;
    // The store may evict the only other session of this server, which must not end then.
    if (profile.kind === "private") sessions.add(session);
    if (!this.#sessions.add(session)) {
      sessions.delete(session);
      return false;
    }
    if (sessions.size > 1) lane.routing.share();
    lane.addSession(session, initialize);
    return true;
  }

  release(server: PooledServer, session?: Session): void {
    const { profile, sessions } = server;
    if (profile.kind !== "private") return;
    if (session !== undefined) sessions.delete(session);
    if (sessions.size === 0) void this.#end(server);
  }

  /**
   * A request without a session waits until the era is known and a server is ready and free.
   *
   * @param declared the questions that the client can answer.
   */
  find(
    held: HeldRequest,
    declared: AskKinds,
    onFound: (server: PooledServer, handshake: UpstreamHandshake) => void,
    onFailed: (error: SidecarError) => void,
  ): void {
    const server = this.#serverFor(held, declared);
    if (server instanceof SidecarError) return onFailed(server);
    const handshake = server.lane.calls.lastHandshake;
    if (handshake !== undefined && (server.lane.isFree || isDiscovery(held))) return onFound(server, handshake);
    const again = (): void => this.find(held, declared, onFound, onFailed);
    server.lane.whenReady(held, again, (error) => {
      // The end of a second process shows that the server is of the legacy era.
      if (server.profile.kind === "modern" && this.#secondEra === "legacy" && !this.#isKilled) again();
      else onFailed(error);
    });
  }

  /** Routes waiting requests again when a server that may ask them is free, or no longer is. */
  findAgain(holder: MemoryHolder, offered: AskKinds): void {
    setImmediate(() => {
      for (const { lane } of this.#asking(holder, offered)) lane.calls.releaseWaiting();
    });
  }

  endAllOf(holder: MemoryHolder): void {
    for (const server of this.#of("asking")) if (server.profile.holder === holder) this.#evict(server, "token removed");
  }

  *freeUnsent(holder: MemoryHolder): Generator<void> {
    for (const lane of this.lanes) yield* lane.freeUnsent(holder);
  }

  async drain(): Promise<void> {
    await Promise.all(this.lanes.map((lane) => lane.calls.whenEmpty()));
  }

  /** Takes bounded time; never rejects. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const server of this.#servers) {
      server.clearTimers();
      server.lane.context.defects.guard("stop", () => server.lane.close());
      server.kept?.release();
    }
    await Promise.allSettled([...this.#servers].map(({ supervisor }) => supervisor.stop()));
  }

  /** True if the end of a server shows nothing about it. */
  get #isKilled(): boolean {
    return this.#isStopping || this.#context.kill.aborted;
  }

  get #isEnding(): boolean {
    return this.#isKilled || this.#context.draining.aborted;
  }

  /** Only capabilities for which a server may ask are offered. @returns undefined for a session that shares no server. */
  #termsOf(initialize: RequestMessage, canResume: boolean): Parameters<typeof initializeOf>[0] | undefined {
    const protocolVersion = initialize.outline.stringAt(Slot.requestedVersion);
    const isLong = Buffer.byteLength(textOf(initialize.text, capabilitiesOf(initialize)) ?? "") > MAX_CAPABILITIES_BYTES;
    const isAlone = this.#context.config.isolation !== "auto" || this.asksSince !== null || !canResume || isLong;
    if (isAlone || protocolVersion === undefined) return undefined;
    return { protocolVersion, capabilitiesText: questionCapabilities(initialize), clientInfoText: this.#clientInfoText };
  }

  #onEvent(server: PooledServer, event: Parameters<UpstreamObserver>[0]): void {
    if (server.admits !== "first" || server.state !== "running") return;
    if (event !== "ready") return server.opening?.clear();
    server.opening?.set(this.#context.nowMs() + FIRST_SESSION_MS);
    // The `initialize` of other sessions is answered now.
    setImmediate(() => server.lane.calls.releaseWaiting());
  }

  /**
   * The sidecar does not guess which of several sessions a question is for. The server gets no more calls, and ends after those in flight.
   * Its sessions go on at servers of their own.
   */
  #onQuestion(server: PooledServer, { method }: RequestMessage): void {
    const { lane, sessions } = server;
    const { log, defects } = lane.context;
    if (this.asksSince === null) {
      log.info({ method: shorten(method) }, "mcp server asks its clients");
      this.asksSince = new Date().toISOString();
    }
    if (server.admits === "one" || server.admits === "none") return;
    server.opening?.clear();
    const release = (): void => defects.guard("question", () => this.#moveUnused(server));
    setImmediate(release);
    server.admits = lane.routing.isPrivate ? "one" : "none";
    if (server.admits === "one") return;
    log.warn({ count: sessions.size }, "sessions moved: the mcp server they shared has asked");
    for (const session of sessions) session.isMoving = true;
    // A response is sent after its call has ended.
    lane.calls.onChanged.push(() => setImmediate(release));
  }

  /** Sessions that move and have no calls are evicted: their next requests reopen them. */
  #moveUnused({ lane, sessions }: PooledServer): void {
    for (const session of sessions) if (session.isMoving && session.callsInFlight === 0) this.#sessions.evict(session);
    lane.calls.releaseWaiting();
  }

  #of(kind: Profile["kind"]): PooledServer[] {
    return [...this.#servers].filter(({ profile }) => profile.kind === kind);
  }

  get #sharedEra(): ServerEra | undefined {
    const { childEra } = this.#context.config;
    return this.shared.lane.calls.lastHandshake?.era ?? (childEra === "auto" ? undefined : childEra);
  }

  #kindFor(client: "session" | "request", isAskable: boolean): Profile["kind"] {
    return kindOfServer(this.#context.config.isolation, { shared: this.#sharedEra, second: this.#secondEra }, client, isAskable);
  }

  #serverFor(held: HeldRequest, declared: AskKinds): PooledServer | SidecarError {
    if (this.#secondEra === "legacy" && this.#context.nowMs() >= this.#askAgainAtMs) this.#secondEra = undefined;
    const offered = offeredKinds(declared);
    const kind = this.#kindFor("request", offered !== 0);
    if (kind === "asking") return this.#askingServerFor(held, offered);
    if (kind !== "modern") return this.shared;
    if (this.#modern === undefined && this.#context.draining.aborted) return shuttingDown();
    return (this.#modern ??= this.#probe());
  }

  /** Chooses a free server of the client, else a new one, else the one that was used last. */
  #askingServerFor(held: HeldRequest, offered: AskKinds): PooledServer | SidecarError {
    const { holder } = held.owner.memory;
    const own = this.#asking(holder, offered);
    const [last] = own;
    let server = own.find(({ lane }) => lane.isFree || (isDiscovery(held) && lane.calls.lastHandshake !== undefined));
    if (server === undefined) {
      const place = this.#isEnding ? shuttingDown() : this.#placeFor("asking", holder);
      if (place instanceof PooledServer) this.#evict(place, "room for another one");
      if (!(place instanceof SidecarError)) return this.#start({ kind: "asking", holder, offered });
      if (last === undefined) return place;
      server = last;
    }
    server.use(this.#context.nowMs());
    return server;
  }

  #asking(holder: MemoryHolder, offered: AskKinds): PooledServer[] {
    const isOne = (profile: Profile): boolean => profile.kind === "asking" && profile.holder === holder && profile.offered === offered;
    return [...this.#servers]
      .filter(({ profile, state }) => isOne(profile) && state !== "stopping")
      .sort((a, b) => b.usedAtMs - a.usedAtMs);
  }

  /** @returns undefined if there is a place; the server that makes room; or the error. */
  #placeFor(kind: Profile["kind"], holder: MemoryHolder): PooledServer | SidecarError | undefined {
    const { config, nowMs } = this.#context;
    const maxServers = config.maxPrivateServers;
    const share = serversPerClient(maxServers);
    const all = [...this.#servers].filter(({ profile, state }) => profile.holder !== undefined && state !== "stopping");
    const byHolder = Map.groupBy(
      all.filter(({ profile }) => profile.kind === "asking"),
      ({ profile }) => profile.holder,
    );
    const own = byHolder.get(holder) ?? [];
    const hasShare = kind === "asking" && own.length >= share;
    if (!hasShare && all.length < maxServers) return undefined;
    const most = Math.max(2, ...byHolder.values().map(({ length }) => length));
    const candidates = (hasShare ? own : all).map((server) => {
      const { profile, sessions, isInUse, usedAtMs } = server;
      const isPrivate = profile.kind === "private";
      const isSpare = isPrivate ? !sessions.values().some(({ hasCalled }) => hasCalled) : byHolder.get(profile.holder)?.length === most;
      // The end of a use is not foreseeable. The session of a server that starts may remain unused.
      const isSoon = isInUse ? isPrivate && sessions.size === 0 : isSpare;
      const freeAtMs = (isInUse ? nowMs() : usedAtMs) + Math.min(isSoon ? SPARE_MS : UNUSED_MS, config.sessionIdleTimeoutMs);
      return { server, isSpare, freeInMs: freeAtMs - nowMs() };
    });
    const [first] = candidates
      .filter(({ freeInMs }) => freeInMs <= 0)
      .sort((a, b) => Number(b.isSpare) - Number(a.isSpare) || a.server.usedAtMs - b.server.usedAtMs);
    const freeInMs = Math.min(...candidates.map((each) => each.freeInMs));
    return first?.server ?? noPrivateServerLeft(maxServers, freeInMs, hasShare ? share : undefined);
  }

  #start(profile: Profile, observer?: UpstreamObserver): PooledServer {
    const { kind } = profile;
    const name = kind === "shared" || kind === "modern" ? kind : `${kind}-${++this.#lastNumbers[kind]}`;
    const server = this.#create(profile, name);
    const { config, nowMs } = this.#context;
    this.#servers.add(server);
    server.idle = new Timer(this.#context, (atMs) => this.#endIfIdle(server, atMs));
    server.opening = new Timer(this.#context, () => {
      server.admits = "all";
      server.lane.calls.releaseWaiting();
    });
    server.use(nowMs());
    server.lane.onQuestion = (request) => this.#onQuestion(server, request);
    if (observer !== undefined) server.observers.push(observer);
    if (server.admits === "first") server.observers.push((event) => this.#onEvent(server, event));
    if (profile.holder === undefined) void this.#run(server);
    else {
      server.idle.set(nowMs() + config.sessionIdleTimeoutMs);
      this.#startWaiting();
    }
    return server;
  }

  async #run(server: PooledServer): Promise<void> {
    const { kind } = server.profile;
    const { log } = server.lane.context;
    try {
      server.state = "running";
      server.failed = server.supervisor.run(server.lane, server.observers);
      const failure = await server.failed;
      // The sidecar itself logs it for the shared server.
      if (kind !== "shared" && failure?.kind === "command-unusable")
        log.warn({ code: failure.spawnErrorCode }, "the command cannot be started");
    } catch (error) {
      log.error({ err: error, reason: describeError(error) }, "supervision failed");
    }
    // RESTART_LIMIT is reached. The next request starts another process.
    if (kind === "shared" || this.#isKilled) return;
    if (kind === "asking") this.#evict(server, "server ended");
    else void this.#end(server);
  }

  #startWaiting(): void {
    let count = [...this.#servers].filter(({ profile, state }) => profile.holder !== undefined && state !== "waiting").length;
    for (const server of this.#servers) {
      if (count >= this.#context.config.maxPrivateServers || this.#isEnding) return;
      if (server.state !== "waiting") continue;
      count++;
      void this.#run(server);
    }
  }

  #endIfIdle(server: PooledServer, nowMs: number): void {
    if (server.isInUse) server.use(nowMs);
    const dueAtMs = server.usedAtMs + this.#context.config.sessionIdleTimeoutMs;
    if (dueAtMs > nowMs) server.idle?.set(dueAtMs);
    else this.#evict(server, "idle");
  }

  #evict(server: PooledServer, reason: string): void {
    const { name: lane, sessions, state } = server;
    if (state === "stopping") return;
    if (sessions.size === 0) {
      this.#context.log.info({ lane, reason }, "lane ended");
      void this.#end(server);
    }
    for (const session of sessions) {
      this.#context.log.info({ lane, reason }, "session ended");
      this.#sessions.evict(session);
    }
  }

  /** Never rejects: a defect of a session or lane must not keep the process running. */
  async #end(server: PooledServer): Promise<void> {
    if (server.state === "stopping") return;
    server.state = "stopping";
    server.clearTimers();
    if (server === this.#modern) this.#modern = undefined;
    const { defects } = this.#context;
    const { lane, sessions } = server;
    // The server may have ended by itself. Its sessions can never get another response.
    for (const session of sessions) defects.guard("session end", () => this.#sessions.end(session));
    if (server.profile.kind === "private") lane.calls.releaseWaiting();
    // Subscriptions end gracefully: their clients can open them at another server.
    defects.guard("lane end", () => lane.routing.state.endSubscriptions());
    defects.guard("lane end", () => lane.close("server lost"));
    await server.supervisor.stop().catch(() => undefined);
    server.kept?.release();
    this.#servers.delete(server);
    this.#startWaiting();
  }

  #probe(): PooledServer {
    const { config, log, nowMs } = this.#context;
    let isReady = false;
    const server = this.#start({ kind: "modern" }, (event) => {
      if (event === "started") return;
      if (event === "ready") {
        if (!isReady) log.info({ mode: "modern" }, "server era found");
        isReady = true;
        this.#secondEra = "modern";
        this.#hasBeenModern = true;
        return;
      }
      if (this.#isKilled) return;
      const wasReady = isReady;
      isReady = false;
      if (wasReady) return;
      const { kind, reason } = event;
      // A server of the modern era that is not ready after a restart may have changed. The next request finds out.
      const hasChanged = this.#secondEra === "modern";
      this.#secondEra = hasChanged ? undefined : "legacy";
      const mayComeBack = this.#hasBeenModern && kind !== "handshake-refused";
      this.#askAgainAtMs = mayComeBack ? nowMs() + config.restartMaxMs : Infinity;
      if (hasChanged) log.info({ reason }, "server era may have changed");
      else log.info({ mode: "legacy", reason }, "server era found");
      // The lane gets this event first, and rejects the requests that wait for it.
      queueMicrotask(() => void this.#end(server));
    });
    return server;
  }
}

function isDiscovery({ request }: HeldRequest): boolean {
  return request.method === "server/discover";
}
