import type { RequestEnding, RequestHistory } from "../observe/record.ts";
import type { describeExit, laneLoads, Status } from "./health.ts";

/** In the sidecar and in the page. */
export const HISTORY_LIMITS = { seconds: 120, requests: 200, logLines: 200, generations: 30 } as const;

/** One event of the page's stream. The first has the whole history, and later ones have the new part. */
export interface PageUpdate {
  readonly state: PageState;
  /** Oldest first, as all lists here. */
  readonly seconds: readonly Readonly<RequestHistory["seconds"][number]>[];
  readonly requests: readonly PageRequest[];
  /** As JSON with secrets masked. A longer one is shortened, so it is not JSON. */
  readonly logLines: readonly string[];
  /** Undefined if none has changed. */
  readonly generations: readonly PageGeneration[] | undefined;
}

/** What the page shows of `/status`, and its other data. */
export interface PageState extends Omit<Status, "lanes" | "counters" | "policy"> {
  /** With secrets masked. */
  readonly command: readonly string[];
  /** The path of the MCP endpoint; null if it has another address, so the page can neither list tools nor call them. */
  readonly endpointPath: string | null;
  /** True if each client with a session gets a server of its own, so that even a list of tools starts one. */
  readonly isIsolated: boolean;
  /** True if a call whose tool may ask questions is sent to a process of its own. */
  readonly hasOwnServerForQuestions: boolean;
  readonly lanes: ReturnType<typeof laneLoads>;
}

export interface PageRequest {
  /** In milliseconds since the epoch. */
  readonly at: number;
  /** Shortened; null if the request was rejected before it was read. */
  readonly method: string | null;
  /** Shortened; null for any but `tools/call`. */
  readonly tool: string | null;
  readonly durationMs: number | null;
  /** `tool_error` for a result that the tool itself marks as an error. */
  readonly ending: RequestEnding | "tool_error";
  readonly isError: boolean;
}

export interface PageGeneration {
  /** The lane of its server: `shared`, or the name of another one in the log. */
  readonly lane: string;
  readonly number: number;
  /** In milliseconds since the epoch, as is `readyAt`. */
  readonly startedAt: number;
  readonly readyAt: number | null;
  readonly exit: ReturnType<typeof describeExit>;
}
