import type { RequestEnding } from "../observe/record.ts";
import type { UpstreamStatus } from "../process/port.ts";
import type { LaneLoad } from "../server/call.ts";

/** The length of each history, in the sidecar and in the page. */
export const HISTORY_LIMITS = { seconds: 120, requests: 200, logLines: 200, generations: 30 } as const;

/** One event of the page's stream. The first has the whole history, and later ones have the new part. All times are in ISO 8601. */
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

export interface PageState {
  readonly version: string;
  readonly uptimeMs: number;
  /** The command and its arguments, with secrets masked. */
  readonly command: readonly string[];
  /** The path of the MCP endpoint; null if it has another address, so the page can neither list tools nor call them. */
  readonly endpointPath: string | null;
  /** True if each client with a session gets a server of its own, so that even a list of tools starts one. */
  readonly isIsolated: boolean;
  /** True if a call whose tool may ask questions is sent to a process of its own. */
  readonly hasOwnServerForQuestions: boolean;
  readonly state: UpstreamStatus["state"];
  readonly pid: number | null;
  readonly generation: number;
  readonly restarts: number;
  /** Null if it is not ready. */
  readonly readySince: string | null;
  /** Null while a generation runs. */
  readonly nextRetryAt: string | null;
  /** The reason of the last exit, if the server is not ready. */
  readonly reason: string | null;
  readonly likelyCause: string | null;
  readonly sessions: number;
  readonly statelessClients: number;
  readonly openStreams: number;
  /** `shared`, `private`, `modern` and `asking`, as in `/status`; those of `asking` are added. */
  readonly lanes: Readonly<Record<string, PageLane>>;
  readonly memory: { readonly limitBytes: number; readonly usedBytes: number };
  readonly rssBytes: number;
}

export interface PageLane extends LaneLoad {
  readonly servers: number;
}

export interface PageSecond {
  /** The time of its beginning. */
  readonly at: string;
  readonly requests: number;
  /** Those of `requests` that ended with an error, of the server or the sidecar. */
  readonly errors: number;
  /** Those of `requests` that have a duration, because they were read. */
  readonly timed: number;
  /** From the arrival to the response; null if `timed` is 0. */
  readonly meanMs: number | null;
  readonly longestMs: number | null;
}

export interface PageRequest {
  /** The time of its end. */
  readonly at: string;
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
  readonly startedAt: string;
  /** Null until it is ready. */
  readonly readyAt: string | null;
  /** Null while it runs. */
  readonly exit: PageExit | null;
}

export interface PageExit {
  readonly at: string;
  readonly kind: string;
  readonly reason: string;
  readonly likelyCause: string | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** The last lines of stderr, with secrets masked. */
  readonly stderrTail: readonly string[];
}
