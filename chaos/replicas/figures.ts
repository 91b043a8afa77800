// The results that only several replicas have.

import type { Ledger } from "../ledger.ts";
import type { ServerProcesses } from "../server-processes.ts";
import type { WrapperEnd } from "../wrapper-process.ts";
import type { Fleet } from "./fleet.ts";

export interface ReplicaFigures {
  readonly count: number;
  /** Calls that servers have executed more than once. */
  readonly executedTwice: readonly string[];
  /** Sessions that ended although their clients had not ended them. */
  readonly sessionEnds: readonly string[];
  /** Replicas that still said 200 at their health URL after SIGTERM. */
  readonly slowToLeave: number;
  /** Replicas that were not ready after the faults. */
  readonly unready: number;
  /** Requests that a replica refused between SIGTERM and its drain. */
  readonly refusedEarly: number;
  /** Streams of calls whose replica was killed, and that were resumed at another one. */
  readonly streamsResumed: number;
}

export function figuresOf(fleet: Fleet, servers: ServerProcesses, { sessionEnds, streamsResumed }: Ledger): ReplicaFigures {
  const { slowToLeave, unready, refusedEarly } = fleet;
  return {
    count: fleet.wrappers.length,
    executedTwice: servers.repeatedCalls(),
    sessionEnds,
    slowToLeave,
    unready,
    refusedEarly,
    streamsResumed,
  };
}

/** Returns the end that is the furthest from a good one: one by force, then one with another exit code, then the slowest. */
export function worst(ends: readonly WrapperEnd[]): WrapperEnd {
  const badness = ({ isForced, exitCode, tookMs }: WrapperEnd): number => tookMs + (isForced ? 2e9 : 0) + (exitCode === 0 ? 0 : 1e9);
  return ends.reduce((found, end) => (badness(end) > badness(found) ? end : found));
}
