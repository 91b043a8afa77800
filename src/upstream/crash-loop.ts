export interface CrashLoopOptions {
  /** So many ends within the period are a crash loop. */
  readonly exits: number;
  readonly periodMs: number;
}

/** `entered`: with this end; `lasting`: it was one before. */
export type CrashLoopState = "none" | "entered" | "lasting";

/**
 * Intensity and period, as the supervisors of Erlang have them. Once entered, a crash loop lasts until a run has outlasted a whole
 * period: the slow tries alone would thin the ends out until they look harmless, and a server that gets ready for a moment has not
 * shown that it can stay.
 */
export class CrashLoop {
  readonly #options: CrashLoopOptions;
  /** When the last runs ended, as many as make a loop. */
  readonly #endsMs: number[] = [];
  #isLooping = false;

  constructor(options: CrashLoopOptions) {
    this.#options = options;
  }

  /** To be called at each end that was not asked for, with the time from ready to end; 0 for a run that never got ready. */
  afterEnd(runMs: number, nowMs: number): CrashLoopState {
    const { exits, periodMs } = this.#options;
    this.#endsMs.push(nowMs);
    if (this.#endsMs.length > exits) this.#endsMs.shift();
    const wasLooping = this.#isLooping && runMs < periodMs;
    const [firstMs = 0] = this.#endsMs;
    this.#isLooping = wasLooping || (this.#endsMs.length === exits && nowMs - firstMs < periodMs);
    if (!this.#isLooping) return "none";
    return wasLooping ? "lasting" : "entered";
  }
}
