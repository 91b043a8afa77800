import type { Outgoing } from "../protocol/outgoing.ts";
import { countMemoryKills } from "./out-of-memory.ts";
import type { ServerMemory } from "./output-memory.ts";
import { type OutputListener, OutputReader } from "./output-reader.ts";
import type { ChildCommand, ProcessExit, ProcessGroup, StartProcess } from "./process-group.ts";
import type { UpstreamTraffic } from "./port.ts";
import { StdinWriter } from "./stdin-writer.ts";

/** The wait for further output after the exit. It is bounded because a grandchild may hold the pipe open without ever writing to it. */
const OUTPUT_AFTER_EXIT_MS = 500;
/** A process cannot ignore SIGKILL; only one in uninterruptible sleep outlasts this. */
const KILL_GRACE_MS = 2000;

export interface ChildLimits {
  readonly maxLineBytes: number;
  /** The time from the close of stdin to SIGTERM. */
  readonly stdinGraceMs: number;
  /** The time from SIGTERM to SIGKILL. */
  readonly termGraceMs: number;
}

/** The time that every server has to exit by itself. */
export const STOP_GRACES = { stdinGraceMs: 1000, termGraceMs: 2000 } as const satisfies Partial<ChildLimits>;

export interface ChildListener extends OutputListener {
  onStderr(chunk: Buffer): void;
  /** Called when the server closes its stdin or stdout but keeps running. The server can no longer be used and must be stopped. */
  onBroken(pipe: "stdin" | "stdout"): void;
}

export interface ChildExit extends ProcessExit {
  /** True if the kernel has killed processes for lack of memory since the start. They need not be of this server. */
  readonly hadMemoryKills: boolean;
}

/** The process of one generation. */
export class ChildProcess {
  /** Undefined if the process could not be started. */
  readonly pid: number | undefined;
  /** Resolves when the process has exited and its last output is delivered. Never rejects. */
  readonly exited: Promise<ChildExit>;
  /** Resolves when, after `exited`, no process of its group is left. Never rejects. */
  readonly ended: Promise<ChildExit>;
  readonly #process: ProcessGroup;
  readonly #limits: ChildLimits;
  readonly input: StdinWriter;
  readonly #output: OutputReader;
  #outputs = 0;
  readonly #memoryKillsBefore = countMemoryKills();
  #hasExited = false;

  constructor(start: StartProcess, command: ChildCommand, limits: ChildLimits, memory: ServerMemory, listener: ChildListener) {
    this.#limits = limits;
    this.#process = start(command);
    const { stdin, stdout, stderr } = this.#process;
    this.pid = this.#process.pid;
    this.input = new StdinWriter(stdin, (error) => listener.onDefect(error));
    stdin.on("error", () => this.#onBroken(listener, "stdin"));

    const output = new OutputReader(stdout, limits.maxLineBytes, memory, listener);
    this.#output = output;
    stdout.on("data", () => this.#outputs++);
    const outputEnded = new Promise<void>((resolve) => {
      stdout.once("error", () => stdout.destroy());
      stdout.once("close", () => {
        output.end();
        this.input.pause();
        this.#onBroken(listener, "stdout");
        resolve();
      });
    });
    stderr.on("data", (chunk: Buffer) => {
      try {
        listener.onStderr(chunk);
      } catch (error) {
        listener.onDefect(error);
      }
      // Up to 2 MiB of short lines would otherwise be handled in one turn.
      stderr.pause();
      setImmediate(() => stderr.resume());
    });
    stderr.once("error", () => stderr.destroy());
    const stderrEnded = new Promise<void>((resolve) => stderr.once("close", resolve));
    this.exited = this.#waitForExit(Promise.all([outputEnded, stderrEnded]));
    this.ended = this.#waitForEnd();
  }

  get traffic(): UpstreamTraffic {
    return { outputs: this.#outputs, isReading: this.#output.isReading, inputs: this.input.writes };
  }

  /** Stops writing. */
  pause(): void {
    this.input.pause();
  }

  takeUnwritten(): Outgoing[] {
    return this.input.takeUnwritten();
  }

  /**
   * Closes stdin, then sends SIGTERM to the group, then SIGKILL (MCP 2025-11-25, basic/lifecycle, shutdown). The waits between these steps
   * are bounded.
   *
   * @param mayFinish false to send SIGTERM at once, because the process does not read its stdin yet.
   */
  async stop(mayFinish = true): Promise<ChildExit> {
    this.input.end();
    if (mayFinish && (await settlesWithin(this.ended, this.#limits.stdinGraceMs))) return this.ended;
    this.#process.signal("SIGTERM");
    if (await settlesWithin(this.ended, this.#limits.termGraceMs)) return this.ended;
    this.kill();
    return this.ended;
  }

  /** Sends SIGKILL to the group. */
  kill(): void {
    this.#process.signal("SIGKILL");
  }

  #onBroken(listener: ChildListener, pipe: "stdin" | "stdout"): void {
    // The exit is often seen a moment after the pipes close. The exit is then the cause to report.
    setTimeout(() => {
      try {
        if (!this.#hasExited) listener.onBroken(pipe);
      } catch (error) {
        listener.onDefect(error);
      }
    }, OUTPUT_AFTER_EXIT_MS).unref();
  }

  async #waitForExit(outputEnded: Promise<unknown>): Promise<ChildExit> {
    const exit = await this.#process.exited;
    const hadMemoryKills = this.pid !== undefined && (countMemoryKills() ?? 0) > (this.#memoryKillsBefore ?? Number.POSITIVE_INFINITY);
    this.#hasExited = true;
    await this.#output.whenIdle();
    await settlesWithin(outputEnded, OUTPUT_AFTER_EXIT_MS);
    await this.#output.whenIdle();
    return { ...exit, hadMemoryKills };
  }

  async #waitForEnd(): Promise<ChildExit> {
    const exit = await this.exited;
    this.#output.release();
    await this.#endGroup();
    this.#process.stdin.destroy();
    this.#process.stdout.destroy();
    this.#process.stderr.destroy();
    return exit;
  }

  /** Terminates the processes that the exited one left behind in its group. */
  async #endGroup(): Promise<void> {
    if (!this.#process.signal("SIGTERM")) return;
    if (await this.#process.waitForEnd(this.#limits.termGraceMs)) return;
    this.#process.signal("SIGKILL");
    await this.#process.waitForEnd(KILL_GRACE_MS);
  }
}

/** Resolves to true if the promise resolves within the timeout. */
async function settlesWithin(promise: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, false);
  });
  try {
    return await Promise.race([promise.then(() => true), timeout]);
  } finally {
    clearTimeout(timer);
  }
}
