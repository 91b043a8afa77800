import pRetry, { type RetryContext } from "p-retry";
import type { Context } from "../context.ts";
import { describeError } from "../mcp/errors.ts";
import type { MemoryHolder } from "../memory.ts";
import type { LogFields } from "../observe/log.ts";
import type { ProcessExit } from "./child.ts";
import { isCommandUnusable } from "./exit.ts";
import { Generation, type ServerProgram } from "./generation.ts";
import { HandshakeError, type HandshakeScript } from "./handshake.ts";
import { ServerLog } from "./output-log.ts";
import type { Upstream, UpstreamExit, UpstreamHandshake, UpstreamListener, UpstreamObserver, UpstreamStatus } from "./port.ts";

export type SupervisorFailure =
  | { readonly kind: "command-unusable"; readonly spawnErrorCode: string }
  /** Before the shared server was ever ready, and KEEP_TRYING is off. */
  | { readonly kind: "never-ready"; readonly exit: UpstreamExit }
  | { readonly kind: "restart-limit"; readonly restarts: number };

const EXITED = "the MCP server has exited";

/** Runs one generation after another, with pauses, until it is stopped or gives up. */
export class Supervisor implements Upstream {
  /** When a generation is ready for the first time. */
  readonly firstReady: Promise<UpstreamHandshake>;
  readonly #context: Context;
  readonly #program: ServerProgram;
  readonly #script: HandshakeScript;
  /** Only slow starts of the shared server give more time: a client may send an `initialize` that its private server never answers. */
  readonly #isShared: boolean;
  readonly #client: MemoryHolder | undefined;
  /** Set until the first handshake or restart of a process that shows if the server supports an era. Its end is not a failure. */
  #probeTimeoutMs: number | undefined;
  readonly #serverLog: ServerLog;
  readonly #stopping = new AbortController();
  readonly #ending: AbortSignal;
  readonly #ready = Promise.withResolvers<UpstreamHandshake>();
  #listener: UpstreamListener | undefined;
  #observers: readonly UpstreamObserver[] = [];
  #generation: Generation | undefined;
  #loop: Promise<SupervisorFailure | undefined> | undefined;
  #state: Exclude<UpstreamStatus["state"], "stopping"> = "starting";
  #generationCount = 0;
  #loss: { readonly generation: Generation; readonly exit: ProcessExit; readonly beginsCrashLoop: boolean } | undefined;
  readonly #exitsMs: number[] = [];
  #isLooping = false;
  #streak = 0;
  #readyAt: Date | undefined;
  #lastExit: UpstreamExit | undefined;
  #nextRetryAt: Date | undefined;
  #failure: SupervisorFailure | undefined;
  #getsMoreTime = false;

  /**
   * @param client set if the server is for one client.
   * @param probeTimeoutMs the limit of a first start that shows if the server supports an era.
   */
  constructor(context: Context, program: ServerProgram, script: HandshakeScript, client?: MemoryHolder, probeTimeoutMs?: number) {
    [this.#context, this.#program, this.#script, this.#client, this.#probeTimeoutMs] = [context, program, script, client, probeTimeoutMs];
    this.#isShared = client === undefined && probeTimeoutMs === undefined;
    this.#serverLog = new ServerLog(context);
    this.firstReady = this.#ready.promise;
    this.#ending = AbortSignal.any([this.#stopping.signal, context.kill]);
  }

  /** To be called once. @returns why the supervisor has given up; undefined after `stop`. Rejects only because of a defect. */
  run(listener: UpstreamListener, observers: readonly UpstreamObserver[] = []): Promise<SupervisorFailure | undefined> {
    this.#listener = listener;
    this.#observers = observers;
    return (this.#loop = this.#supervise(listener));
  }

  status(): UpstreamStatus {
    return {
      state: this.#stopping.signal.aborted ? "stopping" : this.#state,
      generation: this.#generationCount,
      pid: this.#generation?.pid,
      readyAt: this.#readyAt,
      restarts: Math.max(0, this.#generationCount - 1),
      lastExit: this.#lastExit,
      nextRetryAt: this.#nextRetryAt,
      outputs: this.#generation?.output.outputs ?? 0,
      isReading: this.#generation?.output.later !== undefined,
      inputs: this.#generation?.input.writes ?? 0,
    };
  }

  restart(kind: "hung" | "tools-not-listed", reason: string): void {
    this.#generation?.abandon(kind, reason);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#generation?.stop("stopped", "shutdown");
    await this.#loop;
  }

  /**
   * Runs generations until it gives up or is stopped. p-retry makes the pauses: each exit is a failed attempt. They double while runs are
   * short; only a stable run resets them, not a handshake. In a crash loop, each is the longest. When this changes, the pauses begin anew.
   *
   * Chance takes up to a quarter off the longest pause, and up to 1/16 off the factor 2. Otherwise, many sidecars that lost the same
   * dependency would restart in step. It is drawn when the pauses begin, because the options of p-retry are fixed from then on.
   */
  async #supervise(listener: UpstreamListener): Promise<SupervisorFailure | undefined> {
    const { restartBackoffMs, restartMaxMs, restartLimit = Infinity } = this.#context.config;
    try {
      for (;;) {
        const share = 1 - Math.random() / 4;
        const longestMs = Math.max(Math.min(restartBackoffMs, restartMaxMs), restartMaxMs * share);
        await pRetry((attempt) => this.#run(listener, attempt), {
          retries: restartLimit - this.#streak,
          minTimeout: this.#isLooping ? longestMs : Math.min(longestMs, restartBackoffMs * 2 ** this.#streak),
          maxTimeout: longestMs,
          factor: 1.5 + share / 2,
          signal: this.#ending,
          onFailedAttempt: this.#afterLoss,
        });
      }
    } catch (error) {
      if (this.#failure !== undefined) return this.#failure;
      if (this.#ending.aborted) return undefined;
      this.#state = "failed";
      throw error;
    } finally {
      // The exit of a server that was stopped is not reported yet.
      if (this.#generation !== undefined) this.#reportEnd(this.#generation, await this.#generation.ended);
      this.#generation = undefined;
    }
  }

  /** Rejects when the generation is lost, unless the pauses begin anew. @param attempt counted from 1 since the pauses began. */
  async #run(listener: UpstreamListener, attempt: number): Promise<void> {
    if (attempt === 1 && this.#loss !== undefined) throw new Error(EXITED);
    const { config, defects, log, nowMs } = this.#context;
    const number = ++this.#generationCount;
    if (number > 1) this.#probeTimeoutMs = undefined;
    const timeoutMs = this.#probeTimeoutMs ?? this.#program.readyTimeoutMs;
    this.#loss = this.#nextRetryAt = undefined;
    if (this.#state !== "failed") this.#state = "starting";
    if (this.#getsMoreTime) log.info({ generation: number, timeoutMs }, "mcp server gets more time to start");
    this.#getsMoreTime = false;
    const [context, program, script, client] = [this.#context, this.#program, this.#script, this.#client];
    const generation = new Generation(context, program, this.#serverLog, number, script, timeoutMs, listener, client);
    this.#generation = generation;
    const shaken = generation.handshake.result.catch((error: unknown) => this.#endStart(generation, error, timeoutMs));
    let handshake: UpstreamHandshake | undefined;
    let readyAtMs = Infinity;
    try {
      for (const observe of this.#observers) observe("started");
      listener.onStarted(generation.input);
      handshake = await shaken;
      if (handshake !== undefined) {
        readyAtMs = nowMs();
        this.#serverLog.ready();
        const childPid = generation.pid;
        if (this.#state === "failed") log.info({ childPid, generation: number }, "mcp server has recovered");
        this.#state = "ready";
        this.#probeTimeoutMs = undefined;
        this.#readyAt = new Date();
        log.info({ childPid, generation: number, state: this.#state }, "mcp server ready");
        this.#ready.resolve(handshake);
        for (const observe of this.#observers) observe("ready");
        listener.onReady(handshake);
      }
    } catch (error) {
      const abandon = (): void => generation.abandon("defect", "the sidecar could not handle one of its events");
      defects.recover(handshake === undefined ? "server start" : "server ready", error, abandon);
    }
    const exit = await (handshake === undefined ? generation.ended : generation.lost);
    const runMs = Math.max(0, nowMs() - readyAtMs);
    if (this.#ending.aborted) this.#reportEnd(generation, exit);
    const wasLooping = this.#isLooping;
    // A start that gets more time the next time does not count.
    const beginsCrashLoop = !this.#getsMoreTime && this.#beginsCrashLoop(runMs);
    this.#loss = { generation, exit, beginsCrashLoop };
    const isStable = runMs >= config.restartMaxMs;
    if (isStable) this.#streak = 0;
    if (!isStable && wasLooping === this.#isLooping) throw new Error(EXITED);
  }

  /**
   * Detects crash loops by intensity and period, as Erlang's supervisors do. A crash loop lasts until a run is longer than a whole period,
   * because the rare restarts alone would spread the exits until they look harmless.
   *
   * @param runMs from ready to exit; 0 for a run that was never ready.
   */
  #beginsCrashLoop(runMs: number): boolean {
    const { nowMs, config } = this.#context;
    this.#exitsMs.push(nowMs());
    if (this.#exitsMs.length > config.crashLoopExits) this.#exitsMs.shift();
    const [firstMs = 0] = this.#exitsMs;
    const lasts = this.#isLooping && runMs < config.crashLoopPeriodMs;
    this.#isLooping = lasts || (this.#exitsMs.length === config.crashLoopExits && nowMs() - firstMs < config.crashLoopPeriodMs);
    return this.#isLooping && !lasts;
  }

  async #endStart(generation: Generation, error: unknown, timeoutMs: number): Promise<undefined> {
    // An exit by itself says more than this cause.
    await generation.stop(error instanceof HandshakeError ? error.kind : "crash", describeError(error));
    const isTooSlow = this.#probeTimeoutMs === undefined && generation.stopCause?.kind === "handshake-timeout";
    if (isTooSlow && this.#isShared) this.#program.allowMoreTime(timeoutMs);
    this.#getsMoreTime = isTooSlow && this.#program.readyTimeoutMs > timeoutMs;
  }

  /** Resolves when the pause may begin: when no process of the group is left. Throws if there is no restart. */
  readonly #afterLoss = async ({ error, retryDelay: pauseMs, retriesLeft }: RetryContext): Promise<void> => {
    // A defect.
    if (this.#loss === undefined) throw error;
    const { generation, exit, beginsCrashLoop } = this.#loss;
    const { config, log } = this.#context;
    const restarts = this.#generationCount - 1;
    const [lastExit, fields] = this.#recordExit(generation, exit);
    const { stderrTail } = lastExit;
    if (generation.number === 1 && isCommandUnusable(exit)) {
      // The caller of `run` logs it.
      this.#failure = { kind: "command-unusable", spawnErrorCode: exit.spawnErrorCode ?? "UNKNOWN" };
    } else {
      this.#serverLog.exited(fields, stderrTail, this.#isLooping || this.#probeTimeoutMs !== undefined);
      if (this.#isShared && config.keepTrying === false && this.#readyAt === undefined) {
        this.#failure = { kind: "never-ready", exit: lastExit };
      } else if (retriesLeft <= 0) {
        this.#failure = { kind: "restart-limit", restarts };
        log.error({ ...fields, stderrTail, restarts }, "mcp server not restarted: restart limit reached");
      } else if (beginsCrashLoop) log.error({ ...fields, stderrTail }, "mcp server failed: crash loop");
    }
    this.#state = this.#failure === undefined && !this.#isLooping ? "backing-off" : "failed";
    // The time is set again when the pause begins.
    if (this.#failure === undefined) this.#nextRetryAt = new Date(Date.now() + pauseMs);
    this.#tellLost(generation, lastExit);
    const { exitCode, signal } = await generation.ended;
    // An abandoned server had not exited yet.
    this.#lastExit = { ...lastExit, exitCode, signal };
    this.#generation = undefined;
    if (this.#failure !== undefined) throw error;
    if (this.#ending.aborted) return;
    this.#streak++;
    this.#nextRetryAt = new Date(Date.now() + pauseMs);
    this.#serverLog.log.info({ pauseMs, restarts: this.#generationCount, state: this.#state }, "mcp server will be restarted");
  };

  #reportEnd(generation: Generation, exit: ProcessExit): void {
    if (this.#lastExit?.generation === generation.number) return;
    const [lastExit, fields] = this.#recordExit(generation, exit);
    this.#context.log.info(fields, "mcp server ended");
    this.#tellLost(generation, lastExit);
  }

  #recordExit(generation: Generation, exit: ProcessExit): [UpstreamExit, LogFields] {
    const lastExit = (this.#lastExit = generation.describeEnd(exit));
    if (this.#probeTimeoutMs === undefined) this.#context.counters.byKey.exits.count(lastExit.kind);
    const { at: _, stderrTail: __, generation: number, ...cause } = lastExit;
    return [lastExit, { childPid: generation.pid, generation: number, ...cause }];
  }

  #tellLost({ input }: Generation, exit: UpstreamExit): void {
    try {
      const unwritten = input.takeUnwritten();
      for (const observe of this.#observers) observe(exit);
      this.#listener?.onLost(exit, unwritten);
    } catch (error) {
      this.#context.defects.recover("server exit", error, () => this.#listener?.onDefect());
    }
  }
}
