interface CrashLoopOptions {
  /** The number of exits within the period that makes a crash loop. */
  readonly exits: number;
  readonly periodMs: number;
}

/** `entered`: this exit begins a crash loop. `lasting`: the crash loop began earlier. */
type CrashLoopState = "none" | "entered" | "lasting";

/**
 * Detects crash loops by intensity and period, as Erlang's supervisors do. Once entered, a crash loop lasts until a run is longer than a
 * whole period. The rare restarts alone would spread the exits until they look harmless. Being ready for a moment does not show that a
 * server keeps running.
 */
class CrashLoop {
  readonly #options: CrashLoopOptions;
  /** The times of the latest exits, at most as many as make a crash loop. */
  readonly #exitsMs: number[] = [];
  #isLooping = false;

  constructor(options: CrashLoopOptions) {
    this.#options = options;
  }

  /** Records an exit that was not requested. @param runMs from ready to exit; 0 for a run that was never ready. */
  afterEnd(runMs: number, nowMs: number, isCounted: boolean): CrashLoopState {
    const { exits, periodMs } = this.#options;
    if (!isCounted) return this.#isLooping ? "lasting" : "none";
    this.#exitsMs.push(nowMs);
    if (this.#exitsMs.length > exits) this.#exitsMs.shift();
    const wasLooping = this.#isLooping && runMs < periodMs;
    const [firstMs = 0] = this.#exitsMs;
    this.#isLooping = wasLooping || (this.#exitsMs.length === exits && nowMs - firstMs < periodMs);
    if (!this.#isLooping) return "none";
    return wasLooping ? "lasting" : "entered";
  }
}

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

  /**
   * Records an exit. To be called once for each run.
   *
   * @param runMs from ready to exit; 0 for a run that was never ready.
   * @param isFailure false if the next start gets more time: it may then be ready, so this exit does not count for a crash loop.
   */
  afterEnd(runMs: number, nowMs: number, isFailure = true): RestartDecision {
    const { firstPauseMs, longestPauseMs, restartLimit, random } = this.#options;
    const crashLoop = this.#crashLoop.afterEnd(runMs, nowMs, isFailure);
    this.#streak = runMs >= longestPauseMs ? 0 : this.#streak;
    if (restartLimit !== undefined && this.#streak >= restartLimit) return { pauseMs: undefined, crashLoop };
    const pauseMs = crashLoop === "none" ? Math.min(longestPauseMs, firstPauseMs * 2 ** this.#streak) : longestPauseMs;
    this.#streak++;
    const shortestMs = Math.min(firstPauseMs, longestPauseMs);
    return { pauseMs: Math.round(Math.max(shortestMs, pauseMs * (1 - random() / 4))), crashLoop };
  }
}
