import { readWhere } from "./in-flight.ts";
import { LaneClient } from "./lane-client.ts";
import type { LogLine, RunningSidecar } from "./running-sidecar.ts";

/** The kinds of lanes, for behaviours that hold for both: with the shared server and with a private one. */
export const LANES = ["shared", "private"] as const;

/** The same as a table for tests that only need a client of each kind. */
export const LANE_CLIENTS = [
  { lane: "shared", connect: (sidecar: RunningSidecar) => LaneClient.connectShared(sidecar) },
  { lane: "private", connect: (sidecar: RunningSidecar) => LaneClient.connect(sidecar) },
] as const;

export type LaneKind = (typeof LANES)[number];

export interface LaneUser {
  readonly client: LaneClient;
  /** The server's process at the time of the connection. */
  readonly childPid: number;
  /** Returns the first log line, past or future, of this lane. */
  readonly waitForLog: (message: string, accepts?: (line: LogLine) => boolean) => Promise<LogLine>;
  /** Returns the log lines of this lane so far. */
  readonly logLines: (message: string) => LogLine[];
}

/** Connects to a lane of this kind. Call it once for a sidecar. */
export async function useLane(sidecar: RunningSidecar, kind: LaneKind): Promise<LaneUser> {
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
