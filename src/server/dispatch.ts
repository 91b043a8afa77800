import { shorten } from "../json/text.ts";
import type { SidecarError } from "../mcp/errors.ts";
import type { JsonObject, NotificationMessage, Outgoing, RequestMessage } from "../mcp/message.ts";
import type { MemoryAccount, MemoryHolder } from "../memory.ts";
import type { Counters } from "../observe/counters.ts";
import { Defects, limitedLog, type Log } from "../observe/log.ts";
import type { Upstream, UpstreamInput } from "../process/port.ts";
import type { Caller, Exchange } from "../session/session.ts";
import { DeadlineSweep } from "../timers.ts";
import { CallTable } from "./call-table.ts";
import {
  type Call,
  type ClientCall,
  type ClientLine,
  createCall,
  createLine,
  createNotification,
  holdMessage,
  isClientLine,
  isSent,
  type LaneLimits,
  type LaneLoad,
  markSent,
  type Sender,
  setRequest,
} from "./call.ts";
import { internalError, sessionOverloaded } from "./failures.ts";
import { InternalCalls, OwnLines } from "./internal-calls.ts";
import { QueueTimeoutErrors, RequestQueue, type Retries, roomError } from "./queue.ts";
import type { CallLimits, CallVerdict, QueueEntry } from "./slots.ts";

interface CallChecksOptions {
  /** Called for a call that may be sent. */
  readonly send: (call: Call) => void;
  /** Called for a call that gets its response from the sidecar. */
  readonly answer: (call: Call, verdict: CallVerdict) => void;
  readonly defects: Pick<Defects, "guard">;
}

/** Calls whose arguments are being checked. Each holds a slot, so there are at most MAX_IN_FLIGHT. They end like any other call. */
class CallChecks {
  readonly #options: CallChecksOptions;
  readonly #calls = new Set<Call>();
  #bytes = 0;

  constructor(options: CallChecksOptions) {
    this.#options = options;
  }

  /** The bytes of the calls that are being checked. */
  get queuedBytes(): number {
    return this.#bytes;
  }

  /** Sends a call after its check. A call that a server may have seen was checked before, and is sent at once. */
  admit(call: Call): void {
    if (call.check === undefined || isSent(call)) this.#options.send(call);
    else this.#check(call, call.check);
  }

  #check(call: Call, check: NonNullable<Call["check"]>): void {
    const { send, answer, defects } = this.#options;
    this.#calls.add(call);
    this.#bytes += call.byteLength ?? 0;
    let isOver = false;
    const onVerdict = (verdict: CallVerdict | undefined): void => {
      isOver = true;
      this.#forget(call);
      if (verdict === undefined) send(call);
      else answer(call, verdict);
    };
    const fail = (): void => call.exchange.fail(internalError(false));
    const stop = check((verdict) => defects.guard("argument check", () => onVerdict(verdict), fail));
    if (isOver) return;
    call.stopCheck = () => {
      this.#forget(call);
      stop();
    };
  }

  #forget(call: Call): void {
    call.stopCheck = undefined;
    if (this.#calls.delete(call)) this.#bytes -= call.byteLength ?? 0;
  }

  /** Stops all checks and returns their calls. Called when the server is lost: the next generation may have other tools. */
  takeAll(): Call[] {
    const calls = [...this.#calls];
    for (const call of calls) call.stopCheck?.();
    return calls;
  }
}

interface CallDeadlinesOptions {
  readonly calls: CallTable;
  readonly queue: RequestQueue;
  /** Called on each sweep of the deadlines. @returns the next deadline, or Infinity. */
  readonly onDue: (nowMs: number) => number;
  /** The delay after which a response begins as a stream. */
  readonly streamAfterMs: number;
  readonly defects: Pick<Defects, "guard">;
  readonly nowMs: () => number;
}

/** The deadlines of a lane: those of its calls and of its queue, and the times at which slow responses begin. */
class CallDeadlines {
  readonly #calls: CallTable;
  readonly #streamAfterMs: number;
  readonly #ends: DeadlineSweep;
  readonly #slow: DeadlineSweep;

  constructor({ calls, queue, onDue, streamAfterMs, defects, nowMs }: CallDeadlinesOptions) {
    this.#calls = calls;
    this.#streamAfterMs = streamAfterMs;
    this.#ends = new DeadlineSweep(nowMs, defects, (atMs) => Math.min(onDue(atMs), calls.expire(atMs), queue.expire(atMs)));
    this.#slow = new DeadlineSweep(nowMs, defects, (atMs) => this.#beginSlow(atMs));
  }

  /** Schedules a sweep. */
  watch(deadlineMs: number): void {
    this.#ends.watch(deadlineMs);
  }

  watchCall({ deadlineMs, exchange }: Call): void {
    this.#ends.watch(deadlineMs);
    this.#slow.watch(exchange.acceptedAtMs + this.#streamAfterMs);
  }

  close(): void {
    this.#ends.close();
    this.#slow.close();
  }

  /** Begins the responses of calls that take long. @returns the time of the next one, or Infinity. */
  #beginSlow(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { exchange, state, pause } of this.#calls.values()) {
      if (pause === "parked") continue;
      // A queued call may still fail with status 503, which is impossible once its response has begun.
      const dueAtMs = (state === "written" ? exchange.acceptedAtMs : nowMs) + this.#streamAfterMs;
      if (dueAtMs > nowMs) nextMs = Math.min(nextMs, dueAtMs);
      else exchange.keepAlive();
    }
    return nextMs;
  }
}

interface ClientNotificationsOptions {
  readonly queue: RequestQueue;
  /** Sends a line to the current generation. */
  readonly send: (line: Outgoing, caller: Caller) => void;
  readonly holdTimeoutMs: number;
  readonly counters: Counters;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** The notifications of clients on their way to the server. */
class ClientNotifications {
  readonly #options: ClientNotificationsOptions;
  readonly #log: Log;

  constructor(options: ClientNotificationsOptions) {
    this.#options = options;
    this.#log = limitedLog(options.log, options.nowMs);
  }

  /** Sends or queues a notification, after the queued requests of its caller. @returns the error if it is rejected. */
  carry(caller: Caller, text: string, method: string, describe: () => SidecarError): SidecarError | undefined {
    const { queue, send, holdTimeoutMs, counters, nowMs } = this.#options;
    const line: ClientLine = createNotification({
      caller,
      text,
      expiresAtMs: nowMs() + holdTimeoutMs,
      release: () => send(line, caller),
      refuse: () => {
        counters.dropped.clientNotifications++;
        this.#log.warn({ method: shorten(method) }, "client notification dropped: the mcp server was not ready in time");
      },
    });
    if (queue.isReady && !queue.hasEntriesOf(caller)) line.release();
    else if (!queue.add(line)) {
      line.onEmptied?.();
      return describe();
    }
    return undefined;
  }
}

interface DispatchOptions {
  readonly upstream: Upstream;
  readonly limits: LaneLimits;
  readonly retries: Retries;
  readonly counters: Counters;
  readonly log: Log;
  readonly nowMs: () => number;
  /** Called on each sweep of the deadlines. @returns the next deadline, or Infinity. */
  readonly onDue: (nowMs: number) => number;
}

/** The path to the server. Each request is sent at once, queued until the server is ready and has a free slot, or rejected. */
export class Dispatch {
  readonly calls: CallTable;
  readonly queue: RequestQueue;
  readonly errors: QueueTimeoutErrors;
  readonly #options: DispatchOptions;
  readonly #checks: CallChecks;
  readonly #notifications: ClientNotifications;
  readonly #defects: Defects;
  readonly #deadlines: CallDeadlines;
  /** The requests of the sidecar itself. */
  readonly internal: InternalCalls;
  readonly #ownLines = new OwnLines();
  /** The stdin of the current generation; undefined if there is none. */
  #input: UpstreamInput | undefined;
  #sentCount = 0;
  /** The client whose messages this generation has got; undefined if it has got none. */
  #principal: MemoryHolder | undefined;
  #hasOnePrincipal = true;

  constructor(options: DispatchOptions) {
    const { upstream, limits, retries, counters, log, nowMs, onDue } = options;
    this.#options = options;
    this.queue = new RequestQueue({
      maxHeld: limits.maxHeldRequests,
      maxInFlight: limits.maxInFlight,
      countCalls: () => this.calls.open.size,
      isFailed: () => upstream.status().state === "failed",
      watch: (deadlineMs) => this.#deadlines.watch(deadlineMs),
    });
    this.errors = new QueueTimeoutErrors({ upstream, queue: this.queue, retries, maxInFlight: limits.maxInFlight });
    const { holdTimeoutMs, streamAfterMs } = limits;
    const send = (line: Outgoing, { memory }: Caller): void => {
      this.noteClient(memory.holder);
      this.calls.onNotification();
      this.#input?.send(line);
    };
    this.#notifications = new ClientNotifications({ queue: this.queue, send, holdTimeoutMs, counters, log, nowMs });
    this.calls = new CallTable({ input: () => this.#input, queue: this.queue, retries, counters, log, nowMs });
    // Internal requests have a common owner and take no slot, so they do not delay clients.
    const sidecar: Sender = { origin: "sidecar", owner: this, takesSlot: false };
    this.internal = new InternalCalls({
      carry: (...request) => this.#carry(sidecar, ...request),
      giveUp: (call, reason) => this.calls.giveUp(call, reason, "unread"),
      log,
      nowMs,
    });
    const defects = (this.#defects = new Defects(log, counters));
    this.#checks = new CallChecks({ send: (call) => this.#send(call), answer: (...verdict) => this.calls.answer(...verdict), defects });
    this.#deadlines = new CallDeadlines({ calls: this.calls, queue: this.queue, onDue, streamAfterMs, defects, nowMs });
  }

  /** True if all that clients have sent to this generation is of one principal: a token, or without tokens a network address. */
  get hasOnePrincipal(): boolean {
    return this.#hasOnePrincipal;
  }

  /**
   * True if nobody but the sender of this call can have chosen what the server prints: its client is the only principal, or the sidecar has sent
   * it, and this generation has got nothing of a client.
   */
  isOnlySender({ origin }: Call): boolean {
    return origin === "client" ? this.#hasOnePrincipal : this.#principal === undefined;
  }

  /** Must be called when this generation gets something of a client. */
  noteClient(holder: MemoryHolder): void {
    if (holder === this.#principal) return;
    this.#hasOnePrincipal = this.#principal === undefined;
    this.#principal = holder;
  }

  /** The number of calls that were passed to a stdin: the `sentNumber` of the last one. */
  get sentCount(): number {
    return this.#sentCount;
  }

  get load(): LaneLoad & { readonly suspended: number } {
    const { size, suspended } = this.calls.open;
    return { requestsInFlight: size, suspended, waiting: this.queue.size, queuedBytes: this.#queuedBytes };
  }

  /** @returns the error if a request of this caller with this text cannot be accepted now. */
  refusal(caller: Caller, text: string): SidecarError | undefined {
    const { maxSessionRequests } = this.#options.limits;
    return caller.callsInFlight < maxSessionRequests ? this.roomError(text) : sessionOverloaded(maxSessionRequests);
  }

  /** Rejects a request with this error. */
  refuse(exchange: Exchange, error: SidecarError): void {
    this.#options.counters.countRefusal(error.code);
    exchange.fail(error);
  }

  /** @returns the error if there is no room for a line that may be held. */
  roomError(text: string): SidecarError | undefined {
    return roomError(text, this.#queuedBytes, this.#options.limits.maxQueuedBytes);
  }

  /** @returns the error if there is no room for a line that is never held. Held calls do not count: the server may need this line to end one. */
  inputRoomError(text: string): SidecarError | undefined {
    return roomError(text, this.#input?.queuedBytes ?? 0, this.#options.limits.maxQueuedBytes);
  }

  /** Sends a client's request or queues it. Rejects it if neither is possible. */
  carry(caller: Caller, exchange: Exchange, request: RequestMessage, onSettled: Call["onSettled"], limits?: CallLimits): void {
    this.#carry({ origin: "client", caller, owner: caller, takesSlot: true }, exchange, request, onSettled, limits);
  }

  /** @returns the call; undefined if it was rejected. */
  #carry(sender: Sender, exchange: Exchange, request: RequestMessage, onSettled: Call["onSettled"], limits?: CallLimits): Call | undefined {
    const timeoutMs = limits?.timeoutMs ?? this.#options.limits.requestTimeoutMs;
    const call: Call = createCall({
      sender,
      exchange,
      request,
      wireId: this.calls.mintId(),
      timeoutMs,
      maxWaitMs: this.#maxWaitMs(timeoutMs),
      mayRetry: this.#options.retries.mayRetry(request.method),
      limits,
      onSettled,
      release: () => this.#sendHeld(call),
      refuse: () =>
        this.calls.giveUp(call, this.queue.isReady ? "not sent in time" : "not ready in time", this.errors.notSent(call.semaphore, call)),
    });
    const mustWait = this.#mustWait(call);
    if (mustWait) {
      if (!this.queue.add(call)) {
        const error = this.errors.notSent(call.semaphore);
        if (call.origin === "client") this.refuse(exchange, error);
        else exchange.fail(error);
        onSettled?.(false);
        return undefined;
      }
      if (call.takesSlot) this.#options.counters.requests.held++;
    }
    this.calls.add(call);
    exchange.onDisconnect(() => this.#defects.guard("client disconnect", () => this.calls.giveUp(call, "client disconnected", "unread")));
    this.#deadlines.watchCall(call);
    if (!mustWait) this.#admit(call);
    return call;
  }

  /** Sends a suspended call as this request, or queues it. */
  repeat(call: ClientCall, request: RequestMessage): void {
    const mustWait = this.#mustWait(call);
    call.expiresAtMs = this.#options.nowMs() + this.#maxWaitMs(call.timeoutMs);
    this.calls.continue(call);
    setRequest(call, request);
    this.#deadlines.watchCall(call);
    if (!mustWait) this.#admit(call);
    else if (!this.queue.add(call)) call.refuse();
  }

  #mustWait(call: Call): boolean {
    return !this.queue.isReady || (call.takesSlot && !this.queue.hasSlot) || call.semaphore?.isFree === false;
  }

  /** A ready server gets at least half of the time to respond. If queueing could take it all, an unresponsive server would not be detected. */
  #maxWaitMs(timeoutMs: number): number {
    const { holdTimeoutMs } = this.#options.limits;
    return this.queue.isReady ? Math.min(holdTimeoutMs, timeoutMs / 2) : holdTimeoutMs;
  }

  #admit(call: Call): void {
    call.semaphore?.acquire(call);
    this.#checks.admit(call);
  }

  /** Sends or queues a client's notification, after the queued requests of its caller. @returns the error if it is rejected. */
  carryNotification(caller: Caller, text: string, method: string): SidecarError | undefined {
    return this.roomError(text) ?? this.#notifications.carry(caller, text, method, () => this.errors.notSent());
  }

  /**
   * Sends a line of the sidecar to this generation only. The lines in the stdin are limited, since a server may never read them.
   *
   * @param cause the memory of the client that has caused the line; undefined for the server. @returns false if there is no room.
   */
  sendInternal(text: string, cause?: MemoryAccount): boolean {
    if (this.inputRoomError(text) !== undefined) return false;
    this.calls.onNotification();
    if (cause === undefined) return this.#ownLines.send(this.#input, text);
    this.#input?.send(createLine(cause, text));
    return true;
  }

  /** Schedules a call of `onDue`. */
  watch(deadlineMs: number): void {
    this.#deadlines.watch(deadlineMs);
  }

  /** Continues a parked call with the next request of its client. */
  resume(call: ClientCall): void {
    this.calls.resume(call);
    this.#deadlines.watchCall(call);
  }

  onStarted(input: UpstreamInput): void {
    this.#input = input;
  }

  /** Queues the lost generation's lines for the next one: first the calls to send again, then the lines that were never sent. */
  onLost(unwritten: readonly Outgoing[]): void {
    this.#input = undefined;
    this.#principal = undefined;
    this.#hasOnePrincipal = true;
    for (const line of unwritten) if (!isClientLine(line)) line.onEmptied?.();
    const carried = [...this.calls.takeRetries(), ...unwritten.filter(isClientLine), ...this.#checks.takeAll()];
    const expiresAtMs = this.#options.nowMs() + this.#options.limits.holdTimeoutMs;
    for (const line of carried) line.expiresAtMs = expiresAtMs;
    this.queue.close(carried);
    if (this.#options.upstream.status().state === "failed") this.queue.refuseAll();
  }

  /** Rejects all queued entries and stops all timers. */
  close(): void {
    this.queue.end();
    this.#deadlines.close();
  }

  #sendHeld(call: Call): void {
    if (call.retry === "due") {
      call.retry = "done";
      this.#options.counters.requests.repeated++;
    }
    this.#checks.admit(call);
  }

  /** Sends a call. Times it out instead if reading its body or queueing took too long. */
  #send(call: Call): void {
    const nowMs = this.#options.nowMs();
    if (nowMs >= call.deadlineMs) return this.calls.timeOut(call);
    if (call.origin === "client") this.noteClient(call.caller.memory.holder);
    markSent(call, nowMs, ++this.#sentCount);
    this.#input?.send(call);
  }

  get #queuedBytes(): number {
    return (this.#input?.queuedBytes ?? 0) + this.queue.queuedBytes + this.#checks.queuedBytes;
  }
}

export interface HeldRequest<Owner extends Pick<Caller, "memory"> = Caller> {
  /** The client. It takes turns with others. */
  readonly owner: Owner;
  readonly exchange: Pick<Exchange, "acceptedAtMs" | "onDisconnect">;
  readonly request: Pick<RequestMessage, "method" | "text">;
  readonly onReady: () => void;
  /** Called with the error instead if the request waits for too long, or the queue is full. */
  readonly onFailed: (error: SidecarError) => void;
}

/** Holds a request in the queue until the server is ready. It is then up to `onReady` to send it. */
export function holdUntilReady(dispatch: Dispatch, holdTimeoutMs: number, held: HeldRequest<Pick<Caller, "memory">>): void {
  const { owner, exchange, request, onReady, onFailed } = held;
  const error = dispatch.roomError(request.text);
  if (error !== undefined) return onFailed(error);
  const memory = holdMessage(owner.memory, request.text);
  const fail = (failure: SidecarError): void => {
    memory.release();
    dispatch.queue.remove(entry);
    onFailed(failure);
  };
  const entry: QueueEntry = {
    owner,
    takesSlot: true,
    held: { holder: owner.memory.holder, memory, fail },
    byteLength: Buffer.byteLength(request.text),
    expiresAtMs: exchange.acceptedAtMs + holdTimeoutMs,
    release: () => {
      memory.release();
      onReady();
    },
    refuse: () => fail(dispatch.errors.notSent()),
  };
  if (!dispatch.queue.add(entry)) return entry.refuse();
  exchange.onDisconnect(() => {
    memory.release();
    dispatch.queue.remove(entry);
  });
}

/** The tool policy of one lane. The lane applies it to the messages of clients. A lane without rules has none. */
export interface LanePolicy {
  /** True if client requests must wait until the server's tools are known. */
  readonly needsTools: boolean;
  /**
   * Wraps the exchange of a client's request, to change its response.
   *
   * @param listAgain lists the server's tools again, because they have changed.
   * @returns the exchange itself if its response stays as it is.
   */
  wrap(exchange: Exchange, method: string, listAgain: () => void): Exchange;
  /**
   * Decides on a client's message before the lane accepts it.
   *
   * @param caller the calls of one caller share a rate.
   * @returns the error if the message is rejected; otherwise the limits of a call, if it has any.
   */
  admit(caller: Caller, message: RequestMessage | NotificationMessage): SidecarError | CallLimits | undefined;
  /** Called with the current generation's tools in its order: before any client request, and again after each change. */
  onTools(tools: readonly JsonObject[], generation: number): void;
  /** Called when the server is lost, and its tools are no longer valid. */
  onLost(): void;
  /**
   * Reviews a call that was accepted before the tools were known.
   *
   * @param isSent true if a former generation may have seen the call.
   * @returns the response if the call must not be sent.
   */
  review(call: Call, isSent: boolean): CallVerdict | undefined;
}
