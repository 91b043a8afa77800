import { copied } from "../../json/strings.ts";
import type { UpstreamExit, UpstreamObserver } from "../../upstream/port.ts";
import { HISTORY_LIMITS, type PageExit, type PageGeneration } from "./page-update.ts";

/** The last generations of all lanes. */
export class RecentGenerations {
  /** Oldest first. */
  #kept: readonly PageGeneration[] = [];

  /** Another array after each change. */
  get all(): readonly PageGeneration[] {
    return this.#kept;
  }

  /**
   * Returns an observer of one lane.
   *
   * @param lane its name in the log.
   * @param isProbe true for a process that shows if the server supports its handshake. An exit before the handshake is not a failure, and is not kept.
   */
  observe(lane: string, isProbe: boolean): UpstreamObserver {
    let number = 0;
    let wasReady = false;
    return {
      onStarted: () => this.#add({ lane, number: ++number, startedAt: now(), readyAt: null, exit: null }),
      onReady: () => {
        wasReady = true;
        this.#change(lane, number, { readyAt: now() });
      },
      onLost: (exit) => {
        if (isProbe && !wasReady) this.#remove(lane, number);
        else this.#change(lane, number, { exit: pageExit(exit) });
      },
    };
  }

  #add(generation: PageGeneration): void {
    const all = [...this.#kept, generation];
    // Running servers stay, as long as there are others. The first one is that of the shared lane.
    const oldest = all.find(({ exit }) => exit !== null) ?? all[1];
    this.#kept = all.length > HISTORY_LIMITS.generations ? all.filter((each) => each !== oldest) : all;
  }

  #remove(lane: string, number: number): void {
    this.#kept = this.#kept.filter((each) => each.lane !== lane || each.number !== number);
  }

  #change(lane: string, number: number, change: Partial<PageGeneration>): void {
    this.#kept = this.#kept.map((each) => (each.lane === lane && each.number === number ? { ...each, ...change } : each));
  }
}

function now(): string {
  return new Date().toISOString();
}

function pageExit({ at, kind, reason, likelyCause, exitCode, signal, stderrTail }: UpstreamExit): PageExit {
  return {
    at: at.toISOString(),
    kind,
    reason,
    likelyCause: likelyCause ?? null,
    exitCode: exitCode ?? null,
    signal: signal ?? null,
    // A line may be a slice of a long text, which would stay in memory.
    stderrTail: stderrTail.map(copied),
  };
}
