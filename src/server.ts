import { Defects } from "./observability/defects.ts";
import { LogLimiter } from "./observability/log-limiter.ts";
import type { RequestObserver } from "./observability/request-observer.ts";
import type { ServerRoutes } from "./http/server-routes.ts";
import type { ServerStatus } from "./http/status-route.ts";
import { SessionOpener, type SessionOpenerOptions } from "./lane/handshake/session-opener.ts";
import { Lanes } from "./lane/lanes.ts";
import { RivalServers } from "./lane/rival-servers.ts";
import { isStateless, type ServerLanesOptions, type SharedLane, startPrivateLane, startSharedLane } from "./server-lanes.ts";
import { createStateless, loadOf, servesStateless, type Stateless, type StatelessSettings } from "./server-stateless.ts";
import type { MemoryBudget } from "./memory/memory-budget.ts";
import { AbandonedSessions } from "./sessions/abandoned-sessions.ts";
import { EventLog, type ReplayLimits } from "./sessions/streams/event-log.ts";
import { SessionIds } from "./sessions/ids/session-ids.ts";
import { SessionKeys } from "./sessions/ids/session-keys.ts";
import type { Principal } from "./sessions/principal.ts";
import type { Session } from "./sessions/session.ts";
import { SessionStore } from "./sessions/session-store.ts";
import { OutputMemory } from "./upstream/output-memory.ts";
import type { UpstreamHandshake, UpstreamStatus } from "./upstream/port.ts";
import type { SupervisorFailure } from "./upstream/supervisor.ts";

/** `counters` must not be those of another server. */
export interface ServerOptions extends Omit<ServerLanesOptions, "endSession" | "rivals" | "outputMemory"> {
  readonly memory: MemoryBudget;
  readonly sessions: SessionSettings;
  readonly replay: ReplayLimits;
  readonly http: HttpSettings;
  /** True if clients have different auth tokens. */
  readonly hasSeveralPrincipals: boolean;
  /** Undefined if nothing observes requests. */
  readonly observer: RequestObserver | undefined;
  /** Called at the end of each session; undefined if nothing observes it. */
  readonly onSessionEnd: SessionOpenerOptions["onSessionEnd"];
  /** Kills all processes at once, at any time from the start. */
  readonly kill: AbortSignal;
}

interface SessionSettings extends StatelessSettings {
  /** The keys of session ids; empty to derive them. */
  readonly sessionKeys: readonly string[];
  readonly serverName: string;
  readonly sessionMaxAgeMs: number;
  /** Undefined means no limit. */
  readonly sessionsPerMinute: number | undefined;
}

interface HttpSettings {
  readonly maxBodyBytes: number;
  /** The interval of comments on open event streams. */
  readonly keepAliveMs: number;
  /** Adds HTTP+SSE. */
  readonly legacySse: "on" | "off";
}

/** Starts an MCP server. The process starts synchronously. The promise resolves when the routes are loaded. */
export async function startServer(options: ServerOptions): Promise<McpServer> {
  const { limits, http, memory, observer, onSessionEnd, counters, policy, log, nowMs } = options;
  const { isolation, maxSessions, sessionsPerMinute, maxPrivateServers, sessionIdleTimeoutMs: idleTimeoutMs } = options.sessions;
  const defects = new Defects(log, counters);
  const limiter = new LogLimiter(nowMs);
  const sessions = new SessionStore(maxSessions, () => {
    if (limiter.allows()) log.info({ reason: "room for a new session" }, "session ended");
  });
  const endSession = (session: Session): void => sessions.end(session);
  const rivals = isolation === "shared" ? undefined : new RivalServers(log, nowMs);
  const laneOptions = { ...options, endSession, rivals, outputMemory: new OutputMemory(memory) };
  const childEra = servesStateless(options.sessions) ? options.sessions.childEra : "legacy";
  const shared = startSharedLane(laneOptions, childEra);
  const lanes = new Lanes({
    shared,
    isStateless: () => isStateless(shared, childEra),
    createPrivate: (...client) => startPrivateLane(laneOptions, ...client),
    isolation,
    maxPrivateServers,
    idleTimeoutMs,
    sessions,
    defects,
    log,
    nowMs,
  });
  const { keys, ids } = createIds(options.sessions);
  const eventLog = new EventLog(options.replay, nowMs, defects);
  freeKept(options, sessions, eventLog);
  const opener = new SessionOpener({ lanes, sessions, ids, eventLog, sessionsPerMinute, onSessionEnd, counters, log, defects, nowMs });
  const stateless = createStateless(
    { ...options.sessions, hasSeveralPrincipals: options.hasSeveralPrincipals, keys, replica: eventLog.replica },
    laneOptions,
    shared,
    defects,
  );
  freeUnsent(memory, lanes, stateless);
  options.kill.addEventListener("abort", () => {
    lanes.kill();
    stateless?.eras.kill();
  });

  // These modules load while the process starts, so the first response comes earlier.
  const routesModule = await import("./http/server-routes.ts");
  const routes = new routesModule.ServerRoutes({
    opener,
    sessions,
    stateless: stateless?.requests,
    isDraining: () => lanes.isDraining,
    maxBodyBytes: http.maxBodyBytes,
    keepAliveMs: http.keepAliveMs,
    memory,
    observer,
    counters,
    log,
    legacySse: http.legacySse === "on" ? { maxSessions, requestTimeoutMs: limits.requestTimeoutMs } : undefined,
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

function createIds({ sessionKeys, serverName, sessionMaxAgeMs: maxAgeMs }: SessionSettings): { keys: SessionKeys; ids: SessionIds } {
  const keys = new SessionKeys(sessionKeys, serverName);
  return { keys, ids: new SessionIds({ keys, maxAgeMs }) };
}

/** Drops kept events, and ends abandoned sessions, when clients would get no memory otherwise. */
function freeKept({ memory, log, nowMs }: ServerOptions, sessions: SessionStore, eventLog: EventLog): void {
  memory.addDroppable(eventLog);
  const limiter = new LogLimiter(nowMs);
  const onEnd = (): void => {
    if (limiter.allows()) log.info({ reason: "room in the memory budget" }, "session ended");
  };
  const abandoned = new AbandonedSessions({ sessions, nowMs, onEnd });
  memory.addAbandonedRelief((bytes, holder) => abandoned.free(bytes, holder));
}

interface ServerParts extends Pick<ServerOptions, "counters" | "policy"> {
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
