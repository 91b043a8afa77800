import type { Counters } from "../observability/counters.ts";
import { Defects } from "../observability/defects.ts";
import type { SidecarError } from "../errors.ts";
import type { RequestMessage } from "../protocol/message.ts";
import type { Outgoing } from "../protocol/outgoing.ts";
import type { Log } from "../observability/log.ts";
import type { MemoryAccount, MemoryHolder } from "../memory/memory-budget.ts";
import { type Call, type ClientCall, createCall, createLine, isClientLine, markSent, type Sender, setRequest } from "./calls/call.ts";
import { CallChecks } from "./calls/call-checks.ts";
import { CallTable } from "./calls/call-table.ts";
import type { CallLimits } from "./calls/call-limits.ts";
import { CallDeadlines } from "./calls/call-deadlines.ts";
import type { Exchange } from "../sessions/exchange.ts";
import { sessionOverloaded } from "./failures.ts";
import type { LaneLimits } from "./lane-limits.ts";
import type { LaneLoad } from "./lane-load.ts";
import { InternalCalls } from "./internal/internal-calls.ts";
import { OwnLines } from "./internal/own-lines.ts";
import type { Retries } from "./calls/retries.ts";
import type { Caller } from "../sessions/caller.ts";
import { roomError } from "./queue/room-error.ts";
import { ClientNotifications } from "./queue/client-notifications.ts";
import { RequestQueue } from "./queue/request-queue.ts";
import type { Upstream, UpstreamInput } from "../upstream/port.ts";
import { QueueTimeoutErrors } from "./queue/queue-timeout-errors.ts";

export interface DispatchOptions {
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
