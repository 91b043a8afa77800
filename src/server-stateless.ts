import { RequestState } from "./era/request-state.ts";
import type { ChildEraMode } from "./era/child-era-mode.ts";
import { type EraLane, ServerEras } from "./era/server-eras.ts";
import { StatelessRequests } from "./era/stateless-requests.ts";
import { AskingLanes, serversPerClient } from "./era/asks/asking-lanes.ts";
import { ParkedCalls } from "./era/asks/parked-calls.ts";
import type { ServerStatus } from "./http/status-route.ts";
import type { Isolation } from "./lane/isolation.ts";
import { addLoads } from "./lane/lane-load.ts";
import type { SupervisedLane } from "./lane/pooled-lane.ts";
import { TaskOwners } from "./lane/tasks/task-owners.ts";
import type { Defects } from "./observability/defects.ts";
import type { SessionKeys } from "./sessions/ids/session-keys.ts";
import { type ServerLanesOptions, type SharedLane, startAskingLane, startModernLane } from "./server-lanes.ts";

export interface StatelessSettings {
  readonly isolation: Isolation;
  readonly childEra: ChildEraMode;
  /** Serves requests without a session. */
  readonly modern: "on" | "off";
  readonly maxSessions: number;
  /** The maximum number of processes that may ask their clients. */
  readonly maxPrivateServers: number;
  /** The time without use after which such a process ends. */
  readonly sessionIdleTimeoutMs: number;
  readonly parkTimeoutMs: number;
  readonly maxParkedCalls: number;
}

interface ReplicaSettings {
  /** True if clients have different auth tokens. */
  readonly hasSeveralPrincipals: boolean;
  readonly keys: SessionKeys;
  /** The name of this process. */
  readonly replica: string;
}

/** With `session`, each client has a server of its own. Clients without a session could not be told apart. */
export function servesStateless({ modern, isolation }: StatelessSettings): boolean {
  return modern === "on" && isolation !== "session";
}

/** The parts for requests without a session. */
export interface Stateless {
  readonly eras: ServerEras;
  readonly requests: StatelessRequests;
}

/** The time in which a second process answers a discovery: this, or some times as long as the first process took to be ready. */
const MIN_PROBE_MS = 5000;
const PROBE_BOOTS = 3;

/** Creates the handling of requests without a session. @returns undefined if it is off. */
export function createStateless(
  settings: StatelessSettings & ReplicaSettings,
  laneOptions: ServerLanesOptions,
  shared: SharedLane & EraLane,
  defects: Defects,
): Stateless | undefined {
  const { isolation, childEra, maxSessions, hasSeveralPrincipals, keys } = settings;
  const { nowMs, log, limits } = laneOptions;
  if (!servesStateless(settings)) return undefined;
  const startedAtMs = nowMs();
  let bootMs = 0;
  void shared.supervisor.firstReady.then(({ era }) => {
    bootMs = nowMs() - startedAtMs;
    if (era === "modern") log.info({ mode: era }, "server era found");
  });
  const probeTimeoutMs = (): number => Math.min(laneOptions.readyTimeout.ms, Math.max(MIN_PROBE_MS, PROBE_BOOTS * bootMs));
  const asks = isolation === "shared" ? undefined : createAsks(settings, laneOptions, defects);
  const eras = new ServerEras({
    shared,
    asking: asks?.lanes,
    startModern: (observer) => startModernLane(laneOptions, { name: "modern", observer, timeoutMs: probeTimeoutMs() }),
    askAgainAfterMs: laneOptions.restarts.longestPauseMs,
    mayProbe: childEra === "auto" && isolation !== "shared",
    defects,
    log,
    nowMs,
  });
  const requests = new StatelessRequests(
    {
      eras,
      maxClients: maxSessions,
      bindings: hasSeveralPrincipals ? { requestState: new RequestState(keys), tasks: new TaskOwners() } : undefined,
      parked: asks?.parked,
      maxClientRequests: limits.maxSessionRequests,
      defects,
      nowMs,
      streamAfterMs: limits.streamAfterMs,
    },
    (client) => eras.endCaller(client),
  );
  return { eras, requests };
}

interface Asks {
  readonly lanes: AskingLanes;
  readonly parked: ParkedCalls;
}

function createAsks(settings: StatelessSettings & ReplicaSettings, laneOptions: ServerLanesOptions, defects: Defects): Asks {
  const {
    maxPrivateServers: maxServers,
    sessionIdleTimeoutMs: idleTimeoutMs,
    parkTimeoutMs: timeoutMs,
    maxParkedCalls: maxParked,
    replica,
  } = settings;
  const { nowMs, log } = laneOptions;
  return {
    lanes: new AskingLanes({ start: (...lane) => startAskingLane(laneOptions, ...lane), maxServers, idleTimeoutMs, defects, log, nowMs }),
    parked: new ParkedCalls({ maxParked, maxServersPerClient: serversPerClient(maxServers), timeoutMs, replica, defects, nowMs }),
  };
}

/** Returns the load of the second process. */
export function loadOf(modern: SupervisedLane | undefined): ServerStatus["lanes"]["modern"] {
  const all = modern === undefined ? [] : [modern.lane.load];
  return { servers: all.length, ...addLoads(all) };
}
