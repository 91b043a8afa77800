import { describeError, JsonRpcErrorCode } from "../mcp/errors.ts";
import {
  LONG_TEXT_LENGTH,
  type Message,
  outgoing,
  type Outgoing,
  readMessage,
  type RequestMessage,
  type ResponseMessage,
} from "../mcp/message.ts";
import { OTHER_TEXT } from "../mcp/server-line.ts";
import { refusesRevision } from "../mcp/versions.ts";
import type { Counters, ExitKind } from "../observe/counters.ts";
import { Defects, type Log } from "../observe/log.ts";
import type { Redact, Secrets } from "../observe/redact.ts";
import { type ChildCommand, type ChildExit, type ChildLimits, ChildProcess, type StartProcess } from "./child.ts";
import { type ExitCause, likelyCause } from "./exit.ts";
import { HANDSHAKE_ID, HandshakeError, type HandshakeScript, isHandshakeResponse } from "./handshake.ts";
import { type StartLog, StderrLimits, StderrLog, StdoutNoise } from "./output-log.ts";
import type { UpstreamHandshake, UpstreamInput, UpstreamListener, UpstreamTraffic } from "./port.ts";
import type { ServerMemory } from "./stdio.ts";

export interface GenerationOptions {
  readonly command: ChildCommand;
  readonly startProcess: StartProcess;
  readonly limits: ChildLimits;
  readonly handshake: HandshakeScript;
  /** The longest time from the start of the process to the first response of its handshake. */
  readonly readyTimeoutMs: number;
  /** Counted from 1. */
  readonly number: number;
  readonly memory: ServerMemory;
  readonly counters: Counters;
  readonly log: Log;
  /** Undefined if there are no earlier starts to compare with. */
  readonly startLog?: StartLog | undefined;
  readonly secrets: Pick<Secrets, "redact" | "redactJson">;
  readonly nowMs: () => number;
}

/**
 * The time for a second attempt after an error that does not speak of the protocol, such as a missing key. Such a server is most likely of
 * no other era, but a revision without sessions lets it reject `initialize` with any error. It has just answered, so it needs little time.
 */
const SECOND_ATTEMPT_MS = 2000;
/** The time after an error without an id for the real response of a handshake. */
const UNADDRESSED_MS = 1000;

export type GenerationListener = Pick<
  UpstreamListener,
  "onMessage" | "onResponseAfterText" | "onInvalidResponse" | "onRefused" | "onOverlongLine"
>;

/** One generation of the MCP server: its process, its handshake, and its output as messages. */
export class Generation {
  readonly number: number;
  /** Rejects on an error response, an early exit, or after `readyTimeoutMs`. The caller then stops this generation. */
  readonly handshake: Promise<UpstreamHandshake>;
  /** Resolves when the server has exited, or was abandoned and is being stopped. No more messages are passed on. Never rejects. */
  readonly lost: Promise<ChildExit>;
  readonly #child: ChildProcess;
  readonly #command: ChildCommand;
  readonly #redact: Redact;
  readonly #stderr: StderrLog;
  readonly #noise: StdoutNoise;
  readonly #listener: GenerationListener;
  #onHandshakeResponse: ((response: RequestMessage | ResponseMessage) => void) | undefined;
  #failHandshake: ((reason: string) => void) | undefined;
  /** The timer of an error without an id, which then counts as the response. */
  #unaddressed: NodeJS.Timeout | undefined;
  readonly #abandoned = Promise.withResolvers<ChildExit>();
  #isAbandoned = false;
  #wasReady = false;
  #stopCause: ExitCause | undefined;
  #hasExited = false;

  constructor(options: GenerationOptions, listener: GenerationListener) {
    this.number = options.number;
    this.#listener = listener;
    const defects = new Defects(options.log, options.counters);
    this.#child = new ChildProcess(options.startProcess, options.command, options.limits, options.memory, {
      onMessage: (message) => this.#onMessage(message),
      onNoise: ({ text, reason, answeredId }) => {
        if (!this.#isHeard) return;
        this.#noise.report(text, reason);
        if (answeredId !== undefined) this.#onInvalidResponse(answeredId, reason);
      },
      onResponseAfterText: ({ text, response }) => {
        if (!this.#isHeard) return;
        if (this.#isHandshakeResponse(response)) this.#onHandshakeResponse?.(response);
        else if (!listener.onResponseAfterText(response)) return this.#noise.report(text, OTHER_TEXT);
        this.#noise.reportTextBefore(text);
      },
      onOverlongLine: (line) => {
        if (this.#isHeard) listener.onOverlongLine(line);
      },
      onDefect: (error) => {
        defects.note("server process", error);
        this.abandon("defect", "the sidecar could not handle its output");
      },
      onStderr: (chunk) => this.#stderr.push(chunk),
      onBroken: (pipe) => this.abandon("pipe-closed", `the server closed its ${pipe}`),
    });
    this.lost = Promise.race([this.#child.exited, this.#abandoned.promise]);
    const fields = { childPid: this.#child.pid, generation: this.number };
    const { command, counters, log, nowMs, startLog } = options;
    const { redact } = options.secrets;
    this.#command = command;
    this.#redact = redact;
    const isRepeated = startLog === undefined ? undefined : (line: string): boolean => startLog.isRepeated(line);
    this.#stderr = new StderrLog(log, fields, redact, startLog?.stderrLimits ?? new StderrLimits(log, nowMs), isRepeated);
    this.#noise = new StdoutNoise({ counters, log, fields, redact, nowMs, isRepeated });
    if (this.#child.pid !== undefined) startLog?.started(fields);
    this.handshake = this.#shakeHands(options);
    void this.exited.then(() => {
      this.#hasExited = true;
      defects.guard("server exit", () => {
        this.#stderr.end();
        this.#noise.reportSuppressed();
      });
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Resolves when the process has exited and its output is delivered. */
  get exited(): Promise<ChildExit> {
    return this.#child.exited;
  }

  /** Resolves when, in addition, no process of its group is left. */
  get ended(): Promise<ChildExit> {
    return this.#child.ended;
  }

  get stderrTail(): readonly string[] {
    return this.#stderr.tail;
  }

  /** Returns the likely cause of the exit, masked, for people. */
  likelyCause(kind: ExitKind, { exitCode }: ChildExit): string | undefined {
    const { stderrTail } = this;
    const cause = likelyCause({
      kind,
      exitCode,
      stderrTail,
      command: [this.#command.command, ...this.#command.args],
      env: this.#command.env,
      isNoisy: this.#noise.isNoisy,
      isSilent: this.#child.traffic.outputs === 0,
      sign: this.#noise.sign,
      wasReady: this.#wasReady,
    });
    return cause === undefined ? undefined : this.#redact(cause);
  }

  /** The reason why the sidecar stopped the server; undefined if the server exited by itself. */
  get stopCause(): ExitCause | undefined {
    return this.#stopCause;
  }

  get input(): UpstreamInput {
    return this.#child.input;
  }

  get traffic(): UpstreamTraffic {
    return this.#child.traffic;
  }

  takeUnwritten(): Outgoing[] {
    return this.#child.takeUnwritten();
  }

  async stop(kind: ExitKind, reason: string): Promise<void> {
    if (!this.#hasExited) this.#stopCause ??= { kind, reason };
    // A program that still downloads the server does not read its stdin.
    await this.#child.stop(this.#wasReady);
  }

  /** Abandons a generation that can no longer be used: `lost` resolves at once, further output is ignored, and the process is stopped. */
  abandon(kind: ExitKind, reason: string): void {
    if (this.#hasExited) return;
    this.#isAbandoned = true;
    this.#child.pause();
    void this.stop(kind, reason);
    this.#abandoned.resolve({ exitCode: undefined, signal: undefined, spawnErrorCode: undefined, hadMemoryKills: false });
  }

  kill(): void {
    this.#child.kill();
  }

  async #shakeHands(options: GenerationOptions): Promise<UpstreamHandshake> {
    const { handshake: script, readyTimeoutMs, number, secrets } = options;
    let timer: NodeJS.Timeout | undefined;
    let onTimeout: (() => void) | undefined;
    const answered = new Promise<UpstreamHandshake>((resolve, reject) => {
      this.#failHandshake = (reason) => {
        this.#onHandshakeResponse = undefined;
        reject(new HandshakeError("handshake-refused", `the MCP server's response to ${script.method} is invalid: ${reason}`));
      };
      this.#onHandshakeResponse = (response) => {
        const shown = response.kind === "response" && response.isError ? masked(response, secrets.redactJson) : response;
        try {
          const read = script.read(shown, number);
          if (typeof read === "string") {
            this.#clearUnaddressed();
            if (!refusesRevision(shown)) {
              clearTimeout(timer);
              timer = setTimeout(() => onTimeout?.(), Math.min(readyTimeoutMs, SECOND_ATTEMPT_MS));
            }
            return this.input.send(outgoing(read));
          }
          this.#onHandshakeResponse = undefined;
          resolve(read);
        } catch (error) {
          this.#onHandshakeResponse = undefined;
          if (shown.kind === "response" && shown.isError) this.#listener.onRefused(shown);
          reject(error instanceof Error ? error : new Error(describeError(error)));
        }
      };
    });
    const timedOut = new Promise<never>((_resolve, reject) => {
      onTimeout = () =>
        reject(script.refusal ?? new HandshakeError("handshake-timeout", `no response to ${script.method} within ${readyTimeoutMs} ms`));
      timer = setTimeout(onTimeout, readyTimeoutMs);
    });
    const exited = this.exited.then((): never => {
      throw new Error(`the MCP server exited before it answered ${script.method}`);
    });
    this.input.send(outgoing(script.begin()));
    try {
      const handshake = await Promise.race([answered, timedOut, exited]);
      this.#wasReady = true;
      const initialized = script.initializedNotification();
      if (initialized !== undefined) this.input.send(outgoing(initialized));
      return handshake;
    } finally {
      clearTimeout(timer);
      this.#clearUnaddressed();
      this.#onHandshakeResponse = undefined;
      // This promise rejects at every exit, and nothing awaits it after the handshake.
      exited.catch(() => undefined);
    }
  }

  /** False once the generation is lost. Nothing waits for further output then, including that of the rest of its process group. */
  get #isHeard(): boolean {
    return !this.#isAbandoned && !this.#hasExited;
  }

  #onMessage(message: Message): void {
    if (!this.#isHeard) return;
    this.#noise.onMessage();
    // An error without an id may be about something else: then there is another response in a moment.
    if (this.#onHandshakeResponse !== undefined && message.kind === "response" && message.id === undefined)
      this.#unaddressed ??= setTimeout(() => this.#onHandshakeResponse?.(message), UNADDRESSED_MS);
    else if (this.#isHandshakeResponse(message)) this.#onHandshakeResponse?.(message);
    else this.#listener.onMessage(message);
  }

  #clearUnaddressed(): void {
    clearTimeout(this.#unaddressed);
    this.#unaddressed = undefined;
  }

  #isHandshakeResponse(message: Message): message is RequestMessage | ResponseMessage {
    return this.#onHandshakeResponse !== undefined && isHandshakeResponse(message);
  }

  #onInvalidResponse(answeredId: number, reason: string): void {
    if (this.#onHandshakeResponse !== undefined && answeredId === HANDSHAKE_ID) this.#failHandshake?.(reason);
    else this.#listener.onInvalidResponse(answeredId, reason);
  }
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
