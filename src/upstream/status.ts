import type { ChildExit } from "./child-process.ts";
import type { RunEnd } from "./run-end.ts";

export type SupervisorState = "starting" | "ready" | "backing-off" | "stopping" | "failed";

export interface LastExit extends ChildExit, RunEnd {
  readonly generation: number;
  readonly at: Date;
  /** The last lines the server wrote to stderr, with secrets masked. */
  readonly stderrTail: readonly string[];
}

export interface SupervisorStatus {
  /** `failed` in a crash loop, also while it is tried again, and once it was given up. */
  readonly state: SupervisorState;
  readonly generation: number;
  readonly pid: number | undefined;
  readonly restarts: number;
  readonly lastExit: LastExit | undefined;
  /** When the next start is due; undefined while one runs. */
  readonly nextRetryAt: Date | undefined;
}

/** Why a supervisor gave up. */
export type SupervisorFailure =
  /** The very first start found no program to run. */
  | { readonly kind: "command-unusable"; readonly spawnErrorCode: string }
  /** RESTART_LIMIT is reached. */
  | { readonly kind: "restart-limit"; readonly restarts: number };
