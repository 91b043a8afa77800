import { setTimeout as delay } from "node:timers/promises";
import pRetry from "p-retry";
import { describeError } from "../errors.ts";
import type { OverlongLine } from "../jsonrpc/line-decoder.ts";
import type { Message } from "../jsonrpc/message.ts";
import type { Outgoing } from "../jsonrpc/outgoing.ts";
import type { Log } from "../observability/log.ts";
import type { ChildExit } from "./child-process.ts";
import type { Handshake } from "./handshake.ts";
import { Life, type LifeOptions } from "./life.ts";
import type { RestartPolicy } from "./restart-policy.ts";

export type SupervisorState = "starting" | "ready" | "backing-off" | "stopping" | "failed";

export interface LastExit extends ChildExit {
  readonly generation: number;
  /** Why it was ended, or what the exit means; for people. */
  readonly reason: string;
  readonly at: Date;
  /** The last line the server wrote to stderr, with secrets masked. */
  readonly stderrLastLine: string | undefined;
}

export interface SupervisorStatus {
  readonly state: SupervisorState;
  readonly generation: number;
  readonly pid: number | undefined;
  readonly restarts: number;
  readonly lastExit: LastExit | undefined;
  /** When the next start is due; only while backing off. */
  readonly nextRetryAt: Date | undefined;
}

export interface SupervisorListener {
  /** A new generation has finished its handshake. */
  onReady(handshake: Handshake): void;
  /** Also called before `onReady`, for whatever a server says early. */
  onMessage(message: Message, text: string): void;
  /** A generation has answered `initialize` with an error; it is ended, and started again. */
  onRefused(text: string): void;
  onOverlongLine(line: OverlongLine): void;
  /** The generation is gone, after all its output was delivered. Called once for each, also for one that never got ready. */
  onLost(exit: LastExit, unwritten: readonly Outgoing[]): void;
}

export interface SupervisorOptions extends Omit<LifeOptions, "generation"> {
  readonly restartPolicy: RestartPolicy;
}

/** Why a supervisor gave up. */
export interface SupervisorFailure {
  readonly spawnErrorCode: string;
}

/** Errors of spawning that no retry mends; others, such as EAGAIN, say that the machine is short of something. */
const UNUSABLE_COMMAND_CODES: ReadonlySet<string> = new Set([
  "ENOENT",
  "EACCES",
  "EPERM",
  "ENOTDIR",
  "ELOOP",
  "ENAMETOOLONG",
  "ENOEXEC",
  "EISDIR",
  "E2BIG",
]);

/** Keeps one MCP server process alive: start, handshake, run; after any exit, pause and start again. */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #log: Log;
  readonly #stopping = new AbortController();
  #listener: SupervisorListener | undefined;
  #life: Life | undefined;
  #loop: Promise<SupervisorFailure | undefined> | undefined;
  #state: SupervisorState = "starting";
  #generation = 0;
  #lastExit: LastExit | undefined;
  #nextRetryAt: Date | undefined;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#log = options.log;
  }

  /**
   * Begins to supervise. To be called once.
   *
   * @returns what made it give up, or undefined once it was stopped. Rejects only by a defect.
   */
  run(listener: SupervisorListener): Promise<SupervisorFailure | undefined> {
    this.#listener = listener;
    this.#loop = this.#supervise();
    return this.#loop;
  }

  status(): SupervisorStatus {
    return {
      state: this.#state,
      generation: this.#generation,
      pid: this.#life?.pid,
      restarts: Math.max(0, this.#generation - 1),
      lastExit: this.#lastExit,
      nextRetryAt: this.#nextRetryAt,
    };
  }

  /** What waits to be read by the server, in UTF-16 units. */
  get queuedLength(): number {
    return this.#life?.queuedLength ?? 0;
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

  /** Ends the server and stops restarting it. Bounded. */
  async stop(): Promise<void> {
    this.#setState("stopping");
    this.#stopping.abort();
    await this.#life?.stop("shutdown");
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
        const life = await pRetry(() => this.#startLife(), {
          retries: Number.POSITIVE_INFINITY,
          signal: this.#stopping.signal,
          // The pause is the restart policy's: its streak outlives a handshake that succeeded, p-retry's own would not.
          minTimeout: 0,
          shouldRetry: () => !this.#isCommandUnusable(),
          onFailedAttempt: () => this.#afterLife(0),
        });
        const readyAtMs = this.#options.nowMs();
        this.#setState("ready");
        this.#log.info({ childPid: life.life.pid, generation: life.life.generation, state: this.#state }, "mcp server ready");
        this.#listener?.onReady(life.handshake);
        const exit = await life.life.lost;
        const runMs = this.#options.nowMs() - readyAtMs;
        this.#setState("backing-off");
        this.#endGeneration(life.life, exit);
        await life.life.ended;
        await this.#afterLife(runMs);
      }
    } catch (error) {
      if (this.#stopping.signal.aborted) return undefined;
      this.#setState("failed");
      if (this.#isCommandUnusable()) return { spawnErrorCode: this.#lastExit?.spawnErrorCode ?? "UNKNOWN" };
      throw error;
    } finally {
      const life = this.#life;
      const exit = await life?.ended;
      // One that was stopped while it started has not been seen to end.
      if (life !== undefined && exit !== undefined) this.#endGeneration(life, exit);
      this.#life = undefined;
    }
  }

  /** Spawn and handshake. */
  async #startLife(): Promise<{ readonly life: Life; readonly handshake: Handshake }> {
    this.#generation++;
    this.#setState("starting");
    const life = new Life({ ...this.#options, generation: this.#generation }, this.#events());
    this.#life = life;
    try {
      return { life, handshake: await life.handshake };
    } catch (error) {
      await life.stop(describeError(error));
      this.#endGeneration(life, await life.exited);
      throw error;
    }
  }

  #events(): SupervisorListener {
    if (this.#listener === undefined) throw new Error("the supervisor has no listener");
    return this.#listener;
  }

  #endGeneration(life: Life, exit: ChildExit): void {
    const { generation, pid } = life;
    if (this.#lastExit?.generation === generation) return;
    const reason = this.#options.redact(life.stopReason ?? describeExit(exit));
    const lastExit = { ...exit, generation, reason, at: new Date(), stderrLastLine: life.stderrTail.at(-1) };
    this.#lastExit = lastExit;
    const fields = { childPid: pid, generation, exitCode: exit.exitCode, signal: exit.signal, reason };
    if (this.#stopping.signal.aborted) this.#log.info(fields, "mcp server ended");
    else this.#log.warn({ ...fields, stderrTail: life.stderrTail }, "mcp server exited");
    this.#listener?.onLost(lastExit, life.takeUnwritten());
  }

  /** Between two lives: the pause. */
  async #afterLife(runMs: number): Promise<void> {
    this.#life = undefined;
    this.#stopping.signal.throwIfAborted();
    if (this.#isCommandUnusable()) return;
    const pauseMs = this.#options.restartPolicy.nextPauseMs(runMs);
    this.#nextRetryAt = new Date(Date.now() + pauseMs);
    this.#setState("backing-off");
    this.#log.info({ pauseMs, restarts: this.#generation, state: this.#state }, "mcp server will be restarted");
    await delay(pauseMs, undefined, { signal: this.#stopping.signal });
    this.#nextRetryAt = undefined;
  }

  /** The very first start found no program to run: trying again would not help, the configuration is wrong. */
  #isCommandUnusable(): boolean {
    const code = this.#lastExit?.spawnErrorCode;
    return this.#generation === 1 && code !== undefined && UNUSABLE_COMMAND_CODES.has(code);
  }

  #setState(state: SupervisorState): void {
    if (this.#state === "stopping" && state !== "failed") return;
    this.#state = state;
  }
}

function describeExit(exit: ChildExit): string {
  if (exit.spawnErrorCode !== undefined) return `could not be started (${exit.spawnErrorCode})`;
  if (exit.signal !== undefined) return `ended by ${exit.signal}`;
  return `exited with code ${exit.exitCode ?? "unknown"}`;
}
