import { type Context, contextWith } from "./context.ts";
import { describeServer } from "./http/health.ts";
import { LegacySse } from "./http/legacy-sse.ts";
import { McpEndpoint } from "./http/post.ts";
import type { RecentActivity } from "./http/recent.ts";
import type { Route } from "./http/response.ts";
import { capabilitiesFor } from "./mcp/capabilities.ts";
import type { RouteName } from "./routes.ts";
import type { ToolPolicy } from "./policy/tool-policy.ts";
import type { ServerProgram } from "./process/generation.ts";
import {
  clientAttempt,
  type ClientInfo,
  discoverAttempt,
  type HandshakeScript,
  initializeAttempt,
  INITIALIZED,
} from "./process/handshake.ts";
import type { UpstreamHandshake, UpstreamStatus } from "./process/port.ts";
import { Supervisor, type SupervisorFailure } from "./process/supervisor.ts";
import { ParkedCalls } from "./server/asking-calls.ts";
import type { Calls } from "./server/calls.ts";
import { KnownParams } from "./server/known-params.ts";
import { Lane } from "./server/lane.ts";
import { Pool, PooledServer, type Profile } from "./server/pool.ts";
import { PrivateSession } from "./server/private-session.ts";
import { Routing } from "./server/routing.ts";
import { SessionOpener } from "./server/session-opener.ts";
import { StatelessRequests } from "./server/stateless-requests.ts";
import type { ServerTools, ToolList } from "./server/tools.ts";
import { SessionIds, SessionKeys } from "./session/ids.ts";
import { EventLog } from "./session/replay.ts";
import type { Principal, Session } from "./session/session.ts";
import { SessionStore } from "./session/store.ts";

/** For a server that gets only `initialize` and does not know it. */
const ERA_HINT = "; a server without sessions needs MODERN=on, CHILD_ERA=auto or modern, and no ISOLATION=session";

const SESSIONS_HINT = "; a server with sessions needs CHILD_ERA=auto or legacy";

/** Time for a second process to answer a discovery: this, or some times as long as the first process took to be ready. */
const MIN_PROBE_MS = 5000;
const PROBE_BOOTS = 3;

/** It shares no state with other servers of the sidecar. */
export class McpServer {
  readonly firstReady: Promise<UpstreamHandshake>;
  /** Resolves to undefined after `stop`. */
  readonly failed: Promise<SupervisorFailure | undefined>;
  readonly #context: Context;
  readonly #program: ServerProgram;
  readonly #clientInfo: ClientInfo;
  readonly #policy: ToolPolicy | undefined;
  readonly #activity: RecentActivity | undefined;
  readonly #pool: Pool;
  readonly #sessions: SessionStore;
  readonly #replica: string;
  readonly #stateless: StatelessRequests | undefined;
  #bootMs = 0;
  readonly #endpoint: McpEndpoint;
  readonly #legacySse: LegacySse | undefined;
  #isLeaving = false;

  constructor(base: Context, program: ServerProgram, clientInfo: ClientInfo, policy?: ToolPolicy, activity?: RecentActivity) {
    const { isolation, modern } = base.config;
    // With ISOLATION=session, each client has a server of its own. Clients without a session could not be told apart.
    const servesStateless = modern === "on" && isolation !== "session";
    const context: Context = servesStateless ? base : { ...base, config: { ...base.config, childEra: "legacy" } };
    const { config, log, memory, nowMs } = context;
    [this.#context, this.#program, this.#clientInfo, this.#policy, this.#activity] = [context, program, clientInfo, policy, activity];
    const sessions = (this.#sessions = new SessionStore(context));
    this.#pool = new Pool(context, sessions, (profile, name) => this.#createServer(profile, name), clientInfo);
    const keys = new SessionKeys(config.sessionKeys, config.serverName);
    const eventLog = new EventLog(context);
    this.#replica = eventLog.replica;
    const opener = new SessionOpener(context, this.#pool, sessions, new SessionIds(context, keys), eventLog);
    if (servesStateless) {
      const parked = isolation === "shared" ? undefined : new ParkedCalls(context, this.#replica);
      this.#stateless = new StatelessRequests(context, this.#pool, parked, keys);
    }
    const endpoint = (this.#endpoint = new McpEndpoint(context, opener, sessions, this.#stateless));
    this.#legacySse = config.legacySse === "on" ? new LegacySse(context, opener, sessions, endpoint) : undefined;
    memory.onShortage("share", (holder) => this.#pool.freeUnsent(holder));
    const { failed, supervisor } = this.#pool.shared;
    [this.failed, this.firstReady] = [failed, supervisor.firstReady];
    const startedAtMs = nowMs();
    void this.firstReady.then(({ era }) => {
      this.#bootMs = nowMs() - startedAtMs;
      if (era === "modern") log.info({ mode: era }, "server era found");
    });
  }

  get routes(): Readonly<Partial<Record<RouteName, Route>>> {
    return { endpoint: this.#endpoint.route, ...this.#legacySse?.routes };
  }

  status() {
    return {
      replica: this.#replica,
      ...describeServer(this.#upstreamStatus()),
      asksSince: this.#pool.asksSince,
      lanes: this.#pool.load,
      sessions: this.#sessions.size,
      openStreams: this.#endpoint.connections.size,
      stateless: this.#stateless?.status,
      policy: this.#policy?.status,
    };
  }

  /** @returns the names of the visible tools; undefined after a timeout, or if no server is ready. */
  async toolNames(timeoutMs: number): Promise<readonly string[] | undefined> {
    const { tools } = await this.listTools(timeoutMs);
    if (tools === undefined) return undefined;
    const names = this.#policy?.visibleNames(tools) ?? tools.map(({ name }) => name);
    return [...names].filter((name) => typeof name === "string");
  }

  /** Includes hidden tools. */
  listTools(timeoutMs: number): Promise<ToolList> {
    return this.#pool.shared.lane.tools.list(timeoutMs);
  }

  /** @returns the number of sessions. */
  endAllOf(owner: Principal): number {
    const { defects } = this.#context;
    const owned = this.#sessions.ownedBy(owner);
    // A defect at one end must not leave another session to a client whose token is no longer valid.
    for (const session of owned) defects.guard("session end", () => this.#sessions.end(session));
    defects.guard("session end", () => this.#stateless?.endAllOf(owner));
    defects.guard("session end", () => this.#legacySse?.endAllOf(owner));
    return owned.length;
  }

  /** All requests are still served. */
  leave(): void {
    this.#isLeaving = true;
  }

  async drain(): Promise<void> {
    for (const { streams } of this.#sessions.values()) streams.endStandalone();
    await this.#pool.drain();
  }

  /** Takes bounded time; never rejects. */
  stop(): Promise<void> {
    return this.#pool.stop();
  }

  #upstreamStatus(): UpstreamStatus {
    const current = this.#pool.shared.supervisor.status();
    const { draining, kill } = this.#context;
    if (draining.aborted || kill.aborted || this.#isLeaving) return { ...current, state: "stopping" };
    // The discovery client of a pod waits only 5 s for the list. So the server is not ready until its tools are listed.
    return current.state === "ready" && this.#pool.shared.lane.tools.areAwaited ? { ...current, state: "starting" } : current;
  }

  #createServer(profile: Profile, name: string): PooledServer {
    const policy = this.#policy;
    const program = this.#program;
    const { kind, holder } = profile;
    const isShared = kind === "shared";
    // Log lines of the shared lane have no name.
    const context = isShared ? this.#context : contextWith(this.#context, { lane: name });
    const script = this.#scriptOf(profile);
    const readyMs = Math.max(MIN_PROBE_MS, PROBE_BOOTS * this.#bootMs);
    const probeTimeoutMs = kind === "modern" ? Math.min(program.readyTimeoutMs, readyMs) : undefined;
    const supervisor = new Supervisor(context, program, script, holder, probeTimeoutMs);
    const rules = policy?.forLane(context, isShared ? undefined : name);
    const endSession = (session: Session): void => this.#sessions.end(session);
    const lane = new Lane(context, supervisor, endSession, (calls, tools) => this.#routingOf(profile, script, calls, tools), rules);
    const params = new KnownParams(context, lane.tools, policy && ((tools) => policy.visibleNames(tools)));
    const observer = this.#activity?.observeLane(name, kind === "modern");
    return new PooledServer(profile, name, lane, params, supervisor, observer && [observer]);
  }

  #scriptOf(profile: Profile): HandshakeScript {
    const clientInfo = this.#clientInfo;
    const { childEra } = this.#context.config;
    const initialized = INITIALIZED;
    if (profile.kind === "private") {
      const { initialize, streams, terms } = profile;
      // The client of a session that returns has sent its own at another replica.
      const wasInitialized = terms !== undefined || streams.isTakenUp;
      return { first: clientAttempt(initialize), initialized: wasInitialized ? initialized : undefined };
    }
    if (profile.kind === "modern") return { first: discoverAttempt(clientInfo), initialized };
    if (profile.kind === "asking") return { first: initializeAttempt(clientInfo, "", capabilitiesFor(profile.offered)), initialized };
    if (childEra === "modern") return { first: discoverAttempt(clientInfo, SESSIONS_HINT), initialized };
    if (childEra === "legacy") return { first: initializeAttempt(clientInfo, ERA_HINT), initialized };
    return { first: initializeAttempt(clientInfo), second: discoverAttempt(clientInfo), initialized };
  }

  /** @param script gets the `notifications/initialized` of the client, for later runs. */
  #routingOf(profile: Profile, script: HandshakeScript, calls: Calls, tools: ServerTools): Routing {
    if (profile.kind === "private") {
      const onInitialized = (text: string): void => void (script.initialized = text);
      const first = new PrivateSession(calls, tools, profile.streams, profile.terms === undefined ? onInitialized : undefined);
      return new Routing(calls, tools, "legacy", first);
    }
    const isModern = profile.kind === "modern" || this.#context.config.childEra === "modern";
    const onFree = profile.kind === "asking" ? () => this.#pool.findAgain(profile.holder, profile.offered) : undefined;
    return new Routing(calls, tools, isModern ? "modern" : "legacy", undefined, onFree);
  }
}
