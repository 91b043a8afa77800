import { randomUUID } from "node:crypto";
import type { Counters } from "../../../src/observe/record.ts";
import { checkClientMessage } from "../../../src/mcp/client-message.ts";
import { type JsonObject, type Message, type Outgoing, type RequestMessage, readMessage } from "../../../src/mcp/message.ts";
import type { Config } from "../../../src/config/load.ts";
import type { ServerEra, Upstream, UpstreamInput, UpstreamStatus } from "../../../src/process/port.ts";
import type { Call, CallLimits, CallVerdict } from "../../../src/server/call.ts";
import { EventLog } from "../../../src/session/replay.ts";
import { type Caller, Session } from "../../../src/session/session.ts";
import { Lane } from "../../../src/server/lane.ts";
import type { Calls } from "../../../src/server/calls.ts";
import type { LanePolicy, ServerTools } from "../../../src/server/tools.ts";
import { PrivateSession } from "../../../src/server/private-session.ts";
import { Routing } from "../../../src/server/routing.ts";
import { SessionStreams } from "../../../src/session/streams.ts";
import { type RecordedLog, UNGUARDED, contextOf } from "../../support/context.ts";
import { RecordedReply } from "./recorded-reply.ts";
import { RecordedSink } from "./recorded-sink.ts";
import { ACCOUNT } from "./memory.ts";

const LIMITS: Partial<Config> = {
  requestTimeoutMs: 1000,
  holdTimeoutMs: 500,
  streamAfterMs: 200,
  maxHeldRequests: 10,
  maxInFlight: 100,
  maxSessionRequests: 1000,
  maxQueuedBytes: 10_000,
  maxLineBytes: 1000,
  pingIntervalMs: undefined,
  hungTimeouts: 1000,
};

function messageOfClient(message: JsonObject | string): Message {
  const read = checkClientMessage(readMessage(typeof message === "string" ? message : JSON.stringify({ jsonrpc: "2.0", ...message })));
  if ("code" in read) throw new Error(read.reason);
  return read;
}

export function requestOfClient(message: JsonObject | string): RequestMessage {
  const read = messageOfClient(message);
  if (read.kind !== "request") throw new Error("no request");
  return read;
}

export interface LaneBenchOptions {
  readonly retry?: Config["retry"];
  /** The default has no rules, and the limits that the test gives. */
  readonly policy?: LanePolicy;
  /** False if the client of a private lane has not sent `notifications/initialized`. */
  readonly isInitialized?: boolean;
  readonly endSession?: (session: Session) => void;
}

function openSession(lane: Lane, streams: SessionStreams): Session {
  return new Session({ id: randomUUID(), owner: undefined, protocolVersion: "2025-11-25" }, lane, streams, Date.now());
}

/** A policy without rules. */
export class OpenPolicy implements LanePolicy {
  readonly needsTools: boolean = false;
  /** The limits of the next call. */
  limits: CallLimits | undefined;

  transformOf(): undefined {
    return undefined;
  }

  admit(): CallLimits | undefined {
    return this.limits;
  }

  onTools(_tools: readonly JsonObject[], _generation: number): void {
    // No rule needs them.
  }

  onLost(): void {
    // No tools are known.
  }

  review(_call: Call, _isSent: boolean): CallVerdict | undefined {
    return undefined;
  }
}

/** A real lane between a simulated server and sessions whose streams are read here. The clock is the fake one of the test. */
export class LaneBench {
  readonly upstream = new RecordedUpstream();
  readonly eventLog = new EventLog(
    contextOf({ replayMaxBytes: 1_000_000, replayMaxAgeMs: 100_000, replayMaxEvents: 100 }, { defects: UNGUARDED }),
  );
  readonly context: ReturnType<typeof contextOf>;
  readonly lane: Lane;
  readonly ended: Session[] = [];
  readonly #open = new OpenPolicy();
  readonly #draining = new AbortController();
  #generation = 0;

  constructor(
    createRouting: (calls: Calls, tools: ServerTools, eventLog: EventLog) => Routing,
    limits: Partial<Config> = {},
    { retry = "protocol-reads", endSession = (session) => session.end(true), policy }: LaneBenchOptions = {},
  ) {
    this.context = contextOf({ ...LIMITS, retry, ...limits }, { draining: this.#draining.signal });
    const onEnded = (session: Session): void => {
      this.ended.push(session);
      endSession(session);
    };
    this.lane = new Lane(
      this.context,
      this.upstream,
      onEnded,
      (calls, tools) => createRouting(calls, tools, this.eventLog),
      policy ?? this.#open,
    );
  }

  static shared(limits: Partial<Config> = {}, options?: LaneBenchOptions): LaneBench {
    return new LaneBench((calls, tools) => new Routing(calls, tools), limits, options);
  }

  static ready(limits: Partial<Config> = {}, options?: LaneBenchOptions): LaneBench {
    return started(LaneBench.shared(limits, options));
  }

  get log(): RecordedLog {
    return this.context.log;
  }

  get counters(): Counters {
    return this.context.counters;
  }

  get dropped(): Counters["dropped"] {
    return { ...this.counters.dropped };
  }

  join(): Session {
    const session = openSession(this.lane, new SessionStreams(ACCOUNT, this.eventLog));
    this.lane.addSession(session, requestOfClient({ id: "i", method: "initialize" }));
    return session;
  }

  /** A new generation of the server begins its handshake. */
  spawn(): void {
    this.upstream.isRunning = true;
    this.lane.onStarted(this.upstream);
  }

  /** A new generation of the server has finished its handshake, with these capabilities. */
  start(capabilities?: JsonObject, protocolVersion = "2025-11-25", era: ServerEra = "legacy"): void {
    this.spawn();
    const resultText = capabilities === undefined ? "{}" : JSON.stringify({ protocolVersion, capabilities });
    const handshake = { era, resultText, protocolVersion, pingMethod: "ping", requestMeta: undefined } as const;
    this.lane.onReady({ ...handshake, generation: ++this.#generation });
  }

  lose(): void {
    const exit = { exitCode: 1, signal: undefined, generation: this.#generation, reason: "exited with code 1" };
    this.lane.onLost({ ...exit, likelyCause: undefined, at: new Date(0), stderrTail: [], kind: "crash" }, this.upstream.stop());
  }

  /** The server sends this message. */
  say(message: JsonObject | string): void {
    const text = typeof message === "string" ? message : JSON.stringify({ jsonrpc: "2.0", ...message });
    const read = readMessage(text);
    if (read.kind === "invalid") throw new Error(read.reason);
    this.upstream.outputs++;
    this.lane.onMessage(read);
  }

  /** Returns the lines that the server has read since the last look. */
  heard(): Record<string, unknown>[] {
    return this.upstream.takeRead().map((line) => {
      const { jsonrpc, ...message } = JSON.parse(line) as Record<string, unknown>;
      if (jsonrpc !== "2.0") throw new Error(`no JSON-RPC: ${line}`);
      return message;
    });
  }

  /** The server answers the latest request of this method, and skips all earlier lines. */
  reply(method: string, answer: JsonObject = { result: {} }): void {
    const request = this.heard().findLast((message) => message["method"] === method && message["id"] !== undefined);
    if (request === undefined) throw new Error(`the server was not asked for ${method}`);
    this.say({ id: request["id"], ...answer });
  }

  request(
    caller: Caller,
    message: JsonObject | string,
    readsStreams = true,
    acceptedAtMs = Date.now(),
    limits?: CallLimits,
  ): RecordedReply {
    const request = requestOfClient(typeof message === "string" ? message : { id: 1, ...message });
    const reply = new RecordedReply(this.context, request.idText, acceptedAtMs, readsStreams);
    this.#open.limits = limits;
    this.lane.request(caller, reply, request);
    this.#open.limits = undefined;
    return reply;
  }

  /** @returns the code of the error, if there is one. */
  notify(session: Session, message: JsonObject | string): string | undefined {
    const notification = messageOfClient(message);
    if (notification.kind !== "notification") throw new Error("no notification");
    return this.lane.notify(session, notification)?.code;
  }

  /** @returns the code of the error, if there is one. */
  answer(message: JsonObject | string, session: Session): string | undefined {
    const response = messageOfClient(message);
    if (response.kind !== "response") throw new Error("no response");
    return this.lane.answer(session, response)?.code;
  }
}

export class PrivateLaneBench extends LaneBench {
  readonly session: Session;
  readonly initialized: string[];

  constructor(limits: Partial<Config> = {}, options?: LaneBenchOptions) {
    const initialized: string[] = [];
    let streams: SessionStreams | undefined;
    super(
      (calls, tools, eventLog) => {
        streams = new SessionStreams(ACCOUNT, eventLog, options?.isInitialized ?? true);
        return new Routing(calls, tools, "legacy", new PrivateSession(calls, tools, streams, (text) => initialized.push(text)));
      },
      limits,
      options,
    );
    if (streams === undefined) throw new Error("the lane made no routing");
    this.session = openSession(this.lane, streams);
    this.initialized = initialized;
    this.lane.addSession(this.session, requestOfClient({ id: "i", method: "initialize" }));
  }

  override answer(message: JsonObject | string, session = this.session): string | undefined {
    return super.answer(message, session);
  }

  static override ready(limits: Partial<Config> = {}, options?: LaneBenchOptions): PrivateLaneBench {
    return started(new PrivateLaneBench(limits, options));
  }
}

function started<Bench extends LaneBench>(bench: Bench): Bench {
  bench.start();
  return bench;
}

/** Connects to a session like a GET. */
export function listen({ streams }: Session): RecordedSink {
  const sink = new RecordedSink();
  streams.openStandalone().attach(sink);
  streams.deliverWaiting();
  return sink;
}

export function messages(texts: readonly string[]): Record<string, unknown>[] {
  return texts.map((text) => {
    const { jsonrpc: _, ...message } = JSON.parse(text) as Record<string, unknown>;
    return message;
  });
}

class RecordedUpstream implements Upstream, UpstreamInput {
  isRunning = false;
  /** A server that does not read leaves lines queued. */
  isReading = true;
  isFailed = false;
  #lines: Outgoing[] = [];

  get queuedBytes(): number {
    return this.#lines.reduce((sum, { text, isWritten }) => sum + (isWritten ? 0 : Buffer.byteLength(text)), 0);
  }

  send(line: Outgoing): void {
    if (!this.isRunning) return;
    if (line.text.includes("\n")) throw new Error(`not one line: ${line.text}`);
    if (this.isReading) {
      line.isWritten = true;
      this.inputs++;
      if (!line.isKept) line.onEmptied?.();
    }
    this.#lines.push(line);
  }

  withdraw(line: Outgoing): void {
    this.#lines = this.#lines.filter((each) => each !== line);
  }

  readonly restartReasons: string[] = [];

  restart(_kind: "hung" | "tools-not-listed", reason: string): void {
    this.restartReasons.push(reason);
  }

  /** Returns the lines that were read, once. */
  takeRead(): string[] {
    const read = this.#lines.filter(({ isWritten }) => isWritten);
    this.#lines = this.#lines.filter((line) => !read.includes(line));
    return read.map(({ text }) => text);
  }

  /** The server exits. @returns the lines that it never read. */
  stop(): Outgoing[] {
    this.isRunning = false;
    const unwritten = this.#lines.filter(({ isWritten }) => !isWritten);
    this.#lines = [];
    return unwritten;
  }

  /** Grow with all output, and with each line that is read. */
  outputs = 0;
  inputs = 0;

  status(): UpstreamStatus {
    return {
      state: this.isFailed ? "failed" : this.isRunning ? "ready" : "backing-off",
      generation: 1,
      pid: undefined,
      readyAt: undefined,
      restarts: 0,
      lastExit: undefined,
      nextRetryAt: undefined,
      outputs: this.outputs,
      isReading: false,
      inputs: this.inputs,
    };
  }
}
