import type { RequestEnding } from "../observe/record.ts";
import type { describeExit, laneLoads, Status } from "./health.ts";

/** The length of each history, in the sidecar and in the page. */
export const HISTORY_LIMITS = { seconds: 120, requests: 200, logLines: 200, generations: 30 } as const;

/** One event of the page's stream. The first has the whole history, and later ones have the new part. */
export interface PageUpdate {
  readonly state: PageState;
  /** The seconds that have passed, oldest first. */
  readonly seconds: readonly PageSecond[];
  /** The requests that have ended, oldest first. */
  readonly requests: readonly PageRequest[];
  /** Lines of the log, oldest first, as JSON with secrets masked. A longer one is shortened, so it is not JSON. */
  readonly logLines: readonly string[];
  /** All kept generations, oldest first, if one of them has changed. */
  readonly generations: readonly PageGeneration[] | undefined;
}

/** What the page shows of `/status`, and its other data. */
export interface PageState extends Omit<Status, "lanes" | "counters" | "policy"> {
  /** The command and its arguments, with secrets masked. */
  readonly command: readonly string[];
  /** The path of the MCP endpoint; null if it has another address, so the page can neither list tools nor call them. */
  readonly endpointPath: string | null;
  /** True if each client with a session gets a server of its own, so that even a list of tools starts one. */
  readonly isIsolated: boolean;
  /** True if a call whose tool may ask questions is sent to a process of its own. */
  readonly hasOwnServerForQuestions: boolean;
  readonly lanes: ReturnType<typeof laneLoads>;
}

/** The requests that have ended in one second, with its number since the epoch. `timed` are those that have a duration, because they were read. */
export interface PageSecond {
  readonly number: number;
  requests: number;
  errors: number;
  timed: number;
  totalMs: number;
  longestMs: number;
}

export interface PageRequest {
  /** The time of its end, in milliseconds since the epoch. */
  readonly at: number;
  /** Shortened; null if the request was rejected before it was read. */
  readonly method: string | null;
  /** Shortened; null for any but `tools/call`. */
  readonly tool: string | null;
  /** Null if the request was rejected before it was read. */
  readonly durationMs: number | null;
  /** `tool_error` for a result that the tool itself marks as an error. */
  readonly ending: RequestEnding | "tool_error";
}

export interface PageGeneration {
  /** The lane of its server: `shared`, or the name of another one in the log. */
  readonly lane: string;
  /** Counted from 1 in each lane. */
  readonly number: number;
  /** In milliseconds since the epoch, as is `readyAt`. */
  readonly startedAt: number;
  /** Null until it is ready. */
  readonly readyAt: number | null;
  /** Null while it runs. */
  readonly exit: ReturnType<typeof describeExit> | null;
}
