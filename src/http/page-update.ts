import type { RequestEnding, RequestHistory } from "../observe/record.ts";
import type { describeExit, laneLoads, Status } from "./health.ts";

export const HISTORY_LIMITS = { seconds: 120, requests: 200, logLines: 200, generations: 30 } as const;

/** The first event of a stream has the whole history, later ones the new part. */
export interface PageUpdate {
  readonly state: PageState;
  /** Oldest first, as all lists here. */
  readonly seconds: readonly Readonly<RequestHistory["seconds"][number]>[];
  readonly requests: readonly PageRequest[];
  /** As JSON with secrets masked; a longer one is shortened, so it is not JSON. */
  readonly logLines: readonly string[];
  /** Undefined if none has changed. */
  readonly generations: readonly PageGeneration[] | undefined;
}

export interface PageState extends Omit<Status, "lanes" | "counters" | "policy"> {
  /** With secrets masked. */
  readonly command: readonly string[];
  /** Null if the endpoint has another address, so the page can neither list tools nor call them. */
  readonly endpointPath: string | null;
  /** Each client with a session gets its own server, so that even a list of tools starts one. */
  readonly isIsolated: boolean;
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
