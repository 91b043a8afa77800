import type { Log } from "../observability/log.ts";
import type { UpstreamExit, UpstreamListener } from "../upstream/port.ts";

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
 * Detects that the servers of several lanes end each other by turns. The command can run only once: it needs a port or a profile for itself.
 * The latest to start then survives until another one is restarted. So each exit follows the start of another server, and hits the one
 * whose start preceded the previous exit. Logs one warning.
 */
export class RivalServers {
  readonly #log: Log;
  readonly #nowMs: () => number;
  /** The generation that was started last. */
  #latest: Run | undefined;
  /** The generation whose start preceded the previous exit. Once it has exited by itself, the row is broken. */
  #survivor: Run | undefined;
  #exitsInARow = 0;
  #isReported = false;

  constructor(log: Log, nowMs: () => number) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** Returns a listener that passes all events of a server on to its lane. */
  watch(lane: UpstreamListener): UpstreamListener {
    let run: Run | undefined;
    return {
      onStarted: (input) => {
        run = this.#latest = { startedAtMs: this.#nowMs(), readyAtMs: undefined };
        lane.onStarted(input);
      },
      onReady: (handshake) => {
        if (run !== undefined) run.readyAtMs = this.#nowMs();
        lane.onReady(handshake);
      },
      onRefused: (response) => lane.onRefused(response),
      onMessage: (message) => lane.onMessage(message),
      onOverlongLine: (line) => lane.onOverlongLine(line),
      onLost: (exit, unwritten) => {
        if (run !== undefined) this.#onExit(run, exit);
        lane.onLost(exit, unwritten);
      },
      onDefect: () => lane.onDefect(),
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
