import { setTimeout as delay } from "node:timers/promises";
import pRetry from "p-retry";
import { describeError } from "../errors.ts";
import type { Outgoing } from "../jsonrpc/outgoing.ts";
import type { Log, LogFields } from "../observability/log.ts";
import type { ChildExit } from "./child-process.ts";
import { HandshakeError } from "./handshake.ts";
import { Life, type LifeOptions } from "./life.ts";
import type { Upstream, UpstreamExit, UpstreamHandshake, UpstreamListener, UpstreamStatus } from "./port.ts";
import type { RestartPolicy } from "./restart-policy.ts";
import { describeExit, isCommandUnusable } from "./run-end.ts";

export interface SupervisorOptions extends Omit<LifeOptions, "generation"> {
  readonly restartPolicy: RestartPolicy;
}

/** Why a supervisor gave up. */
export type SupervisorFailure =
  /** The very first start found no program to run. */
  | { readonly kind: "command-unusable"; readonly spawnErrorCode: string }
  /** RESTART_LIMIT is reached. */
  | { readonly kind: "restart-limit"; readonly restarts: number };

/** Keeps one MCP server process alive: start, handshake, run; after any exit, pause and start again. */
export class Supervisor implements Upstream {
  readonly #options: SupervisorOptions;
  readonly #log: Log;
  readonly #stopping = new AbortController();
  readonly #firstReady = Promise.withResolvers<UpstreamHandshake>();
  #listener: UpstreamListener | undefined;
  #life: Life | undefined;
  #loop: Promise<SupervisorFailure | undefined> | undefined;
  #state: UpstreamStatus["state"] = "starting";
  #generation = 0;
  #lastExit: UpstreamExit | undefined;
  #pauseMs = 0;
  #nextRetryAt: Date | undefined;
  #failure: SupervisorFailure | undefined;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#log = options.log;
  }

  /**
   * Begins to supervise. To be called once.
   *
   * @returns what made it give up, or undefined once it was stopped. Rejects only by a defect.
   */
  run(listener: UpstreamListener): Promise<SupervisorFailure | undefined> {
    this.#listener = listener;
    this.#loop = this.#supervise();
    return this.#loop;
  }

  /** Settles when a generation is ready for the first time, if ever. */
  get firstReady(): Promise<UpstreamHandshake> {
    return this.#firstReady.promise;
  }

  status(): UpstreamStatus {
    return {
      state: this.#state,
      generation: this.#generation,
      pid: this.#life?.pid,
      restarts: Math.max(0, this.#generation - 1),
      lastExit: this.#lastExit,
      nextRetryAt: this.#nextRetryAt,
    };
  }

  /** What waits to be read by the server, in bytes. */
  get queuedBytes(): number {
    return this.#life?.queuedBytes ?? 0;
  }

  /** Queues a line for the running server; without one, the line stays `queued` and goes nowhere. */
  send(line: Outgoing): void {
    this.#life?.send(line);
  }

  /** Takes a queued line back. */
  withdraw(line: Outgoing): void {
    line.state = "withdrawn";
    this.#life?.withdraw(line);
  }

  /** Ends the generation that runs, because it is of no use; the next one is started as after any exit. */
  restart(kind: "hung" | "tools-not-listed" | "defect", reason: string): void {
    this.#life?.abandon(kind, reason);
  }

  /** Ends the server and stops restarting it. Bounded. */
  async stop(): Promise<void> {
    this.#setState("stopping");
    this.#stopping.abort();
    await this.#life?.stop("stopped", "shutdown");
    await this.#loop;
  }

  /** SIGKILL to everything that runs, now. */
  kill(): void {
    this.#stopping.abort();
    this.#life?.kill();
  }

  async #supervise(): Promise<SupervisorFailure | undefined> {
    try {
      for (;;) {
        const { life, handshake } = await pRetry(() => this.#startLife(), {
          retries: Number.POSITIVE_INFINITY,
          signal: this.#stopping.signal,
          // The pause is the restart policy's: its streak outlives a handshake that succeeded, p-retry's own would not.
          minTimeout: 0,
          shouldRetry: () => this.#failure === undefined,
          onFailedAttempt: () => this.#pause(),
        });
        const readyAtMs = this.#options.nowMs();
        this.#becomeReady(life, handshake);
        const exit = await life.lost;
        this.#endGeneration(life, exit, this.#options.nowMs() - readyAtMs);
        const { exitCode, signal } = await life.ended;
        // One that was abandoned had not exited yet.
        if (this.#lastExit?.generation === life.generation) this.#lastExit = { ...this.#lastExit, exitCode, signal };
        await this.#pause();
        if (this.#failure !== undefined) return this.#failure;
      }
    } catch (error) {
      if (this.#stopping.signal.aborted) return undefined;
      if (this.#failure !== undefined) return this.#failure;
      this.#setState("failed");
      throw error;
    } finally {
      const life = this.#life;
      const exit = await life?.ended;
      // One that was stopped while it started has not been seen to end.
      if (life !== undefined && exit !== undefined) this.#endGeneration(life, exit, 0);
      this.#life = undefined;
    }
  }

  /** Spawn and handshake. */
  async #startLife(): Promise<{ readonly life: Life; readonly handshake: UpstreamHandshake }> {
    this.#generation++;
    this.#nextRetryAt = undefined;
    if (this.#state !== "failed") this.#setState("starting");
    const life = new Life({ ...this.#options, generation: this.#generation }, this.#events());
    this.#life = life;
    try {
      return { life, handshake: await life.handshake };
    } catch (error) {
      // Else it has ended by itself, which says more than this.
      await life.stop(error instanceof HandshakeError ? error.kind : "crash", describeError(error));
      this.#endGeneration(life, await life.exited, 0, "initialize");
      throw error;
    }
  }

  #events(): UpstreamListener {
    if (this.#listener === undefined) throw new Error("the supervisor has no listener");
    return this.#listener;
  }

  #becomeReady({ pid: childPid, generation }: Life, handshake: UpstreamHandshake): void {
    if (this.#state === "failed") this.#log.info({ childPid, generation }, "mcp server has recovered");
    this.#setState("ready");
    this.#log.info({ childPid, generation, state: this.#state }, "mcp server ready");
    this.#listener?.onReady(handshake);
    this.#firstReady.resolve(handshake);
  }

  #endGeneration(life: Life, exit: ChildExit, runMs: number, awaited?: string): void {
    const { generation, pid: childPid, stderrTail } = life;
    if (this.#lastExit?.generation === generation) return;
    const { kind, reason } = life.stopCause ?? describeExit(exit, awaited);
    const { exitCode, signal } = exit;
    const at = new Date();
    const lastExit: UpstreamExit = { exitCode, signal, generation, kind, reason: this.#options.secrets.redact(reason), at, stderrTail };
    this.#lastExit = lastExit;
    this.#options.counters.countExit(kind);
    const fields = { childPid, generation, kind, exitCode, signal, reason: lastExit.reason };
    const isStopping = this.#stopping.signal.aborted;
    if (isStopping) this.#log.info(fields, "mcp server ended");
    else this.#decide(exit, stderrTail, runMs, fields);
    this.#listener?.onLost(lastExit, life.takeUnwritten());
  }

  /** Whether there will be another generation, and when. */
  #decide(exit: ChildExit, stderrTail: readonly string[], runMs: number, fields: LogFields): void {
    const { nowMs, restartPolicy } = this.#options;
    const { pauseMs, crashLoop } = restartPolicy.afterEnd(runMs, nowMs());
    const withTail = { ...fields, stderrTail };
    if (crashLoop === "none") this.#log.warn(withTail, "mcp server exited");
    else this.#log.info(fields, "mcp server exited");
    if (this.#generation === 1 && isCommandUnusable(exit)) {
      this.#failure = { kind: "command-unusable", spawnErrorCode: exit.spawnErrorCode ?? "UNKNOWN" };
    } else if (pauseMs === undefined) {
      const restarts = this.#generation - 1;
      this.#failure = { kind: "restart-limit", restarts };
      this.#log.error({ ...withTail, restarts }, "mcp server given up: the restart limit is reached");
    } else if (crashLoop === "entered") {
      this.#log.error(withTail, "mcp server failed: it ends again and again");
    }
    this.#setState(this.#failure === undefined && crashLoop === "none" ? "backing-off" : "failed");
    if (this.#failure !== undefined || pauseMs === undefined) return;
    this.#pauseMs = pauseMs;
    // Later by what the end of its process group takes; then it is set anew.
    this.#nextRetryAt = new Date(Date.now() + pauseMs);
  }

  /** Between two lives. */
  async #pause(): Promise<void> {
    this.#life = undefined;
    this.#stopping.signal.throwIfAborted();
    if (this.#failure !== undefined) return;
    const pauseMs = this.#pauseMs;
    this.#nextRetryAt = new Date(Date.now() + pauseMs);
    this.#log.info({ pauseMs, restarts: this.#generation, state: this.#state }, "mcp server will be restarted");
    await delay(pauseMs, undefined, { signal: this.#stopping.signal });
  }

  #setState(state: UpstreamStatus["state"]): void {
    if (this.#state === "stopping" && state !== "failed") return;
    this.#state = state;
  }
}
