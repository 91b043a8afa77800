import { copied } from "../../json/strings.ts";
import type { UpstreamExit, UpstreamObserver } from "../../upstream/port.ts";
import type { PageExit, PageGeneration } from "./page-update.ts";

const MAX_GENERATIONS = 30;

/** The last generations of all lanes. */
export class RecentGenerations {
  /** Oldest first. */
  #kept: readonly PageGeneration[] = [];
  #changes = 0;

  /** The number of changes so far. */
  get changes(): number {
    return this.#changes;
  }

  get all(): readonly PageGeneration[] {
    return this.#kept;
  }

  /**
   * Returns an observer of one lane.
   *
   * @param lane its name in the log.
   * @param isProbe true for a process that shows if the server supports its handshake. Its end before that is no failure, and is forgotten.
   */
  observe(lane: string, isProbe = false): UpstreamObserver {
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
    // Running servers stay, as long as there are others.
    const oldest = all.find(({ exit }) => exit !== null) ?? all[0];
    this.#kept = all.length > MAX_GENERATIONS ? all.filter((each) => each !== oldest) : all;
    this.#changes++;
  }

  #remove(lane: string, number: number): void {
    this.#kept = this.#kept.filter((each) => each.lane !== lane || each.number !== number);
    this.#changes++;
  }

  #change(lane: string, number: number, change: Partial<PageGeneration>): void {
    this.#kept = this.#kept.map((each) => (each.lane === lane && each.number === number ? { ...each, ...change } : each));
    this.#changes++;
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
