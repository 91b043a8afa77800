import { addLoads } from "../../lane/lane-load.ts";
import type { MemoryBudget } from "../../memory/memory-budget.ts";
import type { ServerStatus } from "../status-route.ts";
import type { PageLane, PageState } from "./page-update.ts";

export interface PageStateOptions extends Pick<PageState, "version" | "command" | "endpointPath" | "isIsolated"> {
  /** True if clients that can be asked get servers of their own. */
  readonly isolatesQuestions: boolean;
  readonly status: () => ServerStatus;
  readonly memory: Pick<MemoryBudget, "status">;
  readonly nowMs: () => number;
}

/** Creates a function that returns the present state for the page. */
export function createReadState(options: PageStateOptions): () => PageState {
  const { version, command, endpointPath, isIsolated, isolatesQuestions, memory, nowMs } = options;
  const startedAtMs = nowMs();

  return () => {
    const status = options.status();
    const { upstream, sessions, openStreams, stateless } = status;
    const { state, pid, generation, restarts, readyAt, nextRetryAt, lastExit } = upstream;
    const exit = state === "ready" ? undefined : lastExit;
    const { limitBytes, usedBytes } = memory.status;
    return {
      version,
      uptimeMs: Math.round(nowMs() - startedAtMs),
      command,
      endpointPath,
      isIsolated,
      hasOwnServerForQuestions: isolatesQuestions && stateless?.serverEra !== "modern",
      state,
      pid: pid ?? null,
      generation,
      restarts,
      readySince: state === "ready" ? (readyAt?.toISOString() ?? null) : null,
      nextRetryAt: nextRetryAt?.toISOString() ?? null,
      reason: exit?.reason ?? null,
      likelyCause: exit?.likelyCause ?? null,
      sessions,
      statelessClients: stateless?.clients ?? 0,
      openStreams,
      lanes: lanesOf(status),
      memory: { limitBytes, usedBytes },
      rssBytes: process.memoryUsage.rss(),
    };
  };
}

function lanesOf({ upstream, lanes }: ServerStatus): Readonly<Record<string, PageLane>> {
  const { shared, private: ofClients, modern, asking } = lanes;
  const askingLanes = Object.values(asking);
  const servers = askingLanes.reduce((sum, each) => sum + each.servers, 0);
  return {
    shared: laneOf({ ...shared, servers: Number(upstream.pid !== undefined) }),
    private: laneOf(ofClients),
    modern: laneOf(modern),
    asking: laneOf({ ...addLoads(askingLanes), servers }),
  };
}

function laneOf({ requestsInFlight, waiting, queuedBytes, servers }: PageLane): PageLane {
  return { requestsInFlight, waiting, queuedBytes, servers };
}
