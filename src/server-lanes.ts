import type { Counters } from "./observability/counters.ts";
import { describeError } from "./errors.ts";
import { Lane, type LaneOptions } from "./lane/lane.ts";
import type { PrivateClient } from "./lane/lanes.ts";
import type { LanePolicy } from "./lane/lane-policy.ts";
import type { SupervisedLane } from "./lane/pooled-lane.ts";
import type { RivalServers } from "./lane/rival-servers.ts";
import { INITIALIZED, PrivateRouting } from "./lane/routing/private-routing.ts";
import { AnyEraRouting } from "./era/any-era-routing.ts";
import { type AskKinds, capabilitiesFor } from "./era/asks/ask-kinds.ts";
import type { AskingLane } from "./era/asks/asking-lanes.ts";
import { AskingRouting } from "./era/asks/asking-routing.ts";
import type { KnownParams } from "./era/checks/known-params.ts";
import { ModernRouting } from "./era/modern-routing.ts";
import type { ChildEraMode } from "./era/child-era-mode.ts";
import { type EraLane, knownParams } from "./era/server-eras.ts";
import { type Log, withFields } from "./observability/log.ts";
import type { MemoryHolder } from "./memory/memory-budget.ts";
import type { Secrets } from "./observability/redact.ts";
import type { JsonObject, RequestMessage } from "./protocol/message.ts";
import { STOP_GRACES } from "./upstream/child-process.ts";
import type { UpstreamObserver } from "./upstream/port.ts";
import { AnyEraHandshake } from "./upstream/handshake/any-era-handshake.ts";
import { ClientHandshake } from "./upstream/handshake/client-handshake.ts";
import { type ClientInfo, DiscoverHandshake, type HandshakeScript, SidecarHandshake } from "./upstream/handshake/handshake.ts";
import type { OutputMemory } from "./upstream/output-memory.ts";
import type { ChildCommand, StartProcess } from "./upstream/process-group.ts";
import { RestartPolicy, type RestartPolicyOptions } from "./upstream/restart-policy.ts";
import { type ReadyTimeout, Supervisor, type SupervisorFailure } from "./upstream/supervisor.ts";

/** For a server that gets `initialize` only. */
const ERA_HINT = "; a server without sessions needs MODERN=on, CHILD_ERA=auto or modern, and no ISOLATION=session";

/** For a server that gets `server/discover` only. */
const SESSIONS_HINT = "; a server with sessions needs CHILD_ERA=auto or legacy";

/** The name of the shared lane for observers. Its log lines have none. */
const SHARED_LANE = "shared";

/** The tool policy of all lanes of a server. */
interface ServerPolicy {
  /** @param lane the name of a private lane in the log. */
  forLane(log: Log, lane?: string): LanePolicy;
  /** Returns the names of the listed tools that clients can see. */
  visibleNames(tools: readonly JsonObject[]): ReadonlySet<string>;
  /** The fields for `/status`; undefined if there are none. */
  readonly status: object | undefined;
}

export interface ServerLanesOptions extends Pick<LaneOptions, "limits" | "retry" | "endSession"> {
  readonly command: ChildCommand;
  readonly startProcess: StartProcess;
  /** The sidecar, for its own handshake. */
  readonly clientInfo: ClientInfo;
  readonly readyTimeout: ReadyTimeout;
  readonly restarts: Omit<RestartPolicyOptions, "random">;
  /** The operator's rules about tools; undefined if there are none. */
  readonly policy: ServerPolicy | undefined;
  /** Undefined if all clients share one server. */
  readonly rivals: RivalServers | undefined;
  /** Returns an observer of a lane's server. The end of a probe is no failure. Undefined if nothing observes them. */
  readonly observeLane: ((lane: string, isProbe: boolean) => UpstreamObserver) | undefined;
  readonly outputMemory: OutputMemory;
  readonly counters: Counters;
  readonly log: Log;
  readonly secrets: Secrets;
  readonly nowMs: () => number;
}

/** The shared lane, with the parts of its supervision that only the sidecar needs. */
export interface SharedLane extends SupervisedLane {
  readonly supervisor: Pick<Supervisor, "status" | "firstReady">;
  /** Resolves when the supervisor has given up, or to undefined when it is stopped. Rejects only because of a defect. */
  readonly failed: Promise<SupervisorFailure | undefined>;
}

/** Starts the lane of all clients that need no server of their own. Its server gets the sidecar's own handshake. */
export function startSharedLane(options: ServerLanesOptions, era: ChildEraMode): SharedLane & EraLane {
  const { clientInfo, log } = options;
  if (era === "modern") return startModernLane(options, undefined);
  const params: KnownParams = knownParams(() => shared.lane, options.nowMs, visibleNames(options));
  let routing: AnyEraRouting | undefined;
  const shared: SharedLane = startLane(options, {
    handshake: era === "legacy" ? new SidecarHandshake(clientInfo, ERA_HINT) : new AnyEraHandshake(clientInfo),
    createRouting: (access) => (routing = new AnyEraRouting(access, () => params.forget())),
    log,
  });
  if (routing === undefined) throw new Error("the lane has no routing");
  return { ...shared, routing: routing.modern, params };
}

/** True if the server has no sessions. Undefined until its first handshake, while it may still become ready. */
export function isStateless({ lane, supervisor }: SharedLane, childEra: ChildEraMode): boolean | undefined {
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
export function startModernLane(options: ServerLanesOptions, probe?: EraProbe): SharedLane & EraLane {
  const { clientInfo, log } = options;
  const params: KnownParams = knownParams(() => modern.lane, options.nowMs, visibleNames(options));
  let routing: ModernRouting | undefined;
  const modern: SharedLane = startLane(options, {
    handshake: new DiscoverHandshake(clientInfo, probe === undefined ? SESSIONS_HINT : ""),
    createRouting: (access) => (routing = new ModernRouting(access, () => params.forget())),
    log: probe === undefined ? log : withFields(log, { lane: probe.name }),
    ...(probe === undefined ? {} : { name: probe.name, observer: probe.observer, probeTimeoutMs: probe.timeoutMs }),
  });
  if (routing === undefined) throw new Error("the lane has no routing");
  return { ...modern, routing, params };
}

/** Starts a lane whose server may ask these questions. @param onChanged called when it is free for other calls, or no longer is. */
export function startAskingLane(options: ServerLanesOptions, name: string, kinds: AskKinds, onChanged: () => void): AskingLane {
  const params: KnownParams = knownParams(() => asking.lane, options.nowMs, visibleNames(options));
  let routing: AskingRouting | undefined;
  const asking: SharedLane = startLane(options, {
    handshake: new SidecarHandshake(options.clientInfo, "", capabilitiesFor(kinds)),
    createRouting: (access) => (routing = new AskingRouting(access, () => params.forget(), onChanged)),
    log: withFields(options.log, { lane: name }),
    name,
  });
  if (routing === undefined) throw new Error("the lane has no routing");
  return { ...asking, routing, params };
}

function visibleNames({ policy }: ServerLanesOptions): ServerPolicy["visibleNames"] | undefined {
  return policy === undefined ? undefined : (tools) => policy.visibleNames(tools);
}

/** Starts the lane of one client. Its server gets the client's own `initialize` at every start. @param start the time of the first one. */
export function startPrivateLane(
  options: ServerLanesOptions,
  name: string,
  initialize: RequestMessage,
  { streams, memory, isTakenUp }: PrivateClient,
  start: Promise<void> | undefined,
): SupervisedLane {
  const handshake = new ClientHandshake(initialize);
  const onInitialized = (text: string): void => handshake.keepInitialized(text);
  if (isTakenUp) onInitialized(INITIALIZED);
  return startLane(options, {
    handshake,
    createRouting: (access) => new PrivateRouting(access, { streams, memory, onInitialized, isInitialized: isTakenUp }),
    log: withFields(options.log, { lane: name }),
    name,
    start,
    client: memory.holder,
  });
}

interface LaneKind extends Pick<LaneOptions, "createRouting" | "log"> {
  readonly handshake: HandshakeScript;
  readonly name?: string;
  /** The server starts when this resolves; undefined for at once. */
  readonly start?: Promise<void> | undefined;
  /** The client of a private server. */
  readonly client?: MemoryHolder;
  readonly observer?: UpstreamObserver;
  readonly probeTimeoutMs?: number;
}

/** Starts a supervised server, and the lane that it serves. */
function startLane(options: ServerLanesOptions, kind: LaneKind): SharedLane {
  const { handshake, createRouting, log, name, start, observer, probeTimeoutMs, client } = kind;
  const { command, startProcess, readyTimeout, restarts, limits, retry, endSession, outputMemory, counters, secrets, nowMs } = options;
  const supervisor = new Supervisor({
    command,
    startProcess,
    limits: { maxLineBytes: limits.maxLineBytes, ...STOP_GRACES },
    handshake,
    readyTimeout,
    isShared: name === undefined,
    probeTimeoutMs,
    restartPolicy: new RestartPolicy({ ...restarts, random: Math.random }),
    memory: outputMemory.forServer(client),
    counters,
    log,
    secrets,
    nowMs,
  });
  const policy = options.policy?.forLane(log, name);
  const lane = new Lane({ upstream: supervisor, limits, retry, counters, log, nowMs, endSession, createRouting, policy });
  const observers = [observer, options.rivals?.watch(), options.observeLane?.(name ?? SHARED_LANE, probeTimeoutMs !== undefined)];
  const run = (): Promise<SupervisorFailure | undefined> =>
    supervisor.run(lane, observeAll(observers.filter((each) => each !== undefined)));
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
    kill: () => supervisor.kill(),
  };
}

function observeAll(observers: readonly UpstreamObserver[]): UpstreamObserver {
  return {
    onStarted(input) {
      for (const each of observers) each.onStarted(input);
    },
    onReady(handshake) {
      for (const each of observers) each.onReady(handshake);
    },
    onLost(exit, unwritten) {
      for (const each of observers) each.onLost(exit, unwritten);
    },
  };
}
