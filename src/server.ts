import type { Config } from "./config/load.ts";
import { type Context, contextWith } from "./context.ts";
import type { LegacySse } from "./http/legacy-sse.ts";
import { McpEndpoint } from "./http/post.ts";
import type { Route } from "./http/response.ts";
import { type AskKinds, capabilitiesFor } from "./mcp/capabilities.ts";
import { describeError } from "./mcp/errors.ts";
import type { RequestMessage } from "./mcp/message.ts";
import type { MemoryHolder } from "./memory.ts";
import type { RequestObserver } from "./observe/record.ts";
import type { RouteName } from "./routes.ts";
import type { ToolPolicy } from "./policy/tool-policy.ts";
import type { ServerProgram } from "./process/generation.ts";
import { clientAttempt, type ClientInfo, discoverAttempt, Handshake, initializeAttempt, INITIALIZED } from "./process/handshake.ts";
import type { UpstreamHandshake, UpstreamObserver, UpstreamStatus } from "./process/port.ts";
import { Supervisor, type SupervisorFailure } from "./process/supervisor.ts";
import { ParkedCalls } from "./server/asking-calls.ts";
import { AskingLanes } from "./server/asking-lanes.ts";
import { AskingRouting } from "./server/asking-routing.ts";
import { addLoads } from "./server/call.ts";
import { KnownParams } from "./server/known-params.ts";
import { Lane } from "./server/lane.ts";
import { Lanes, type PrivateClient, type SupervisedLane } from "./server/lanes.ts";
import { AnyEraRouting, ModernRouting } from "./server/shared-routing.ts";
import { PrivateRouting } from "./server/private-routing.ts";
import type { Routing } from "./server/routing.ts";
import { ServerEras } from "./server/server-eras.ts";
import { type OnSessionEnd, SessionOpener } from "./server/session-opener.ts";
import type { EraLane } from "./server/stateless-client.ts";
import { StatelessRequests } from "./server/stateless-requests.ts";
import { SessionIds, SessionKeys } from "./session/ids.ts";
import { EventLog } from "./session/replay.ts";
import type { Principal, Session } from "./session/session.ts";
import { SessionStore } from "./session/store.ts";

/** For a server that gets `initialize` only. */
const ERA_HINT = "; a server without sessions needs MODERN=on, CHILD_ERA=auto or modern, and no ISOLATION=session";

/** For a server that gets `server/discover` only. */
const SESSIONS_HINT = "; a server with sessions needs CHILD_ERA=auto or legacy";

/** The name of the shared lane for observers. Its log lines have none. */
const SHARED_LANE = "shared";

/** The parts of the sidecar that a server uses, besides its context. */
export interface ServerOptions {
  readonly program: ServerProgram;
  /** The sidecar, for its own handshake. */
  readonly clientInfo: ClientInfo;
  /** The operator's rules about tools, for all lanes; undefined if there are none. */
  readonly policy: ToolPolicy | undefined;
  /** Returns an observer of a lane's server. The end of a probe is no failure. Undefined if nothing observes them. */
  readonly observeLane: ((lane: string, isProbe: boolean) => UpstreamObserver) | undefined;
  /** Those of requests. */
  readonly observers: readonly RequestObserver[];
  /** Called at the end of each session; undefined if nothing observes it. */
  readonly onSessionEnd: OnSessionEnd | undefined;
}

interface StartedLane<Routed extends Routing> extends EraLane<Routed> {
  readonly supervisor: Supervisor;
  /** Resolves when the supervisor has given up, or to undefined when it is stopped. Rejects only because of a defect. */
  readonly failed: Promise<SupervisorFailure | undefined>;
}

interface LaneKind<Routed extends Routing> {
  readonly createRouting: (lane: Lane) => Routed;
  /** That of the lane in the log; undefined for the shared lane. */
  readonly name?: string;
  readonly handshake: Handshake;
  /** The server starts when this resolves; undefined for at once. */
  readonly start?: Promise<void> | undefined;
  readonly client?: MemoryHolder;
  readonly observer?: UpstreamObserver;
  /** The time limit for the response to a probe of the server's era. Some servers never answer a discovery. */
  readonly probeTimeoutMs?: number;
}

/** Returns a function that starts supervised servers, each with the lane that it serves. */
function laneStarter(
  context: Context,
  { program, policy, observeLane }: ServerOptions,
  endSession: (session: Session) => void,
): <Routed extends Routing>(kind: LaneKind<Routed>) => StartedLane<Routed> {
  return ({ name, handshake, createRouting, start, client, observer, probeTimeoutMs }) => {
    const laneContext = name === undefined ? context : contextWith(context, { lane: name });
    const { log } = laneContext;
    const supervisor = new Supervisor(laneContext, program, handshake, name === undefined, client, probeTimeoutMs);
    const rules = policy?.forLane(laneContext, name);
    const lane = new Lane(laneContext, supervisor, endSession, createRouting, rules);
    const observers = [observer, observeLane?.(name ?? SHARED_LANE, probeTimeoutMs !== undefined)];
    const run = (): Promise<SupervisorFailure | undefined> =>
      supervisor.run(
        lane,
        observers.filter((each) => each !== undefined),
      );
    const failed = start === undefined ? run() : start.then(run);
    return {
      lane,
      params: new KnownParams(context, lane.tools, policy && ((tools) => policy.visibleNames(tools))),
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
  };
}

/** The time in which a second process answers a discovery: this, or some times as long as the first process took to be ready. */
const MIN_PROBE_MS = 5000;
const PROBE_BOOTS = 3;

/** One MCP server and its clients: processes, lanes, sessions and streams. It shares no state with other servers of the sidecar. */
export class McpServer {
  readonly #context: Context;
  readonly #options: ServerOptions;
  readonly #startLane: ReturnType<typeof laneStarter>;
  /** The lane of all clients that need no server of their own. */
  readonly #shared: StartedLane<ModernRouting>;
  readonly #lanes: Lanes;
  readonly #sessions: SessionStore;
  readonly #eventLog: EventLog;
  readonly #opener: SessionOpener;
  /** The lanes for requests without a session; undefined if these are not served. */
  readonly #eras: ServerEras | undefined;
  readonly #stateless: StatelessRequests | undefined;
  #endpoint: McpEndpoint | undefined;
  /** Undefined if HTTP+SSE is off. */
  #legacySse: LegacySse | undefined;
  #isLeaving = false;

  private constructor(context: Context, options: ServerOptions) {
    const { config, memory } = context;
    const { isolation } = config;
    [this.#context, this.#options] = [context, options];
    const sessions = (this.#sessions = new SessionStore(context));
    this.#startLane = laneStarter(context, options, (session) => sessions.end(session));
    // With ISOLATION=session, each client has a server of its own. Clients without a session could not be told apart.
    const servesStateless = config.modern === "on" && isolation !== "session";
    const childEra = servesStateless ? config.childEra : "legacy";
    const shared = this.#startShared(childEra);
    this.#shared = shared;
    const lanes = new Lanes(
      context,
      shared,
      () => this.#isStateless(childEra),
      (...client) => this.#startPrivate(...client),
      sessions,
    );
    this.#lanes = lanes;
    const keys = new SessionKeys(config.sessionKeys, config.serverName);
    const ids = new SessionIds(context, keys);
    const eventLog = (this.#eventLog = new EventLog(context));
    this.#opener = new SessionOpener(context, lanes, sessions, ids, eventLog, options.onSessionEnd);
    if (servesStateless) {
      const asking = isolation === "shared" ? undefined : new AskingLanes(context, (...lane) => this.#startAsking(...lane));
      const parked = asking && new ParkedCalls(context, eventLog.replica);
      this.#eras = new ServerEras(context, shared, asking, this.#modernStarter());
      this.#stateless = new StatelessRequests(context, this.#eras, parked, keys);
    }
    memory.onShortage("share", (bytes, holder) => this.#freeUnsent(bytes, holder));
  }

  /** Starts an MCP server. The process starts synchronously. The promise resolves when the routes are loaded. */
  static async start(context: Context, options: ServerOptions): Promise<McpServer> {
    const server = new McpServer(context, options);
    // Loaded while the process starts, so that a sidecar without it starts faster.
    const legacyModule = context.config.legacySse === "on" ? await import("./http/legacy-sse.ts") : undefined;
    const { observers } = options;
    const endpoint = new McpEndpoint(context, server.#opener, server.#sessions, server.#stateless, observers);
    server.#endpoint = endpoint;
    server.#legacySse = legacyModule && new legacyModule.LegacySse(context, server.#opener, server.#sessions, observers, endpoint);
    return server;
  }

  /** The routes of its clients, without guards. */
  get routes(): Readonly<Partial<Record<RouteName, Route>>> {
    return { ...(this.#endpoint && { endpoint: this.#endpoint.route }), ...this.#legacySse?.routes };
  }

  get firstReady(): Promise<UpstreamHandshake> {
    return this.#shared.supervisor.firstReady;
  }

  /** Resolves with the reason if the shared server cannot start or reaches RESTART_LIMIT, and with undefined after `stop`. */
  get failed(): Promise<SupervisorFailure | undefined> {
    return this.#shared.failed;
  }

  status() {
    const modern = this.#eras?.modern === undefined ? [] : [this.#eras.modern.lane.calls.load];
    return {
      replica: this.#eventLog.replica,
      upstream: this.#upstreamStatus(),
      lanes: { ...this.#lanes.load, modern: { servers: modern.length, ...addLoads(modern) }, asking: this.#eras?.asking?.load ?? {} },
      sessions: this.#sessions.size,
      openStreams: this.#endpoint?.connections.size ?? 0,
      stateless: this.#stateless?.status,
      policy: this.#options.policy?.status,
    };
  }

  /**
   * Lists the tools of the shared server when it is ready.
   *
   * @returns the names of the visible tools; undefined after a timeout, or if no server is ready.
   */
  async toolNames(timeoutMs: number): Promise<readonly string[] | undefined> {
    const tools = await this.#shared.lane.tools.list(timeoutMs);
    if (tools === undefined) return undefined;
    const names = this.#options.policy?.visibleNames(tools) ?? tools.map(({ name }) => name);
    return [...names].filter((name) => typeof name === "string");
  }

  /** Ends the sessions and streams of one owner. @returns the number of sessions. */
  endAllOf(owner: Principal): number {
    const { defects } = this.#context;
    const owned = this.#sessions.ownedBy(owner);
    // A defect at one end must not leave another session to a client whose token is no longer valid.
    for (const session of owned) defects.guard("session end", () => this.#sessions.end(session));
    defects.guard("session end", () => this.#stateless?.endAllOf(owner));
    defects.guard("session end", () => this.#legacySse?.endAllOf(owner));
    return owned.length;
  }

  /** Reports the server as not ready. All requests are still served. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Ends GET streams, and resolves when the last request in flight has ended. */
  async drain(): Promise<void> {
    await Promise.all([this.#lanes.drain(), ...(this.#eras?.lanes ?? []).map((lane) => lane.calls.whenEmpty())]);
  }

  /** Fails all requests that are in flight or queued, and terminates all processes. Takes bounded time; never rejects. */
  async stop(): Promise<void> {
    const stopped = [this.#lanes.stop(), this.#eras?.stop()];
    await Promise.all([...stopped, this.#shared.ended]);
  }

  #upstreamStatus(): UpstreamStatus {
    const current = this.#shared.supervisor.status();
    const { draining, kill } = this.#context;
    if (draining.aborted || kill.aborted || this.#isLeaving) return { ...current, state: "stopping" };
    // The discovery client of a pod waits only 5 s for the list. So the server is not ready until its tools are listed.
    return current.state === "ready" && this.#shared.lane.tools.areAwaited ? { ...current, state: "starting" } : current;
  }

  /** Starts the shared lane. Its server gets the sidecar's own handshake. */
  #startShared(childEra: Config["childEra"]): StartedLane<ModernRouting> {
    const { clientInfo } = this.#options;
    if (childEra === "modern") {
      const handshake = new Handshake(discoverAttempt(clientInfo, SESSIONS_HINT));
      return this.#startLane({ handshake, createRouting: (lane) => new ModernRouting(lane) });
    }
    const handshake =
      childEra === "legacy"
        ? new Handshake(initializeAttempt(clientInfo, ERA_HINT))
        : new Handshake(initializeAttempt(clientInfo), discoverAttempt(clientInfo));
    return this.#startLane({ handshake, createRouting: (lane) => new AnyEraRouting(lane) });
  }

  /** Returns a function that starts a second process, which gets a discovery. */
  #modernStarter(): (observer: UpstreamObserver) => EraLane {
    const { log, nowMs } = this.#context;
    const startedAtMs = nowMs();
    let bootMs = 0;
    void this.firstReady.then(({ era }) => {
      bootMs = nowMs() - startedAtMs;
      if (era === "modern") log.info({ mode: era }, "server era found");
    });
    return (observer) =>
      this.#startLane({
        name: "modern",
        handshake: new Handshake(discoverAttempt(this.#options.clientInfo)),
        createRouting: (lane) => new ModernRouting(lane),
        observer,
        probeTimeoutMs: Math.min(this.#options.program.readyTimeoutMs, Math.max(MIN_PROBE_MS, PROBE_BOOTS * bootMs)),
      });
  }

  /** Starts a lane whose server may ask these questions. @param onChanged called when it is free for other calls, or no longer is. */
  #startAsking(name: string, kinds: AskKinds, onChanged: () => void): EraLane<AskingRouting> {
    const handshake = new Handshake(initializeAttempt(this.#options.clientInfo, "", capabilitiesFor(kinds)));
    return this.#startLane({ name, handshake, createRouting: (lane) => new AskingRouting(lane, onChanged) });
  }

  /** Starts the lane of one client. Its server gets the client's own `initialize` at every start. @param start the time of the first one. */
  #startPrivate(name: string, initialize: RequestMessage, client: PrivateClient, start: Promise<void> | undefined): SupervisedLane {
    const handshake = new Handshake(clientAttempt(initialize));
    handshake.initialized = client.isTakenUp ? INITIALIZED : undefined;
    const onInitialized = (text: string): void => void (handshake.initialized = text);
    const createRouting = (lane: Lane): Routing => new PrivateRouting(lane, client, onInitialized);
    return this.#startLane({ name, handshake, createRouting, start, client: client.memory.holder });
  }

  /** True if the server has no sessions. Undefined until its first handshake, while it may still become ready. */
  #isStateless(childEra: Config["childEra"]): boolean | undefined {
    if (childEra !== "auto") return childEra === "modern";
    const era = this.#shared.lane.calls.lastHandshake?.era;
    const mayBecomeReady = this.#shared.supervisor.status().state !== "failed";
    return era === undefined && mayBecomeReady ? undefined : era === "modern";
  }

  /** Rejects unsent requests of a client above its share when others would get no memory otherwise. */
  #freeUnsent(bytes: number, holder: MemoryHolder): void {
    let freeBytes = this.#lanes.freeUnsent(bytes, holder);
    for (const lane of this.#eras?.lanes ?? []) if (freeBytes < bytes) freeBytes += lane.freeUnsent(bytes - freeBytes, holder);
  }
}
