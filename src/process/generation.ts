import type { Readable } from "node:stream";
import type { Context } from "../context.ts";
import { describeError, JsonRpcErrorCode } from "../mcp/errors.ts";
import {
  LONG_TEXT_LENGTH,
  type Message,
  outgoing,
  type OverlongLine,
  readMessage,
  refusesRevision,
  type RequestMessage,
  type ResponseMessage,
} from "../mcp/message.ts";
import { OTHER_TEXT, type ResponseAfterText } from "../mcp/server-line.ts";
import type { MemoryHolder } from "../memory.ts";
import type { ExitKind } from "../observe/record.ts";
import type { Redact } from "../observe/redact.ts";
import { MAX_TIMER_MS, Timer } from "../timers.ts";
import { type ChildCommand, type ProcessExit, type ProcessGroup, type StartProcess, startProcess } from "./child.ts";
import { type ExitCause, likelyCause } from "./exit.ts";
import { type Handshake, HANDSHAKE_ID, HandshakeError, isHandshakeResponse } from "./handshake.ts";
import { OutputLog, type StartLog } from "./output-log.ts";
import type { UpstreamHandshake, UpstreamListener, UpstreamTraffic } from "./port.ts";
import { boundedReaders, type OutputListener, OutputReader, StdinWriter } from "./stdio.ts";

/**
 * Limits the wait for a second response, if the first is an error that does not speak of the protocol, such as a missing key. Most such
 * servers fail in any era, but those without sessions may reject `initialize` with any error. They have just answered, so they need little time.
 */
const SECOND_ATTEMPT_MS = 2000;
/** The time after an error without an id for the real response of a handshake. */
const UNADDRESSED_MS = 1000;
/** The time that a server has to exit by itself when its stdin is closed. */
const STDIN_GRACE_MS = 1000;
/** The time from SIGTERM to SIGKILL. */
const TERM_GRACE_MS = 2000;
/** A process cannot ignore SIGKILL; only one in uninterruptible sleep outlasts this. */
const KILL_GRACE_MS = 2000;
/** The wait for further output after the exit. It is bounded because a grandchild may hold the pipe open without ever writing to it. */
const OUTPUT_AFTER_EXIT_MS = 500;

/** READY_TIMEOUT_MS may double three times: 60 s become eight minutes. */
const MAX_READY_TIMEOUT_FACTOR = 8;

/** The program of a server, and what all its processes share. */
export class ServerProgram {
  readonly command: ChildCommand;
  readonly start: StartProcess;
  readonly readers: Set<OutputReader>;
  /** The time limit of a start. All processes share it, because what slows one down, such as a download, slows down all. */
  readyTimeoutMs: number;
  readonly #longestTimeoutMs: number;

  constructor({ config, memory }: Context, command: ChildCommand, start: StartProcess = startProcess) {
    this.command = command;
    this.start = start;
    this.readers = boundedReaders(memory);
    this.readyTimeoutMs = config.readyTimeoutMs;
    this.#longestTimeoutMs = Math.min(config.readyTimeoutMs * MAX_READY_TIMEOUT_FACTOR, MAX_TIMER_MS);
  }

  /** Doubles the limit after a start that was too slow. @param usedMs its limit. */
  allowMoreTime(usedMs: number): void {
    this.readyTimeoutMs = Math.max(this.readyTimeoutMs, Math.min(2 * usedMs, this.#longestTimeoutMs));
  }
}

/** The receiver of a generation's messages. */
type GenerationListener = Pick<
  UpstreamListener,
  "onMessage" | "onResponseAfterText" | "onInvalidResponse" | "onRefused" | "onOverlongLine"
>;

/** One generation of the MCP server: its process group, its handshake, and its output as messages. */
export class Generation implements OutputListener {
  readonly number: number;
  /** Undefined if the process could not be started. */
  readonly pid: number | undefined;
  readonly input: StdinWriter;
  /** The server's output besides messages. */
  readonly outputLog: OutputLog;
  /** Resolves when the server has exited, or was abandoned and is being stopped. No more messages are passed on. Never rejects. */
  readonly lost: Promise<ProcessExit>;
  /** Resolves when the process has exited and its last output is delivered. Never rejects. */
  readonly exited: Promise<ProcessExit>;
  /** Resolves when, in addition, no process of its group is left. Never rejects. */
  readonly ended: Promise<ProcessExit>;
  /** The reason why the sidecar stopped the server; undefined if the server exited by itself. */
  stopCause: ExitCause | undefined;
  /** True if the handshake was finished. */
  wasReady = false;
  readonly #context: Context;
  readonly #command: ChildCommand;
  readonly #listener: GenerationListener;
  readonly #group: ProcessGroup;
  readonly #output: OutputReader;
  readonly #abandoned = Promise.withResolvers<ProcessExit>();
  /** False once the generation is lost. Nothing waits for further output then, including that of the rest of its process group. */
  #isHeard = true;
  /** True when the process has exited, and a moment later, when its last output is delivered too. */
  #isGone = false;
  #hasExited = false;
  /** True if nothing was printed to stdout until the stop; undefined before it. */
  #wasSilent: boolean | undefined;
  /** The handshake, until it has succeeded or failed. */
  #handshake: Handshake | undefined;
  readonly #answered = Promise.withResolvers<UpstreamHandshake>();
  #deadline: Timer | undefined;
  #readyTimeoutMs = 0;
  /** The timer of an error without an id, which then counts as the response. */
  #unaddressed: NodeJS.Timeout | undefined;

  /**
   * Starts the process.
   *
   * @param number counted from 1.
   * @param client that of a private server.
   */
  constructor(
    context: Context,
    { command, start, readers }: ServerProgram,
    startLog: StartLog,
    number: number,
    listener: GenerationListener,
    client?: MemoryHolder,
  ) {
    this.#context = context;
    this.#command = command;
    this.#listener = listener;
    this.number = number;
    this.#group = start(command);
    const { pid, stdin, stdout, stderr } = this.#group;
    this.pid = pid;
    this.input = new StdinWriter(stdin, (error) => this.onDefect(error));
    stdin.on("error", () => this.#onBroken("stdin"));
    this.#output = new OutputReader(stdout, context, readers, client, this);
    const fields = { childPid: pid, generation: number };
    this.outputLog = new OutputLog(context, fields, startLog);
    if (pid !== undefined) startLog.log.info(fields, "mcp server started");
    context.kill.addEventListener("abort", this.#kill);
    this.exited = this.#waitForExit(closed(stdout), this.#readStderr(stderr));
    this.ended = this.#waitForEnd();
    this.lost = Promise.race([this.exited, this.#abandoned.promise]);
  }

  get traffic(): UpstreamTraffic {
    const { outputs, isReading } = this.#output;
    return { outputs, isReading, inputs: this.input.writes };
  }

  /** Returns the likely cause of the exit, masked, for people. */
  likelyCause(kind: ExitKind, { exitCode }: ProcessExit): string | undefined {
    const { command, args, env } = this.#command;
    const { stderrTail, isNoisy, sign } = this.outputLog;
    const isSilent = this.#wasSilent === true;
    const { wasReady } = this;
    const cause = likelyCause({ kind, exitCode, stderrTail, command: [command, ...args], env, isNoisy, isSilent, sign, wasReady });
    return cause === undefined ? undefined : this.#context.secrets.redact(cause);
  }

  /**
   * Closes stdin, then sends SIGTERM to the process group, then SIGKILL (MCP 2025-11-25, basic/lifecycle, shutdown). The waits between these
   * steps are bounded.
   */
  async stop(kind: ExitKind, reason: string): Promise<void> {
    if (!this.#hasExited) this.stopCause ??= { kind, reason };
    // The end of its stdin makes a server print what it holds in a buffer.
    this.#wasSilent ??= this.#output.outputs === 0;
    this.input.end();
    // A program that still downloads the server does not read its stdin.
    if (await settlesWithin(this.ended, this.wasReady ? STDIN_GRACE_MS : 0)) return;
    this.#group.signal("SIGTERM");
    if (!(await settlesWithin(this.ended, TERM_GRACE_MS))) this.#kill();
    await this.ended;
  }

  /** Abandons a generation that can no longer be used: `lost` resolves at once, further output is ignored, and the process is stopped. */
  abandon(kind: ExitKind, reason: string): void {
    if (this.#hasExited) return;
    this.#isHeard = false;
    this.input.pause();
    void this.stop(kind, reason);
    this.#abandoned.resolve({ exitCode: undefined, signal: undefined, spawnErrorCode: undefined });
  }

  readonly #kill = (): void => void this.#group.signal("SIGKILL");

  /** Called when the server has closed a pipe. If it keeps running, it can no longer be used. */
  #onBroken(pipe: "stdin" | "stdout"): void {
    const abandon = (): void => {
      if (!this.#isGone) this.abandon("pipe-closed", `the server closed its ${pipe}`);
    };
    // The exit is often seen a moment after the pipes close, on a busy machine in the turn of the timer. It is then the cause to report.
    setTimeout(() => setImmediate(abandon), OUTPUT_AFTER_EXIT_MS).unref();
  }

  onMessage(message: Message): void {
    if (!this.#isHeard) return;
    this.outputLog.openBraces = 0;
    if (this.#handshake === undefined) this.#listener.onMessage(message);
    // An error without an id may be about something else: then there is another response in a moment.
    else if (message.kind === "response" && message.id === undefined)
      this.#unaddressed ??= setTimeout(() => this.#onHandshakeResponse(message), UNADDRESSED_MS);
    else if (isHandshakeResponse(message)) this.#onHandshakeResponse(message);
    else this.#listener.onMessage(message);
  }

  onNoise(text: string, reason: string, answeredId?: number): void {
    if (!this.#isHeard) return;
    this.outputLog.addNoise(text, reason);
    if (answeredId === undefined) return;
    if (this.#handshake === undefined || answeredId !== HANDSHAKE_ID) return this.#listener.onInvalidResponse(answeredId, reason);
    const { method } = this.#handshake.current;
    this.#failHandshake(new HandshakeError("handshake-refused", `the MCP server's response to ${method} is invalid: ${reason}`));
  }

  onResponseAfterText({ text, response }: ResponseAfterText): void {
    if (!this.#isHeard) return;
    const isOfHandshake = this.#handshake !== undefined && isHandshakeResponse(response);
    if (isOfHandshake) this.#onHandshakeResponse(response);
    const isUsed = isOfHandshake || this.#listener.onResponseAfterText(response);
    this.outputLog.addNoise(text, isUsed ? undefined : OTHER_TEXT);
  }

  onOverlongLine(line: OverlongLine): void {
    if (this.#isHeard) this.#listener.onOverlongLine(line);
  }

  onDefect(error: unknown): void {
    this.#context.defects.note("server process", error);
    this.abandon("defect", "the sidecar could not handle its output");
  }

  /** Logs stderr. @returns a promise that resolves at its end. */
  #readStderr(stderr: Readable): Promise<void> {
    stderr.on("data", (chunk: Buffer) => {
      try {
        this.outputLog.addStderr(chunk);
      } catch (error) {
        this.onDefect(error);
      }
      // Up to 2 MiB of short lines would otherwise be handled in one turn.
      stderr.pause();
      setImmediate(() => stderr.resume());
    });
    return closed(stderr);
  }

  /**
   * Must be called once, after the process has started. Rejects on an error response, an early exit, or if there is no response within
   * `readyTimeoutMs`. The caller then stops this generation.
   */
  async shakeHands(handshake: Handshake, readyTimeoutMs: number): Promise<UpstreamHandshake> {
    const { nowMs, timers } = this.#context;
    this.#handshake = handshake;
    this.#readyTimeoutMs = readyTimeoutMs;
    this.#deadline = new Timer(timers, () => {
      const late = `no response to ${handshake.current.method} within ${readyTimeoutMs} ms`;
      this.#failHandshake(handshake.refusal ?? new HandshakeError("handshake-timeout", late));
    });
    this.#deadline.set(nowMs() + readyTimeoutMs);
    this.input.send(outgoing(handshake.begin()));
    try {
      const result = await this.#answered.promise;
      this.wasReady = true;
      if (result.era === "legacy" && handshake.initialized !== undefined) this.input.send(outgoing(handshake.initialized));
      return result;
    } finally {
      this.#deadline.clear();
      clearTimeout(this.#unaddressed);
    }
  }

  #onHandshakeResponse(response: RequestMessage | ResponseMessage): void {
    const handshake = this.#handshake;
    if (handshake === undefined) return;
    const shown = response.kind === "response" && response.isError ? masked(response, this.#context.secrets.redactJson) : response;
    try {
      const read = handshake.read(shown, this.number);
      if (typeof read === "string") {
        clearTimeout(this.#unaddressed);
        this.#unaddressed = undefined;
        if (!refusesRevision(shown)) this.#deadline?.set(this.#context.nowMs() + Math.min(this.#readyTimeoutMs, SECOND_ATTEMPT_MS));
        return this.input.send(outgoing(read));
      }
      this.#handshake = undefined;
      this.#answered.resolve(read);
    } catch (error) {
      this.#failHandshake(error instanceof Error ? error : new Error(describeError(error)));
      if (shown.kind === "response" && shown.isError) this.#listener.onRefused(shown);
    }
  }

  #failHandshake(error: Error): void {
    this.#handshake = undefined;
    this.#answered.reject(error);
  }

  async #waitForExit(stdout: Promise<void>, stderr: Promise<void>): Promise<ProcessExit> {
    const outputEnded = stdout.then(() => {
      this.#output.end();
      this.input.pause();
      this.#onBroken("stdout");
      return stderr;
    });
    const exit = await this.#group.exited;
    this.#isGone = true;
    await this.#output.whenIdle();
    await settlesWithin(outputEnded, OUTPUT_AFTER_EXIT_MS);
    await this.#output.whenIdle();
    this.#hasExited = true;
    this.#isHeard = false;
    const awaited = this.#handshake?.current.method;
    if (awaited !== undefined) this.#failHandshake(new Error(`the MCP server exited before it answered ${awaited}`));
    this.#context.defects.guard("server exit", () => this.outputLog.end());
    return exit;
  }

  /** Terminates the processes that the exited one has left behind in its group. */
  async #waitForEnd(): Promise<ProcessExit> {
    const exit = await this.exited;
    this.#output.release();
    if (this.#group.signal("SIGTERM") && !(await this.#group.waitForEnd(TERM_GRACE_MS))) {
      this.#kill();
      await this.#group.waitForEnd(KILL_GRACE_MS);
    }
    this.#context.kill.removeEventListener("abort", this.#kill);
    for (const pipe of [this.#group.stdin, this.#group.stdout, this.#group.stderr]) pipe.destroy();
    return exit;
  }
}

/** Resolves when the stream is closed, which an error does too. */
function closed(stream: Readable): Promise<void> {
  stream.once("error", () => stream.destroy());
  return new Promise((resolve) => stream.once("close", resolve));
}

/** Resolves to true if the promise resolves within the timeout. It must not reject. */
async function settlesWithin(promise: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  const late = {};
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise((resolve) => {
    timer = setTimeout(resolve, timeoutMs, late);
  });
  const first = await Promise.race([promise, timeout]);
  clearTimeout(timer);
  return first !== late;
}

/** Returns an error response to the handshake with secrets masked, as clients may read it. */
function masked(response: ResponseMessage, redactJson: Redact): ResponseMessage {
  const { length } = response.text;
  const message = `The MCP server answered the handshake with an error of ${length} characters, which cannot be forwarded`;
  const error = { code: JsonRpcErrorCode.InternalError, message };
  const generic = JSON.stringify({ jsonrpc: "2.0", id: response.id ?? null, error });
  const read = readMessage(length > LONG_TEXT_LENGTH ? generic : redactJson(response.text));
  if (read.kind === "response" && read.isError) return read;
  // A secret is part of the envelope itself.
  const replaced = readMessage(generic);
  if (replaced.kind !== "response") throw new Error("the replacement of an error response is not a response");
  return replaced;
}
