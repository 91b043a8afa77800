import { CrashLoop, type CrashLoopOptions, type CrashLoopState } from "./crash-loop.ts";

export interface RestartPolicyOptions {
  /** The first pause of a streak, before jitter. */
  readonly firstPauseMs: number;
  /** No pause is longer; also how long a run must last to count as stable and end the streak. */
  readonly longestPauseMs: number;
  readonly crashLoop: CrashLoopOptions;
  /** How many restarts a streak may have; undefined for any number. */
  readonly restartLimit: number | undefined;
  /** From 0 to 1, as `Math.random`. */
  readonly random: () => number;
}

export interface RestartDecision {
  /** How long to pause before the next start; undefined where there shall be none. */
  readonly pauseMs: number | undefined;
  readonly crashLoop: CrashLoopState;
}

/**
 * Whether to start again after a run has ended, and when. Pauses double from the first to the longest while runs end early. A handshake
 * alone proves nothing: only a run that outlasts the longest pause starts over. Jitter takes up to a quarter off, but never goes below
 * the first pause, so that many sidecars that lost the same dependency do not come back in step. In a crash loop every pause is the
 * longest.
 */
export class RestartPolicy {
  readonly #options: RestartPolicyOptions;
  readonly #crashLoop: CrashLoop;
  /** Restarts with no stable run between them. */
  #streak = 0;

  constructor(options: RestartPolicyOptions) {
    this.#options = options;
    this.#crashLoop = new CrashLoop(options.crashLoop);
  }

  /** To be called once per ended run, with the time from ready to exit; 0 for one that never got ready. */
  afterEnd(runMs: number, nowMs: number): RestartDecision {
    const { firstPauseMs, longestPauseMs, restartLimit, random } = this.#options;
    const crashLoop = this.#crashLoop.afterEnd(runMs, nowMs);
    this.#streak = runMs >= longestPauseMs ? 0 : this.#streak;
    if (restartLimit !== undefined && this.#streak >= restartLimit) return { pauseMs: undefined, crashLoop };
    const pauseMs = crashLoop === "none" ? Math.min(longestPauseMs, firstPauseMs * 2 ** this.#streak) : longestPauseMs;
    this.#streak++;
    const shortestMs = Math.min(firstPauseMs, longestPauseMs);
    return { pauseMs: Math.round(Math.max(shortestMs, pauseMs * (1 - random() / 4))), crashLoop };
  }
}
