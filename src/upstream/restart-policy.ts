export interface RestartPolicyOptions {
  /** The first pause of a streak, before jitter. */
  readonly firstPauseMs: number;
  /** No pause is longer; also how long a run must last to count as stable and end the streak. */
  readonly longestPauseMs: number;
  /** From 0 to 1, as `Math.random`. */
  readonly random: () => number;
}

/**
 * How long to pause before the next start. Pauses double from the first to the longest while runs end early. A handshake alone proves
 * nothing: only a run that outlasts the longest pause starts over. Jitter takes up to a quarter off, but never goes below the first
 * pause, so that many sidecars that lost the same dependency do not come back in step.
 */
export class RestartPolicy {
  readonly #options: RestartPolicyOptions;
  #streak = 0;

  constructor(options: RestartPolicyOptions) {
    this.#options = options;
  }

  /** To be called once per ended run, with the time from ready to exit; 0 for one that never got ready. */
  nextPauseMs(runMs: number): number {
    const { firstPauseMs, longestPauseMs, random } = this.#options;
    this.#streak = runMs >= longestPauseMs ? 0 : this.#streak;
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** this.#streak);
    this.#streak++;
    return Math.round(Math.max(Math.min(firstPauseMs, longestPauseMs), pauseMs * (1 - random() / 4)));
  }
}
