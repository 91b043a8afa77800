import type { Log } from "../observe/log.ts";
import type { UpstreamExit, UpstreamObserver } from "../process/port.ts";

/** The time after a server is ready in which the exit of another one may be due to it. */
const EFFECT_MS = 3000;
/** Servers that crash by themselves can look like rivals until the pauses between their restarts have grown. */
const EXITS_IN_A_ROW = 6;

/** A generation of one of the servers. */
interface Run {
  readonly startedAtMs: number;
  readyAtMs: number | undefined;
}

/**
 * Detects servers that end each other, and logs one warning. Their command can run only once, because it needs a port or a profile for
 * itself. Such servers take turns:
 *
 * 1. Server A runs. Server B starts, and A exits.
 * 2. A is restarted, and B exits.
 * 3. B is restarted, and A exits. And so on.
 *
 * Each exit follows the start of another server. The server that exits is the one whose start caused the exit before.
 */
export class RivalServers {
  readonly #log: Log;
  readonly #nowMs: () => number;
  /** The generation that was started last. */
  #latest: Run | undefined;
  /** The generation whose start caused the previous exit. The next exit of the row must be its own. */
  #survivor: Run | undefined;
  #exitsInARow = 0;
  #isReported = false;

  constructor(log: Log, nowMs: () => number) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** Returns the observer of one of the servers. */
  watch(): UpstreamObserver {
    let run: Run | undefined;
    return {
      onStarted: () => {
        run = this.#latest = { startedAtMs: this.#nowMs(), readyAtMs: undefined };
      },
      onReady: () => {
        if (run !== undefined) run.readyAtMs = this.#nowMs();
      },
      onLost: (exit) => {
        if (run !== undefined) this.#onExit(run, exit);
      },
    };
  }

  #onExit(run: Run, { kind }: UpstreamExit): void {
    const latest = this.#latest;
    // The session of a private server may end at any time.
    if (kind === "stopped" || latest === undefined || !this.#isEffectOf(latest, run)) return;
    this.#exitsInARow = this.#survivor === run ? this.#exitsInARow + 1 : 1;
    this.#survivor = latest;
    this.#report();
  }

  /** True if this exit of a server may be due to the latest start, which must be a later one than its own. */
  #isEffectOf(latest: Run, { readyAtMs }: Run): boolean {
    if (readyAtMs === undefined || readyAtMs >= latest.startedAtMs) return false;
    return latest.readyAtMs === undefined || this.#nowMs() - latest.readyAtMs <= EFFECT_MS;
  }

  #report(): void {
    const count = this.#exitsInARow;
    if (this.#isReported || count < EXITS_IN_A_ROW) return;
    this.#isReported = true;
    const reason = "each exit followed the start of another server: if only one can run at a time, set ISOLATION=shared";
    this.#log.warn({ count, reason }, "mcp servers end each other");
  }
}
