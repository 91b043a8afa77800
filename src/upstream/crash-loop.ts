export interface CrashLoopOptions {
  /** The number of exits within the period that makes a crash loop. */
  readonly exits: number;
  readonly periodMs: number;
}

/** `entered`: this exit begins a crash loop. `lasting`: the crash loop began earlier. */
export type CrashLoopState = "none" | "entered" | "lasting";

/**
 * Detects crash loops by intensity and period, as Erlang's supervisors do. Once entered, a crash loop lasts until a run is longer than a
 * whole period. The rare restarts alone would spread the exits until they look harmless. Being ready for a moment does not show that a
 * server keeps running.
 */
export class CrashLoop {
  readonly #options: CrashLoopOptions;
  /** The times of the latest exits, at most as many as make a crash loop. */
  readonly #exitsMs: number[] = [];
  #isLooping = false;

  constructor(options: CrashLoopOptions) {
    this.#options = options;
  }

  /** Records an exit that was not requested. @param runMs from ready to exit; 0 for a run that was never ready. */
  afterEnd(runMs: number, nowMs: number): CrashLoopState {
    const { exits, periodMs } = this.#options;
    this.#exitsMs.push(nowMs);
    if (this.#exitsMs.length > exits) this.#exitsMs.shift();
    const wasLooping = this.#isLooping && runMs < periodMs;
    const [firstMs = 0] = this.#exitsMs;
    this.#isLooping = wasLooping || (this.#exitsMs.length === exits && nowMs - firstMs < periodMs);
    if (!this.#isLooping) return "none";
    return wasLooping ? "lasting" : "entered";
  }
}
