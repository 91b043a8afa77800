import type { Config } from "./config/load.ts";
import type { ChildEraMode } from "./config/options.ts";
import { type Context, contextWith } from "./context.ts";
import type { ServerStatus } from "./http/health.ts";
import type { ServerRoutes } from "./http/server-routes.ts";
import { type AskKinds, capabilitiesFor } from "./mcp/capabilities.ts";
import { describeError } from "./mcp/errors.ts";
import type { JsonObject, RequestMessage } from "./mcp/message.ts";
import type { MemoryBudget, MemoryHolder } from "./memory.ts";
import type { Counters } from "./observe/counters.ts";
import { type Defects, LogLimiter } from "./observe/log.ts";
import type { RequestObserver } from "./observe/record.ts";
import type { ServerProgram } from "./process/generation.ts";
import { clientAttempt, type ClientInfo, discoverAttempt, Handshake, initializeAttempt, INITIALIZED } from "./process/handshake.ts";
import type { UpstreamHandshake, UpstreamObserver, UpstreamStatus } from "./process/port.ts";
import { OutputMemory } from "./process/stdio.ts";
import { ReadyTimeout, Supervisor, type SupervisorFailure } from "./process/supervisor.ts";
import { type AskingLane, AskingLanes, serversPerClient } from "./server/asking-lanes.ts";
import { AskingRouting } from "./server/asking-routing.ts";
import { addLoads } from "./server/call.ts";
import type { LanePolicy } from "./server/dispatch.ts";
import type { KnownParams } from "./server/known-params.ts";
import { Lane, type LaneOptions } from "./server/lane.ts";
import { Lanes, type PrivateClient, type SupervisedLane } from "./server/lanes.ts";
import { AnyEraRouting, ModernRouting } from "./server/modern-routing.ts";
import { ParkedCalls } from "./server/parked-calls.ts";
import { PrivateRouting } from "./server/private-routing.ts";
import { RequestState } from "./server/request-state.ts";
import { RivalServers } from "./server/rival-servers.ts";
import { type EraLane, knownParams, ServerEras } from "./server/server-eras.ts";
import { SessionOpener, type SessionOpenerOptions } from "./server/session-opener.ts";
import { StatelessRequests } from "./server/stateless-requests.ts";
import { TaskOwners } from "./server/tasks.ts";
import { SessionIds, SessionKeys } from "./session/ids.ts";
import { EventLog } from "./session/replay.ts";
import type { Principal, Session } from "./session/session.ts";
import { AbandonedSessions, SessionStore } from "./session/store.ts";

/** For a server that gets `initialize` only. */
const ERA_HINT = "; a server without sessions needs MODERN=on, CHILD_ERA=auto or modern, and no ISOLATION=session";

/** For a server that gets `server/discover` only. */
const SESSIONS_HINT = "; a server with sessions needs CHILD_ERA=auto or legacy";

/** The name of the shared lane for observers. Its log lines have none. */
const SHARED_LANE = "shared";

/** The tool policy of all lanes of a server. */
interface ServerPolicy {
  /** @param lane the name of a private lane in the log. */
  forLane(context: Context, lane?: string): LanePolicy;
  /** Returns the names of the listed tools that clients can see. */
  visibleNames(tools: readonly JsonObject[]): ReadonlySet<string>;
  /** The fields for `/status`; undefined if there are none. */
  readonly status: object | undefined;
}

/** What the lanes of one server share. */
interface LaneParts {
  readonly program: ServerProgram;
  /** The sidecar, for its own handshake. */
  readonly clientInfo: ClientInfo;
  readonly context: Context;
  readonly readyTimeout: ReadyTimeout;
  /** The operator's rules about tools; undefined if there are none. */
  readonly policy: ServerPolicy | undefined;
  /** Undefined if all clients share one server. */
  readonly rivals: RivalServers | undefined;
  /** Returns an observer of a lane's server. The end of a probe is no failure. Undefined if nothing observes them. */
  readonly observeLane: ((lane: string, isProbe: boolean) => UpstreamObserver) | undefined;
  readonly outputMemory: OutputMemory;
  readonly endSession: (session: Session) => void;
}

/** The shared lane, with the parts of its supervision that only the sidecar needs. */
interface SharedLane extends SupervisedLane {
  readonly supervisor: Pick<Supervisor, "status" | "firstReady">;
  /** Resolves when the supervisor has given up, or to undefined when it is stopped. Rejects only because of a defect. */
  readonly failed: Promise<SupervisorFailure | undefined>;
}

/** Starts the lane of all clients that need no server of their own. Its server gets the sidecar's own handshake. */
function startSharedLane(parts: LaneParts, era: ChildEraMode): SharedLane & EraLane {
  const { clientInfo, context } = parts;
  if (era === "modern") return startModernLane(parts, undefined);
  const params: KnownParams = knownParams(() => shared.lane, parts.context.nowMs, visibleNames(parts));
  let routing: AnyEraRouting | undefined;
  const shared: SharedLane = startLane(parts, {
    handshake:
      era === "legacy"
        ? new Handshake(initializeAttempt(clientInfo, ERA_HINT))
        : new Handshake(initializeAttempt(clientInfo), discoverAttempt(clientInfo)),
    createRouting: (access) => (routing = new AnyEraRouting(access, () => params.forget())),
    context,
  });
  if (routing === undefined) throw new Error("the lane has no routing");
  return { ...shared, routing: routing.modern, params };
}

/** True if the server has no sessions. Undefined until its first handshake, while it may still become ready. */
function isStateless({ lane, supervisor }: SharedLane, childEra: ChildEraMode): boolean | undefined {
  if (childEra !== "auto") return childEra === "modern";
  const era = lane.lastHandshake?.era;
  const mayBecomeReady = supervisor.status().state !== "failed";
  return era === undefined && mayBecomeReady ? undefined : era === "modern";
}

/** A probe of the server's era: a second process. */
interface EraProbe {
  /** The name of its lane in the log. */
  readonly name: string;
  readonly observer: UpstreamObserver;
  /** The time limit for its response. Some servers never answer a discovery. */
  readonly timeoutMs: number;
}

/** Starts a lane whose server gets a discovery. @param probe undefined for the shared server. */
function startModernLane(parts: LaneParts, probe?: EraProbe): SharedLane & EraLane {
  const { clientInfo, context } = parts;
  const params: KnownParams = knownParams(() => modern.lane, parts.context.nowMs, visibleNames(parts));
  let routing: ModernRouting | undefined;
  const modern: SharedLane = startLane(parts, {
    handshake: new Handshake(discoverAttempt(clientInfo, probe === undefined ? SESSIONS_HINT : "")),
    createRouting: (access) => (routing = new ModernRouting(access, () => params.forget())),
    context: probe === undefined ? context : contextWith(context, { lane: probe.name }),
    ...(probe === undefined ? {} : { name: probe.name, observer: probe.observer, probeTimeoutMs: probe.timeoutMs }),
  });
  if (routing === undefined) throw new Error("the lane has no routing");
  return { ...modern, routing, params };
}

/** Starts a lane whose server may ask these questions. @param onChanged called when it is free for other calls, or no longer is. */
function startAskingLane(parts: LaneParts, name: string, kinds: AskKinds, onChanged: () => void): AskingLane {
  const params: KnownParams = knownParams(() => asking.lane, parts.context.nowMs, visibleNames(parts));
  let routing: AskingRouting | undefined;
  const asking: SharedLane = startLane(parts, {
    handshake: new Handshake(initializeAttempt(parts.clientInfo, "", capabilitiesFor(kinds))),
    createRouting: (access) => (routing = new AskingRouting(access, () => params.forget(), onChanged)),
    context: contextWith(parts.context, { lane: name }),
    name,
  });
  if (routing === undefined) throw new Error("the lane has no routing");
  return { ...asking, routing, params };
}

function visibleNames({ policy }: LaneParts): ServerPolicy["visibleNames"] | undefined {
  return policy === undefined ? undefined : (tools) => policy.visibleNames(tools);
}

/** Starts the lane of one client. Its server gets the client's own `initialize` at every start. @param start the time of the first one. */
function startPrivateLane(
  parts: LaneParts,
  name: string,
  initialize: RequestMessage,
  { streams, memory, isTakenUp }: PrivateClient,
  start: Promise<void> | undefined,
): SupervisedLane {
  const handshake = new Handshake(clientAttempt(initialize));
  handshake.initialized = isTakenUp ? INITIALIZED : undefined;
  const onInitialized = (text: string): void => void (handshake.initialized = text);
  return startLane(parts, {
    handshake,
    createRouting: (access) => new PrivateRouting(access, { streams, memory, onInitialized, isInitialized: isTakenUp }),
    context: contextWith(parts.context, { lane: name }),
    name,
    start,
    client: memory.holder,
  });
}

interface LaneKind extends Pick<LaneOptions, "createRouting"> {
  readonly context: Context;
  readonly handshake: Handshake;
  readonly name?: string;
  /** The server starts when this resolves; undefined for at once. */
  readonly start?: Promise<void> | undefined;
  /** The client of a private server. */
  readonly client?: MemoryHolder;
  readonly observer?: UpstreamObserver;
  readonly probeTimeoutMs?: number;
}

/** Starts a supervised server, and the lane that it serves. */
function startLane(parts: LaneParts, kind: LaneKind): SharedLane {
  const { handshake, createRouting, context, name, start, observer, probeTimeoutMs, client } = kind;
  const { program, readyTimeout, endSession, outputMemory } = parts;
  const { config, counters, log, nowMs } = context;
  const memory = outputMemory.forServer(client);
  const supervisor = new Supervisor(context, program, handshake, memory, readyTimeout, name === undefined, probeTimeoutMs);
  const policy = parts.policy?.forLane(context, name);
  const { retry } = config;
  const lane = new Lane({ upstream: supervisor, limits: config, retry, counters, log, nowMs, endSession, createRouting, policy });
  const observers = [observer, parts.rivals?.watch(), parts.observeLane?.(name ?? SHARED_LANE, probeTimeoutMs !== undefined)];
  const run = (): Promise<SupervisorFailure | undefined> =>
    supervisor.run(
      lane,
      observers.filter((each) => each !== undefined),
    );
  const failed = start === undefined ? run() : start.then(run);
  return {
    lane,
    supervisor,
    failed,
    ended: failed.then(
      (failure) => {
        // The sidecar itself logs it for the shared server.
        if (name !== undefined && failure?.kind === "command-unusable")
          log.warn({ code: failure.spawnErrorCode }, "the command cannot be started");
      },
      (error: unknown) => log.error({ err: error, reason: describeError(error) }, "supervision failed"),
    ),
    // `ended` reports the error of a defect.
    stop: () => supervisor.stop().catch(() => undefined),
  };
}

/** With ISOLATION=session, each client has a server of its own. Clients without a session could not be told apart. */
function servesStateless({ modern, isolation }: Config): boolean {
  return modern === "on" && isolation !== "session";
}

/** The parts for requests without a session. */
interface Stateless {
  readonly eras: ServerEras;
  readonly requests: StatelessRequests;
}

/** The time in which a second process answers a discovery: this, or some times as long as the first process took to be ready. */
const MIN_PROBE_MS = 5000;
const PROBE_BOOTS = 3;

/** Creates the handling of requests without a session. @param replica the name of this process. @returns undefined if it is off. */
function createStateless(parts: LaneParts, shared: SharedLane & EraLane, keys: SessionKeys, replica: string): Stateless | undefined {
  const { config, defects, log, nowMs } = parts.context;
  const { isolation, childEra, maxSessions } = config;
  if (!servesStateless(config)) return undefined;
  const startedAtMs = nowMs();
  let bootMs = 0;
  void shared.supervisor.firstReady.then(({ era }) => {
    bootMs = nowMs() - startedAtMs;
    if (era === "modern") log.info({ mode: era }, "server era found");
  });
  const probeTimeoutMs = (): number => Math.min(parts.readyTimeout.ms, Math.max(MIN_PROBE_MS, PROBE_BOOTS * bootMs));
  const asks = isolation === "shared" ? undefined : createAsks(parts, replica);
  const eras = new ServerEras({
    shared,
    asking: asks?.lanes,
    startModern: (observer) => startModernLane(parts, { name: "modern", observer, timeoutMs: probeTimeoutMs() }),
    askAgainAfterMs: config.restartMaxMs,
    mayProbe: childEra === "auto" && isolation !== "shared",
    defects,
    log,
    nowMs,
  });
  const requests = new StatelessRequests(
    {
      eras,
      maxClients: maxSessions,
      // Only the tokens of a file can be of several principals.
      bindings: config.authTokenFile === undefined ? undefined : { requestState: new RequestState(keys), tasks: new TaskOwners() },
      parked: asks?.parked,
      maxClientRequests: config.maxSessionRequests,
      defects,
      nowMs,
      streamAfterMs: config.streamAfterMs,
    },
    (client) => eras.endCaller(client),
  );
  return { eras, requests };
}

interface Asks {
  readonly lanes: AskingLanes;
  readonly parked: ParkedCalls;
}

function createAsks(parts: LaneParts, replica: string): Asks {
  const { config, defects, log, nowMs } = parts.context;
  const {
    maxPrivateServers: maxServers,
    sessionIdleTimeoutMs: idleTimeoutMs,
    parkTimeoutMs: timeoutMs,
    maxParkedCalls: maxParked,
  } = config;
  return {
    lanes: new AskingLanes({ start: (...lane) => startAskingLane(parts, ...lane), maxServers, idleTimeoutMs, defects, log, nowMs }),
    parked: new ParkedCalls({ maxParked, maxServersPerClient: serversPerClient(maxServers), timeoutMs, replica, defects, nowMs }),
  };
}

/** Returns the load of the second process. */
function loadOf(modern: SupervisedLane | undefined): ServerStatus["lanes"]["modern"] {
  const all = modern === undefined ? [] : [modern.lane.load];
  return { servers: all.length, ...addLoads(all) };
}

/** The parts of the sidecar that a server uses, besides its context. */
export interface ServerOptions extends Pick<LaneParts, "program" | "clientInfo" | "policy" | "observeLane"> {
  /** Undefined if nothing observes requests. */
  readonly observer: RequestObserver | undefined;
  /** Called at the end of each session; undefined if nothing observes it. */
  readonly onSessionEnd: SessionOpenerOptions["onSessionEnd"];
}

/** Starts an MCP server. The process starts synchronously. The promise resolves when the routes are loaded. */
export async function startServer(context: Context, options: ServerOptions): Promise<McpServer> {
  const { config, memory, counters, defects, log, nowMs } = context;
  const { observer, onSessionEnd, policy } = options;
  const { isolation, maxSessions, sessionsPerMinute, maxPrivateServers, sessionIdleTimeoutMs: idleTimeoutMs } = config;
  const sessions = new SessionStore(maxSessions, limitedEnd(context, "room for a new session"));
  const parts: LaneParts = {
    ...options,
    context,
    readyTimeout: new ReadyTimeout(config.readyTimeoutMs),
    rivals: isolation === "shared" ? undefined : new RivalServers(log, nowMs),
    outputMemory: new OutputMemory(memory),
    endSession: (session) => sessions.end(session),
  };
  const childEra = servesStateless(config) ? config.childEra : "legacy";
  const shared = startSharedLane(parts, childEra);
  const lanes = new Lanes({
    shared,
    isStateless: () => isStateless(shared, childEra),
    createPrivate: (...client) => startPrivateLane(parts, ...client),
    isolation,
    maxPrivateServers,
    idleTimeoutMs,
    sessions,
    defects,
    log,
    nowMs,
  });
  const keys = new SessionKeys(config.sessionKeys, config.serverName);
  const ids = new SessionIds({ keys, maxAgeMs: config.sessionMaxAgeMs });
  const eventLog = new EventLog(config, nowMs, defects);
  freeKept(context, sessions, eventLog);
  const opener = new SessionOpener({ lanes, sessions, ids, eventLog, sessionsPerMinute, onSessionEnd, counters, log, defects, nowMs });
  const stateless = createStateless(parts, shared, keys, eventLog.replica);
  freeUnsent(memory, lanes, stateless);

  // These modules load while the process starts, so the first response comes earlier.
  const routesModule = await import("./http/server-routes.ts");
  const routes = new routesModule.ServerRoutes({
    opener,
    sessions,
    stateless: stateless?.requests,
    isDraining: () => lanes.isDraining,
    maxBodyBytes: config.maxBodyBytes,
    keepAliveMs: config.keepAliveMs,
    memory,
    observer,
    counters,
    log,
    legacySse: config.legacySse === "on" ? { maxSessions, requestTimeoutMs: config.requestTimeoutMs } : undefined,
    defects,
    nowMs,
  });
  return new McpServer({ shared, lanes, stateless, sessions, eventLog, routes, counters, policy, defects });
}

/** Rejects unsent requests of a client above its share when others would get no memory otherwise. */
function freeUnsent(memory: MemoryBudget, lanes: Lanes, stateless: Stateless | undefined): void {
  memory.addShareRelief((bytes, holder) => {
    const freeBytes = lanes.freeUnsent(bytes, holder);
    if (freeBytes < bytes) stateless?.eras.freeUnsent(bytes - freeBytes, holder);
  });
}

/** Drops kept events, and ends abandoned sessions, when clients would get no memory otherwise. */
function freeKept(context: Context, sessions: SessionStore, eventLog: EventLog): void {
  const { memory, nowMs } = context;
  memory.addDroppable(eventLog);
  const abandoned = new AbandonedSessions({ sessions, nowMs, onEnd: limitedEnd(context, "room in the memory budget") });
  memory.addAbandonedRelief((bytes, holder) => abandoned.free(bytes, holder));
}

/** Returns a function that logs the end of a session, unless it has logged many. */
function limitedEnd({ log, nowMs }: Context, reason: string): () => void {
  const limiter = new LogLimiter(nowMs);
  return () => {
    if (limiter.allows()) log.info({ reason }, "session ended");
  };
}

interface ServerParts {
  readonly counters: Counters;
  readonly policy: ServerPolicy | undefined;
  readonly shared: SharedLane;
  readonly lanes: Lanes;
  readonly stateless: Stateless | undefined;
  readonly sessions: SessionStore;
  readonly eventLog: EventLog;
  readonly routes: ServerRoutes;
  readonly defects: Defects;
}

/** One MCP server and its clients: processes, lanes, sessions and streams. It shares no state with other servers of the sidecar. */
export class McpServer {
  readonly #parts: ServerParts;
  #isLeaving = false;

  constructor(parts: ServerParts) {
    this.#parts = parts;
  }

  /** The routes of its clients, without guards. */
  get routes(): Pick<ServerRoutes, "endpoint" | "legacySse"> {
    return this.#parts.routes;
  }

  /** Resolves when the shared server is ready for the first time. */
  get firstReady(): Promise<UpstreamHandshake> {
    return this.#parts.shared.supervisor.firstReady;
  }

  /** Resolves with the reason if the shared server cannot start or reaches RESTART_LIMIT, and with undefined after `stop`. */
  get failed(): Promise<SupervisorFailure | undefined> {
    return this.#parts.shared.failed;
  }

  status(): ServerStatus {
    const { lanes, stateless, sessions, eventLog, routes, counters, policy } = this.#parts;
    return {
      replica: eventLog.replica,
      upstream: this.#upstreamStatus(),
      lanes: { ...lanes.load, modern: loadOf(stateless?.eras.modern), asking: stateless?.eras.asking?.load ?? {} },
      sessions: sessions.size,
      openStreams: routes.openStreams,
      counters,
      stateless: stateless?.requests.status,
      policy: policy?.status,
    };
  }

  /**
   * Lists the tools of the shared server when it is ready.
   *
   * @returns the names of the visible tools; undefined after a timeout, or if no server is ready.
   */
  async toolNames(timeoutMs: number): Promise<readonly string[] | undefined> {
    const { shared, policy } = this.#parts;
    const tools = await shared.lane.tools.list(timeoutMs);
    if (tools === undefined) return undefined;
    const names = policy?.visibleNames(tools) ?? tools.map(({ name }) => name);
    return [...names].filter((name) => typeof name === "string");
  }

  /** Ends the sessions and streams of one owner. @returns the number of sessions. */
  endAllOf(owner: Principal): number {
    const { sessions, stateless, routes, defects } = this.#parts;
    const owned = sessions.ownedBy(owner);
    // A defect at one end must not leave another session to a client whose token is no longer valid.
    for (const session of owned) defects.guard("session end", () => sessions.end(session));
    defects.guard("session end", () => stateless?.requests.endAllOf(owner));
    defects.guard("session end", () => routes.endAllOf(owner));
    return owned.length;
  }

  /** Reports the server as not ready. All requests are still served. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Rejects new requests, ends GET streams, and resolves when the last request in flight has ended. */
  async drain(): Promise<void> {
    const { routes, lanes, stateless } = this.#parts;
    routes.drain();
    stateless?.requests.drain();
    await Promise.all([lanes.drain(), stateless?.eras.drain()]);
  }

  /** Fails all requests that are in flight or queued, and terminates all processes. Takes bounded time; never rejects. */
  async stop(): Promise<void> {
    const { lanes, stateless, eventLog, shared } = this.#parts;
    const stopped = [lanes.stop(), stateless?.eras.stop()];
    eventLog.close();
    await Promise.all([...stopped, shared.ended]);
  }

  #upstreamStatus(): UpstreamStatus {
    const { lanes, shared } = this.#parts;
    const current = shared.supervisor.status();
    if (lanes.isDraining || this.#isLeaving) return { ...current, state: "stopping" };
    // The discovery client of a pod waits only 5 s for the list. So the server is not ready until its tools are listed.
    return current.state === "ready" && shared.lane.tools.areAwaited ? { ...current, state: "starting" } : current;
  }
}
