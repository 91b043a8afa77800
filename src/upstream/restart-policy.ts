import { CrashLoop, type CrashLoopOptions, type CrashLoopState } from "./crash-loop.ts";

export interface RestartPolicyOptions {
  /** The first pause of a streak, before jitter. */
  readonly firstPauseMs: number;
  /** The longest pause; also the shortest run that counts as stable and ends the streak. */
  readonly longestPauseMs: number;
  readonly crashLoop: CrashLoopOptions;
  /** The most restarts in a streak; undefined for no limit. */
  readonly restartLimit: number | undefined;
  /** Returns a number from 0 to 1, as `Math.random` does. */
  readonly random: () => number;
}

export interface RestartDecision {
  /** The pause before the next start; undefined if there must be none. */
  readonly pauseMs: number | undefined;
  readonly crashLoop: CrashLoopState;
}

/**
 * Decides after each exit whether the server is restarted, and after which pause. Pauses double from the first to the longest while runs
 * are short. A handshake alone does not reset them; only a run that is longer than the longest pause does. Jitter shortens a pause by up to
 * a quarter, but not below the first pause. Without it, many sidecars that lost the same dependency would restart in step. In a crash loop
 * every pause is the longest.
 */
export class RestartPolicy {
  readonly #options: RestartPolicyOptions;
  readonly #crashLoop: CrashLoop;
  /** The number of restarts since the last stable run. */
  #streak = 0;

  constructor(options: RestartPolicyOptions) {
    this.#options = options;
    this.#crashLoop = new CrashLoop(options.crashLoop);
  }

  /** Records an exit. To be called once for each run. @param runMs from ready to exit; 0 for a run that was never ready. */
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
