import type { Counters } from "./observability/counters.ts";
import { describeError } from "./errors.ts";
import { Lane, type LaneOptions } from "./lane/lane.ts";
import type { LanePolicy } from "./lane/lane-policy.ts";
import type { SupervisedLane } from "./lane/pooled-lane.ts";
import type { RivalServers } from "./lane/rival-servers.ts";
import { PrivateRouting } from "./lane/routing/private-routing.ts";
import { SharedRouting } from "./lane/routing/shared-routing.ts";
import { type Log, withFields } from "./observability/log.ts";
import type { MemoryBudget } from "./memory/memory-budget.ts";
import type { Secrets } from "./observability/redact.ts";
import type { JsonObject, RequestMessage } from "./protocol/message.ts";
import type { SessionStreams } from "./sessions/session-streams.ts";
import { type ChildCommand, STOP_GRACES } from "./upstream/child-process.ts";
import { ClientHandshake, type ClientInfo, type HandshakeScript, SidecarHandshake } from "./upstream/handshake.ts";
import { RestartPolicy, type RestartPolicyOptions } from "./upstream/restart-policy.ts";
import { Supervisor, type SupervisorFailure } from "./upstream/supervisor.ts";

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
  /** The sidecar, for its own handshake. */
  readonly clientInfo: ClientInfo;
  readonly readyTimeoutMs: number;
  readonly restarts: Omit<RestartPolicyOptions, "random">;
  /** The operator's rules about tools; undefined if there are none. */
  readonly policy: ServerPolicy | undefined;
  /** Undefined if all clients share one server. */
  readonly rivals: RivalServers | undefined;
  readonly memory: MemoryBudget;
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

/** Starts the lane of all clients that need no server of their own. Its server gets the sidecar's own `initialize`. */
export function startSharedLane(options: ServerLanesOptions): SharedLane {
  return startLane(options, {
    handshake: new SidecarHandshake(options.clientInfo),
    createRouting: (access) => new SharedRouting(access),
    log: options.log,
  });
}

/** Starts the lane of one client. Its server gets the client's own `initialize` at every start. @param start the time of the first one. */
export function startPrivateLane(
  options: ServerLanesOptions,
  name: string,
  initialize: RequestMessage,
  streams: SessionStreams,
  start: Promise<void> | undefined,
): SupervisedLane {
  const handshake = new ClientHandshake(initialize);
  const onInitialized = (text: string): void => handshake.keepInitialized(text);
  return startLane(options, {
    handshake,
    createRouting: (access) => new PrivateRouting(access, { streams, onInitialized }),
    log: withFields(options.log, { lane: name }),
    name,
    start,
  });
}

interface LaneKind extends Pick<LaneOptions, "createRouting" | "log"> {
  readonly handshake: HandshakeScript;
  readonly name?: string;
  /** The server starts when this resolves; undefined for at once. */
  readonly start?: Promise<void> | undefined;
}

/** Starts a supervised server, and the lane that it serves. */
function startLane(options: ServerLanesOptions, { handshake, createRouting, log, name, start }: LaneKind): SharedLane {
  const { command, readyTimeoutMs, restarts, limits, retry, endSession, memory, counters, secrets, nowMs } = options;
  const supervisor = new Supervisor({
    command,
    limits: { maxLineBytes: limits.maxLineBytes, ...STOP_GRACES },
    handshake,
    readyTimeoutMs,
    restartPolicy: new RestartPolicy({ ...restarts, random: Math.random }),
    memory,
    counters,
    log,
    secrets,
    nowMs,
  });
  const policy = options.policy?.forLane(log, name);
  const lane = new Lane({ upstream: supervisor, limits, retry, counters, log, nowMs, endSession, createRouting, policy });
  const listener = options.rivals?.watch(lane) ?? lane;
  const failed = start === undefined ? supervisor.run(listener) : start.then(() => supervisor.run(listener));
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
