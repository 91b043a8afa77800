import type { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Context } from "../context.ts";
import type { Batch, InvalidMessage, OverlongLine } from "../mcp/message.ts";
import { OTHER_TEXT, type ResponseAfterText, type ServerReading } from "../mcp/server-line.ts";
import type { MemoryHolder } from "../memory.ts";
import type { ExitKind } from "../observe/record.ts";
import { MAX_TIMER_MS } from "../timers.ts";
import { type ChildCommand, type ProcessExit, type ProcessGroup, startProcess } from "./child.ts";
import { describeExit, likelyCause } from "./exit.ts";
import { Handshake, HANDSHAKE_ID, HandshakeError, type HandshakeScript } from "./handshake.ts";
import { OutputLog, type ServerLog } from "./output-log.ts";
import type { UpstreamExit, UpstreamListener } from "./port.ts";
import { boundedReaders, type OutputListener, OutputReader, StdinWriter } from "./stdio.ts";

/** Time for the server to exit by itself after the end of stdin. */
const STDIN_GRACE_MS = 1000;
const TERM_GRACE_MS = 2000;
/** Only a process in uninterruptible sleep outlasts this. */
const KILL_GRACE_MS = 2000;
/** A grandchild may hold the pipe open after the exit without ever writing to it. */
const OUTPUT_AFTER_EXIT_MS = 500;

/** 60 s become eight minutes. */
const MAX_READY_TIMEOUT_FACTOR = 8;

/** The command, with what all its processes share: the limit of their output, and the time that a start may take. */
export class ServerProgram {
  readonly command: ChildCommand;
  readonly start: typeof startProcess;
  readonly readers: Set<OutputReader>;
  /** Shared, because what slows one process down, such as a download, slows down all. */
  readyTimeoutMs: number;
  readonly #longestTimeoutMs: number;

  constructor({ config, memory }: Context, command: ChildCommand, start = startProcess) {
    this.command = command;
    this.start = start;
    this.readers = boundedReaders(memory);
    this.readyTimeoutMs = config.readyTimeoutMs;
    this.#longestTimeoutMs = Math.min(config.readyTimeoutMs * MAX_READY_TIMEOUT_FACTOR, MAX_TIMER_MS);
  }

  allowMoreTime(usedMs: number): void {
    this.readyTimeoutMs = Math.max(this.readyTimeoutMs, Math.min(2 * usedMs, this.#longestTimeoutMs));
  }
}

/** One run of the MCP server. */
export class Generation implements OutputListener {
  readonly number: number;
  readonly pid: number | undefined;
  readonly input: StdinWriter;
  readonly output: OutputReader;
  readonly handshake: Handshake;
  /** When the server has exited, or was abandoned. Never rejects. */
  readonly lost: Promise<ProcessExit>;
  /** When the last output is delivered, and no process of the group is left. Never rejects. */
  readonly ended: Promise<ProcessExit>;
  /** Undefined if the server exited by itself. */
  stopCause: Pick<UpstreamExit, "kind" | "reason"> | undefined;
  readonly #context: Context;
  readonly #command: ChildCommand;
  readonly #listener: UpstreamListener;
  readonly #group: ProcessGroup;
  readonly #outputLog: OutputLog;
  readonly #lost = Promise.withResolvers<ProcessExit>();
  #isHeard = true;
  /** The last output may not be delivered yet. */
  #isGone = false;
  /** Undefined before the stop. */
  #wasSilent: boolean | undefined;

  /** @param client set if the server is for one client. */
  constructor(
    context: Context,
    { command, start, readers }: ServerProgram,
    serverLog: ServerLog,
    number: number,
    script: HandshakeScript,
    readyTimeoutMs: number,
    listener: UpstreamListener,
    client?: MemoryHolder,
  ) {
    [this.#context, this.#command, this.number, this.#listener] = [context, command, number, listener];
    this.#group = start(command);
    const { pid, stdin, stdout, stderr } = this.#group;
    this.pid = pid;
    this.input = new StdinWriter(stdin, (error) => this.onDefect(error));
    stdin.on("error", () => this.#onBroken("stdin"));
    this.output = new OutputReader(stdout, context, readers, client, this);
    const fields = { childPid: pid, generation: number };
    this.#outputLog = new OutputLog(context, fields, serverLog);
    if (pid !== undefined) serverLog.log.info(fields, "mcp server started");
    context.kill.addEventListener("abort", this.#kill);
    this.handshake = new Handshake(context, script, number, readyTimeoutMs, this.input, (response) => listener.onRefused(response));
    this.ended = this.#waitForEnd(this.#readToEnd(stdout, stderr));
    this.lost = this.#lost.promise;
  }

  describeEnd(exit: ProcessExit): UpstreamExit {
    const { redact } = this.#context.secrets;
    const { command, args, env } = this.#command;
    const { stderrTail, isNoisy, noiseCause } = this.#outputLog;
    const { state, current, refusal } = this.handshake;
    const wasReady = state === "ready";
    const { kind, reason } = this.stopCause ?? (wasReady ? describeExit(exit) : describeExit(exit, current.method, refusal?.message));
    const { exitCode, signal } = exit;
    const output = { stderrTail, isNoisy, noiseCause, isSilent: this.#wasSilent === true };
    const cause = likelyCause({ kind, exitCode, command: [command, ...args], env, wasReady, ...output });
    const likely = cause === undefined ? undefined : redact(cause);
    return { generation: this.number, kind, exitCode, signal, reason: redact(reason), likelyCause: likely, at: new Date(), stderrTail };
  }

  /** Takes bounded time (MCP 2025-11-25, basic/lifecycle, shutdown). */
  async stop(kind: ExitKind, reason: string): Promise<void> {
    if (this.#isHeard) this.stopCause ??= { kind, reason };
    this.#wasSilent ??= this.output.outputs === 0;
    this.input.end();
    // A program that still downloads the server does not read its stdin.
    if (await settlesWithin(this.ended, this.handshake.state === "ready" ? STDIN_GRACE_MS : 0)) return;
    this.#group.signal("SIGTERM");
    if (!(await settlesWithin(this.ended, TERM_GRACE_MS))) this.#kill();
    await this.ended;
  }

  /** `lost` resolves at once, further output is ignored, and the process is stopped. */
  abandon(kind: ExitKind, reason: string): void {
    if (!this.#isHeard) return;
    this.input.isPaused = true;
    void this.stop(kind, reason);
    this.#isHeard = false;
    this.#lost.resolve({ exitCode: undefined, signal: undefined, spawnErrorCode: undefined });
  }

  readonly #kill = (): void => void this.#group.signal("SIGKILL");

  /** A server that keeps running without a pipe can no longer be used. */
  #onBroken(pipe: "stdin" | "stdout"): void {
    const abandon = (): void => {
      if (!this.#isGone) this.abandon("pipe-closed", `the server closed its ${pipe}`);
    };
    // The exit is often seen a moment after the pipes close, and is then the cause to report.
    setTimeout(setImmediate, OUTPUT_AFTER_EXIT_MS, abandon).unref();
  }

  onReading(reading: Exclude<ServerReading, Batch> | OverlongLine): void {
    if (!this.#isHeard) return;
    if (reading.kind === "overlong") this.#listener.onOverlongLine(reading);
    else if (reading.kind === "invalid") this.#onNoise(reading);
    else if (reading.kind === "after-text") this.#onResponseAfterText(reading);
    else {
      this.#outputLog.openBraces = 0;
      if (this.handshake.state !== "open" || !this.handshake.take(reading)) this.#listener.onMessage(reading);
    }
  }

  #onNoise({ text, reason, answeredId }: InvalidMessage): void {
    this.#outputLog.addNoise(text, reason);
    if (answeredId === undefined) return;
    const { state, current } = this.handshake;
    if (state !== "open" || answeredId !== HANDSHAKE_ID) return this.#listener.onInvalidResponse(answeredId, reason);
    this.handshake.end(new HandshakeError("handshake-refused", `the MCP server's response to ${current.method} is invalid: ${reason}`));
  }

  #onResponseAfterText({ text, response }: ResponseAfterText): void {
    const isUsed = this.handshake.state === "open" ? this.handshake.take(response) : this.#listener.onResponseAfterText(response);
    this.#outputLog.addNoise(text, isUsed ? undefined : OTHER_TEXT);
  }

  onDefect(error: unknown): void {
    this.#context.defects.note("server process", error);
    this.abandon("defect", "the sidecar could not handle its output");
  }

  async #readToEnd(stdout: Readable, stderr: Readable): Promise<void> {
    const stderrEnd = this.#readStderr(stderr).catch(() => undefined);
    await finished(stdout).catch(() => undefined);
    this.output.end();
    this.input.isPaused = true;
    this.#onBroken("stdout");
    await stderrEnd;
  }

  async #readStderr(stderr: Readable): Promise<void> {
    for await (const chunk of stderr as AsyncIterable<Buffer>) {
      try {
        this.#outputLog.addStderr(chunk);
      } catch (error) {
        this.onDefect(error);
      }
      // Up to 2 MiB of short lines would otherwise be handled in one turn.
      await nextTurn();
    }
  }

  async #waitForEnd(outputEnd: Promise<void>): Promise<ProcessExit> {
    const exit = await this.#group.exited;
    this.#isGone = true;
    await this.output.later;
    await settlesWithin(outputEnd, OUTPUT_AFTER_EXIT_MS);
    await this.output.later;
    this.#isHeard = false;
    this.handshake.end(new Error(`the MCP server exited before it answered ${this.handshake.current.method}`));
    try {
      this.#outputLog.end();
    } catch (error) {
      this.#context.defects.note("server exit", error);
    }
    this.#lost.resolve(exit);
    this.output.release();
    if (this.#group.signal("SIGTERM") && !(await this.#group.waitForEnd(TERM_GRACE_MS))) {
      this.#kill();
      await this.#group.waitForEnd(KILL_GRACE_MS);
    }
    this.#context.kill.removeEventListener("abort", this.#kill);
    for (const pipe of [this.#group.stdin, this.#group.stdout, this.#group.stderr]) pipe.destroy();
    return exit;
  }
}

const LATE = {};

/** The promise must not reject. */
async function settlesWithin(promise: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  const late = Promise.withResolvers<typeof LATE>();
  const timer = setTimeout(late.resolve, timeoutMs, LATE);
  const first = await Promise.race([promise, late.promise]);
  clearTimeout(timer);
  return first !== LATE;
}
