import { setTimeout as delay } from "node:timers/promises";
import pRetry from "p-retry";
import { describeError } from "../mcp/errors.ts";
import { Defects, type Log, type LogFields } from "../observe/log.ts";
import type { ChildExit } from "./child.ts";
import { describeExit, isCommandUnusable } from "./exit.ts";
import { Generation, type GenerationOptions } from "./generation.ts";
import { HandshakeError } from "./handshake.ts";
import { StartLog } from "./output-log.ts";
import type {
  Upstream,
  UpstreamExit,
  UpstreamHandshake,
  UpstreamListener,
  UpstreamObserver,
  UpstreamStatus,
  UpstreamTraffic,
} from "./port.ts";

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

interface RestartDecision {
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

/** READY_TIMEOUT_MS may double three times: 60 s become eight minutes. */
const MAX_READY_TIMEOUT_FACTOR = 8;
const MAX_TIMER_MS = 2_147_483_647;

/**
 * The time limit of a start. All processes of one command share it, because what slows one down, such as a download, slows down all. Only the
 * shared server raises it: a client may send an `initialize` that its private server never answers.
 */
export class ReadyTimeout {
  readonly #longestMs: number;
  #ms: number;

  /** @param ms READY_TIMEOUT_MS, for the first start. */
  constructor(ms: number) {
    this.#ms = ms;
    this.#longestMs = Math.min(ms * MAX_READY_TIMEOUT_FACTOR, MAX_TIMER_MS);
  }

  get ms(): number {
    return this.#ms;
  }

  /** Doubles the limit after a start that was too slow. @param usedMs its limit. */
  growAfter(usedMs: number): void {
    this.#ms = Math.max(this.#ms, Math.min(2 * usedMs, this.#longestMs));
  }
}

interface SupervisorOptions extends Omit<GenerationOptions, "number" | "readyTimeoutMs"> {
  readonly readyTimeout: ReadyTimeout;
  /** True for the shared server, whose slow starts raise `readyTimeout`. */
  readonly isShared: boolean;
  /** The limit of the first start; undefined for `readyTimeout`. */
  readonly probeTimeoutMs?: number | undefined;
  readonly restartPolicy: RestartPolicy;
}

/** The reason why a supervisor has given up. */
export type SupervisorFailure =
  /** The first start found no program to run. */
  | { readonly kind: "command-unusable"; readonly spawnErrorCode: string }
  /** RESTART_LIMIT is reached. */
  | { readonly kind: "restart-limit"; readonly restarts: number };

/** Keeps one MCP server running: starts it, does the handshake, and after any exit pauses and restarts it. */
export class Supervisor implements Upstream {
  readonly #options: SupervisorOptions;
  readonly #log: Log;
  readonly #startLog: StartLog;
  readonly #defects: Defects;
  readonly #stopping = new AbortController();
  readonly #firstReady = Promise.withResolvers<UpstreamHandshake>();
  #listener: UpstreamListener | undefined;
  #observer: UpstreamObserver | undefined;
  #generation: Generation | undefined;
  #loop: Promise<SupervisorFailure | undefined> | undefined;
  #state: UpstreamStatus["state"] = "starting";
  #generationCount = 0;
  #readyAt: Date | undefined;
  #lastExit: UpstreamExit | undefined;
  #pauseMs = 0;
  #nextRetryAt: Date | undefined;
  #failure: SupervisorFailure | undefined;
  /** True if the last start was too slow, and the next one gets more time. */
  #getsMoreTime = false;

  constructor(options: SupervisorOptions) {
    [this.#options, this.#log] = [options, options.log];
    this.#startLog = new StartLog(options.log, options.nowMs);
    this.#defects = new Defects(options.log, options.counters);
  }

  /**
   * Starts the server and supervises it. To be called once.
   *
   * @returns the reason why the supervisor has given up, or undefined after `stop`. Rejects only because of a defect.
   */
  run(listener: UpstreamListener, observer?: UpstreamObserver): Promise<SupervisorFailure | undefined> {
    [this.#listener, this.#observer] = [listener, observer];
    return (this.#loop = this.#supervise());
  }

  /** Resolves when a generation is ready for the first time. */
  get firstReady(): Promise<UpstreamHandshake> {
    return this.#firstReady.promise;
  }

  status(): UpstreamStatus {
    return {
      state: this.#state,
      generation: this.#generationCount,
      pid: this.#generation?.pid,
      readyAt: this.#readyAt,
      restarts: Math.max(0, this.#generationCount - 1),
      lastExit: this.#lastExit,
      nextRetryAt: this.#nextRetryAt,
    };
  }

  /** Terminates a running generation that cannot serve requests. The next one starts as after any exit. */
  restart(kind: "hung" | "tools-not-listed", reason: string): void {
    this.#generation?.abandon(kind, reason);
  }

  traffic(): UpstreamTraffic {
    return this.#generation?.traffic ?? { outputs: 0, isReading: false, inputs: 0 };
  }

  /** Terminates the server and restarts it no more. Takes a bounded time. */
  async stop(): Promise<void> {
    this.#setState("stopping");
    this.#stopping.abort();
    await this.#generation?.stop("stopped", "shutdown");
    await this.#loop;
  }

  /** Sends SIGKILL to the server's process group. */
  kill(): void {
    this.#stopping.abort();
    this.#generation?.kill();
  }

  async #supervise(): Promise<SupervisorFailure | undefined> {
    try {
      for (;;) {
        const { generation, handshake } = await pRetry(() => this.#start(), {
          retries: Number.POSITIVE_INFINITY,
          signal: this.#stopping.signal,
          // The restart policy sets the pause, because its streak continues after a successful handshake; that of p-retry would not.
          minTimeout: 0,
          shouldRetry: () => this.#failure === undefined,
          onFailedAttempt: () => this.#pause(),
        });
        const readyAtMs = this.#options.nowMs();
        this.#becomeReady(generation, handshake);
        const exit = await generation.lost;
        this.#endGeneration(generation, exit, this.#options.nowMs() - readyAtMs);
        const { exitCode, signal } = await generation.ended;
        // An abandoned server had not exited yet.
        if (this.#lastExit?.generation === generation.number) this.#lastExit = { ...this.#lastExit, exitCode, signal };
        await this.#pause();
        if (this.#failure !== undefined) return this.#failure;
      }
    } catch (error) {
      if (this.#failure !== undefined) return this.#failure;
      if (this.#stopping.signal.aborted) return undefined;
      this.#setState("failed");
      throw error;
    } finally {
      const generation = this.#generation;
      const exit = await generation?.ended;
      // The exit of a server that was stopped during its start is not reported yet.
      if (generation !== undefined && exit !== undefined) this.#endGeneration(generation, exit, 0);
      this.#generation = undefined;
    }
  }

  /** Starts the process and waits for the handshake. */
  async #start(): Promise<{ readonly generation: Generation; readonly handshake: UpstreamHandshake }> {
    this.#generationCount++;
    this.#nextRetryAt = undefined;
    if (this.#state !== "failed") this.#setState("starting");
    const number = this.#generationCount;
    const { readyTimeout, isShared, probeTimeoutMs } = this.#options;
    const readyTimeoutMs = (number === 1 ? probeTimeoutMs : undefined) ?? readyTimeout.ms;
    // A sidecar that ends after the first start never says so.
    if (this.#getsMoreTime) this.#log.info({ generation: number, timeoutMs: readyTimeoutMs }, "mcp server gets more time to start");
    this.#getsMoreTime = false;
    const generation = new Generation({ ...this.#options, readyTimeoutMs, number, startLog: this.#startLog }, this.#events());
    this.#generation = generation;
    this.#guard("server start", generation, () => {
      this.#observer?.onStarted(generation.input);
      this.#events().onStarted(generation.input);
    });
    try {
      return { generation, handshake: await generation.handshake };
    } catch (error) {
      // If the server has exited by itself, that cause is kept, because it says more than this one.
      await generation.stop(error instanceof HandshakeError ? error.kind : "crash", describeError(error));
      const isTooSlow = !this.#isProbe && generation.stopCause?.kind === "handshake-timeout";
      if (isTooSlow && isShared) readyTimeout.growAfter(readyTimeoutMs);
      this.#getsMoreTime = isTooSlow && readyTimeout.ms > readyTimeoutMs;
      this.#endGeneration(generation, await generation.exited, 0, this.#options.handshake.method);
      throw error;
    }
  }

  /** True until the first handshake of a process that shows if the server supports it. Its end is no failure. */
  get #isProbe(): boolean {
    return this.#generationCount === 1 && this.#options.probeTimeoutMs !== undefined && this.#state !== "ready";
  }

  #events(): UpstreamListener {
    if (this.#listener === undefined) throw new Error("the supervisor has no listener");
    return this.#listener;
  }

  #becomeReady(current: Generation, handshake: UpstreamHandshake): void {
    const { pid: childPid, number: generation } = current;
    this.#startLog.ready();
    if (this.#state === "failed") this.#log.info({ childPid, generation }, "mcp server has recovered");
    this.#setState("ready");
    this.#readyAt = new Date();
    this.#log.info({ childPid, generation, state: this.#state }, "mcp server ready");
    this.#guard("server ready", current, () => {
      this.#observer?.onReady(handshake);
      this.#listener?.onReady(handshake);
    });
    this.#firstReady.resolve(handshake);
  }

  #endGeneration(generation: Generation, exit: ChildExit, runMs: number, awaited?: string): void {
    const { number, pid: childPid, stderrTail } = generation;
    if (this.#lastExit?.generation === number) return;
    const { refusal } = this.#options.handshake;
    const { kind, reason } = generation.stopCause ?? describeExit(exit, awaited, refusal?.message);
    const { exitCode, signal } = exit;
    const { secrets, counters } = this.#options;
    const cause = { kind, exitCode, signal, reason: secrets.redact(reason), likelyCause: generation.likelyCause(kind, exit) };
    const lastExit: UpstreamExit = (this.#lastExit = { ...cause, generation: number, at: new Date(), stderrTail });
    if (!this.#isProbe) counters.countExit(kind);
    const fields = { childPid, generation: number, ...cause };
    if (this.#stopping.signal.aborted) this.#startLog.ended(fields);
    else this.#decide(exit, stderrTail, runMs, fields);
    this.#defects.guard(
      "server exit",
      () => {
        const unwritten = generation.takeUnwritten();
        this.#observer?.onLost(lastExit, unwritten);
        this.#listener?.onLost(lastExit, unwritten);
      },
      () => this.#listener?.onDefect(),
    );
  }

  /** Decides whether there will be another generation, and when. */
  #decide(exit: ChildExit, stderrTail: readonly string[], runMs: number, fields: LogFields): void {
    const { nowMs, restartPolicy } = this.#options;
    if (this.#generationCount === 1 && isCommandUnusable(exit)) {
      // The caller of `run` logs it.
      this.#failure = { kind: "command-unusable", spawnErrorCode: exit.spawnErrorCode ?? "UNKNOWN" };
      this.#setState("failed");
      return;
    }
    const { pauseMs, crashLoop } = restartPolicy.afterEnd(runMs, nowMs(), !this.#getsMoreTime);
    const withTail = { ...fields, stderrTail };
    this.#startLog.exited({ fields, stderrTail, isExpected: crashLoop !== "none" || this.#isProbe });
    if (pauseMs === undefined) {
      const restarts = this.#generationCount - 1;
      this.#failure = { kind: "restart-limit", restarts };
      this.#log.error({ ...withTail, restarts }, "mcp server not restarted: restart limit reached");
    } else if (crashLoop === "entered") {
      this.#log.error(withTail, "mcp server failed: crash loop");
    }
    this.#setState(this.#failure === undefined && crashLoop === "none" ? "backing-off" : "failed");
    if (this.#failure !== undefined || pauseMs === undefined) return;
    this.#pauseMs = pauseMs;
    // The pause begins when the process group is gone, and sets this time again.
    this.#nextRetryAt = new Date(Date.now() + pauseMs);
  }

  /** Waits for the pause between two generations. */
  async #pause(): Promise<void> {
    this.#generation = undefined;
    this.#stopping.signal.throwIfAborted();
    if (this.#failure !== undefined) return;
    const pauseMs = this.#pauseMs;
    this.#nextRetryAt = new Date(Date.now() + pauseMs);
    this.#startLog.willRestart({ pauseMs, restarts: this.#generationCount, state: this.#state });
    await delay(pauseMs, undefined, { signal: this.#stopping.signal });
  }

  /** Handles an event of a generation. After an error, the state of the lane is unreliable, and the generation ends. */
  #guard(event: string, generation: Generation, handle: () => void): void {
    this.#defects.guard(event, handle, () => generation.abandon("defect", "the sidecar could not handle one of its events"));
  }

  #setState(state: UpstreamStatus["state"]): void {
    if (this.#state === "stopping" && state !== "failed") return;
    this.#state = state;
  }
}
