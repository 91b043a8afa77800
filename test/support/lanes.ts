import { readWhere } from "./in-flight.ts";
import { LaneClient } from "./lane-client.ts";
import type { LogLine, Sidecar } from "./sidecar.ts";

/** For what has to hold for both kinds of servers: the one that all share, and the one that a client has for itself. */
export const LANES = ["shared", "private"] as const;

/** The same as a table for tests that only need a client of each. */
export const LANE_CLIENTS = [
  { lane: "shared", connect: (sidecar: Sidecar) => LaneClient.connectShared(sidecar) },
  { lane: "private", connect: (sidecar: Sidecar) => LaneClient.connect(sidecar) },
] as const;

export type LaneKind = (typeof LANES)[number];

export interface LaneUser {
  readonly client: LaneClient;
  /** The process of its server when it connected. */
  readonly childPid: number;
  /** The first log line, past or future, of this lane. */
  readonly waitForLog: (message: string, accepts?: (line: LogLine) => boolean) => Promise<LogLine>;
  /** The log lines of this lane so far. */
  readonly logLines: (message: string) => LogLine[];
}

/** Connects to a lane of this kind; to be called once for a sidecar. */
export async function useLane(sidecar: Sidecar, kind: LaneKind): Promise<LaneUser> {
  const client = await (kind === "shared" ? LaneClient.connectShared(sidecar) : LaneClient.connect(sidecar));
  const { pid } = await readWhere(client);
  const isOfLane = (line: LogLine): boolean => line["lane"] === (kind === "shared" ? undefined : "private-1");
  return {
    client,
    childPid: pid,
    waitForLog: (message, accepts = () => true) => sidecar.waitForLog(message, (line) => isOfLane(line) && accepts(line)),
    logLines: (message) => sidecar.logLines.filter((line) => line.msg === message && isOfLane(line)),
  };
}
