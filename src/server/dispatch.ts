import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import type { SidecarError } from "../mcp/errors.ts";
import { type JsonObject, type NotificationMessage, type Outgoing, outgoing, type RequestMessage, Slot } from "../mcp/message.ts";
import { progressTokenText, requestToServer } from "../mcp/rewrite.ts";
import type { MemoryAccount, MemoryHolder } from "../memory.ts";
import { limitedLog, type Log } from "../observe/log.ts";
import type { Upstream, UpstreamHandshake } from "../process/port.ts";
import type { Reply, Transform } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import type { Timer, Timers } from "../timers.ts";
import { CallTable } from "./call-table.ts";
import {
  type Call,
  type ClientCall,
  type ClientLine,
  createLine,
  effectOf,
  holdCallMemory,
  holdMessage,
  isClientLine,
  isSent,
  type LaneLoad,
  MAX_RENEWED_TIMES,
} from "./call.ts";
import { internalError, overloaded, toolsNotListed, upstreamFailed, upstreamNotReady } from "./failures.ts";
import {
  internalReply,
  type InternalRequest,
  internalRequest,
  InternalTarget,
  type OnInternalResult,
  type OpenCall,
} from "./internal-calls.ts";
import { RequestQueue } from "./queue.ts";
import type { CallCheck, CallLimits, CallVerdict, QueueEntry } from "./slots.ts";

/** The limit for requests that are kept in memory to be sent again: a caller may have a thousand requests in flight. */
const MAX_KEPT_BYTES = 64 * 1024;
/** Limits the sidecar's own requests in flight, so that clients' requests keep moving: one client may cancel a thousand subscriptions at once. */
const MAX_IN_TURN = 16;
/** The limit for lines in the stdin that the server has caused, such as responses to its pings. They count for no client's memory. */
const MAX_OWN_BYTES = 256 * 1024;

/** A request that waits until the server is ready, without being a call yet. */
export interface HeldRequest {
  /** The client. It takes turns with others. */
  readonly owner: { readonly memory: MemoryAccount };
  readonly reply: Pick<Reply, "acceptedAtMs" | "onDisconnect">;
  readonly request: Pick<RequestMessage, "method" | "text">;
}

/** The path to the server. Each request is sent at once, queued until the server is ready and has a free slot, or rejected. */
export class Dispatch {
  readonly upstream: Upstream;
  readonly queue: RequestQueue;
  readonly calls: CallTable;
  /** The handshake of the current generation; undefined until it has finished. */
  handshake: UpstreamHandshake | undefined;
  /** The handshake of the current or the last generation; undefined before the first. */
  lastHandshake: UpstreamHandshake | undefined;
  /** The number of calls that were passed to a stdin: the `sentNumber` of the last one. */
  sentCount = 0;
  /** True if all that clients have sent to this generation is of one principal: a token, or without tokens a network address. */
  hasOnePrincipal = true;
  readonly #context: Context;
  /** Of lines that clients can cause at any rate. */
  readonly #log: Log;
  readonly #deadlines: Timer;
  /** The times at which slow responses begin. */
  readonly #slow: Timer;
  /** The calls whose arguments are being checked. Each holds a slot, so there are at most MAX_IN_FLIGHT. They end like any other call. */
  readonly #checking = new Set<Call>();
  #checkingBytes = 0;
  /** The requests of `askInTurn` that were not sent. */
  #waiting: InternalRequest[] = [];
  #waitingInFlight = 0;
  /** The bytes of the lines that the server has caused and has not read. */
  #ownBytes = 0;
  /** The client whose messages this generation has got; undefined if it has got none. */
  #principal: MemoryHolder | undefined;

  /** @param onDue called before each sweep of the deadlines. */
  constructor(context: Context, upstream: Upstream, onDue: (nowMs: number) => void) {
    this.#context = context;
    this.upstream = upstream;
    const { log, nowMs, timers } = context;
    this.#log = limitedLog(log, nowMs);
    this.#deadlines = sweepWith(timers, (atMs) => {
      onDue(atMs);
      return Math.min(this.calls.expire(atMs), this.queue.expire(atMs));
    });
    this.queue = new RequestQueue(context, upstream, this.#deadlines);
    this.calls = new CallTable(context, this.queue);
    this.#slow = sweepWith(timers, (atMs) => this.#beginSlow(atMs));
  }

  /**
   * True if nobody but the sender of this call can have chosen what the server prints: its client is the only principal, or the sidecar has sent
   * it, and this generation has got nothing of a client.
   */
  isOnlySender({ kind }: Call): boolean {
    return kind === "client" ? this.hasOnePrincipal : this.#principal === undefined;
  }

  /** Must be called when this generation gets something of a client. */
  noteClient(holder: MemoryHolder): void {
    if (holder === this.#principal) return;
    this.hasOnePrincipal = this.#principal === undefined;
    this.#principal = holder;
  }

  get load(): LaneLoad & { readonly suspended: number } {
    const { openCount, entries } = this.queue;
    return { requestsInFlight: openCount, suspended: this.calls.suspendedCount, waiting: entries.size, queuedBytes: this.#queuedBytes };
  }

  /** @returns the error if there is no room for a line that may be held. A single queued line may exceed the limit by itself. */
  roomError(text: string, queuedBytes = this.#queuedBytes): SidecarError | undefined {
    const roomBytes = this.#context.config.maxQueuedBytes - queuedBytes;
    // A UTF-16 unit has at most three bytes. The exact size is computed only if this estimate is too large.
    const hasRoom = queuedBytes === 0 || text.length * 3 <= roomBytes || Buffer.byteLength(text) <= roomBytes;
    return hasRoom ? undefined : overloaded("its input queue is full");
  }

  /** @returns the error if there is no room for a line that is never held. Held calls do not count: the server may need this line to end one. */
  inputRoomError(text: string): SidecarError | undefined {
    return this.roomError(text, this.calls.input?.queuedBytes ?? 0);
  }

  /** Returns the error for a server that is not ready. @param call undefined for a request that was never queued. */
  notReady(call?: Call): SidecarError {
    const status = this.upstream.status();
    const describe = status.state === "failed" ? upstreamFailed : upstreamNotReady;
    return describe(status, Date.now(), call && isSent(call), call && this.calls.effectOf(call));
  }

  /** Returns the error for the current obstacle. @param call undefined for a request that was never queued. */
  notSent(call?: Call): SidecarError {
    if (!this.queue.isReady) return this.notReady(call);
    const { blocks, entries } = this.queue;
    const semaphore = call?.semaphore;
    const outcome = [call && isSent(call), call && this.calls.effectOf(call)] as const;
    if (blocks.has("tools")) return toolsNotListed(...outcome);
    if (blocks.has("question"))
      return overloaded("its processes wait for answers of clients (CLAW_MCP_STDIO_MAX_PRIVATE_SERVERS)", ...outcome);
    if (semaphore !== undefined && semaphore.freeCount <= 0) return overloaded(semaphore.describe(), ...outcome);
    return overloaded(`${this.#context.config.maxInFlight} in flight, ${entries.size} queued`, ...outcome);
  }

  /**
   * Sends a request or queues it. Rejects it if neither is possible.
   *
   * @param caller undefined for a request of the sidecar itself.
   * @returns the call; undefined if it was rejected.
   */
  carry(
    caller: Caller | undefined,
    reply: Reply,
    request: RequestMessage,
    onSettled?: Call["onSettled"],
    limits?: CallLimits,
  ): Call | undefined {
    const { counters, defects } = this.#context;
    const call = this.#create(caller, reply, request, onSettled, limits);
    const mustWait = this.#mustWait(call);
    if (mustWait) {
      if (!this.queue.add(call)) {
        const error = this.notSent(call);
        if (caller === undefined) reply.fail(error);
        else reply.refuse(error);
        onSettled?.(false);
        return undefined;
      }
      if (call.takesSlot) counters.requests.held++;
    }
    this.calls.accept(call);
    reply.onDisconnect = () => defects.guard("client disconnect", () => this.calls.giveUp(call, "client disconnected", "unread"));
    this.#watchCall(call);
    if (!mustWait) this.#admit(call);
    return call;
  }

  /** Sends a suspended call as this request, or queues it. */
  repeat(call: ClientCall, request: RequestMessage): void {
    const mustWait = this.#mustWait(call);
    call.expiresAtMs = this.#context.nowMs() + this.#maxWaitMs(call.timeoutMs);
    this.calls.continue(call);
    call.text = requestToServer(request, call.wireId);
    call.byteLength = Buffer.byteLength(call.text);
    call.memory?.release();
    holdCallMemory(call);
    this.#watchCall(call);
    if (!mustWait) this.#admit(call);
    else if (!this.queue.add(call)) call.refuse();
  }

  /** Continues a parked call with the next request of its client. */
  resume(call: ClientCall): void {
    this.calls.resume(call);
    this.#watchCall(call);
  }

  /**
   * Holds a request in the queue until the server is ready.
   *
   * @param onReady called then, to send the request.
   * @param onFailed called instead if the request waits for too long, or the queue is full.
   */
  hold({ owner, reply, request }: HeldRequest, onReady: () => void, onFailed: (error: SidecarError) => void): void {
    const error = this.roomError(request.text);
    if (error !== undefined) return onFailed(error);
    const memory = holdMessage(owner.memory, request.text);
    const fail = (failure: SidecarError): void => {
      memory.release();
      this.queue.remove(entry);
      onFailed(failure);
    };
    const entry: QueueEntry = {
      owner,
      takesSlot: true,
      held: { holder: owner.memory.holder, memory, fail },
      byteLength: Buffer.byteLength(request.text),
      expiresAtMs: reply.acceptedAtMs + this.#context.config.holdTimeoutMs,
      release: () => {
        memory.release();
        onReady();
      },
      refuse: () => fail(this.notSent()),
    };
    if (!this.queue.add(entry)) return entry.refuse();
    reply.onDisconnect = () => {
      memory.release();
      this.queue.remove(entry);
    };
  }

  /** Sends or queues a client's notification, after the queued requests of its caller. @returns the error if it is rejected. */
  carryNotification(caller: Caller, text: string, method: string): SidecarError | undefined {
    const error = this.roomError(text);
    if (error !== undefined) return error;
    const { config, counters, nowMs } = this.#context;
    const byteLength = Buffer.byteLength(text);
    const memory = holdMessage(caller.memory, text, byteLength);
    // It takes no slot, and is never sent again.
    const line: ClientLine = {
      kind: "notification",
      owner: caller,
      takesSlot: false,
      isKept: false,
      isWritten: false,
      text,
      byteLength,
      expiresAtMs: nowMs() + config.holdTimeoutMs,
      onEmptied: () => memory.release(),
      release: () => {
        this.noteClient(caller.memory.holder);
        this.calls.onNotification();
        this.calls.input?.send(line);
      },
      refuse: () => {
        memory.release();
        counters.dropped.clientNotifications++;
        this.#log.warn({ method: shorten(method) }, "client notification dropped: the mcp server was not ready in time");
      },
    };
    if (this.queue.isReady && !this.queue.hasEntriesOf(caller)) line.release();
    else if (!this.queue.add(line)) {
      memory.release();
      return this.notSent();
    }
    return undefined;
  }

  /** Sends or queues a request of the sidecar itself. @returns the call; undefined if it was rejected. */
  ask(method: string, params: object, onSettled: Call["onSettled"], onResult?: OnInternalResult, limits?: CallLimits): Call | undefined {
    const onFailed = (reason: string): void => this.#context.log.warn({ method, reason }, "internal request failed");
    const reply = internalReply(this.#context, new InternalTarget(onResult, onFailed));
    return this.carry(undefined, reply, internalRequest(method, params, this.lastHandshake?.requestMeta), onSettled, limits);
  }

  /** Sends a request that only shows if the server responds. */
  ping(onSettled?: () => void, limits?: CallLimits): Call | undefined {
    return this.ask(this.lastHandshake?.pingMethod ?? "ping", {}, onSettled, undefined, limits);
  }

  /** Sends a request that stays open for any time, such as a subscription. The next generation does not get it. */
  open(reply: Reply, request: RequestMessage): OpenCall {
    let isOpen = true;
    const call = this.carry(undefined, reply, request, () => (isOpen = false), { timeoutMs: Number.POSITIVE_INFINITY });
    return {
      wireId: call?.wireId ?? Number.NaN,
      cancel: (reason) => {
        if (call !== undefined && isOpen) this.calls.giveUp(call, reason, "unread");
      },
    };
  }

  /** Sends requests of the sidecar itself in order, a few at a time. */
  askInTurn(request: InternalRequest): void {
    this.#waiting.push(request);
    this.#askNext();
  }

  /**
   * Sends a line of the sidecar to this generation only. The lines in the stdin are limited, since a server may never read them.
   *
   * @param cause the memory of the client that has caused the line; undefined for the server. @returns false if there is no room.
   */
  sendInternal(text: string, cause?: MemoryAccount): boolean {
    if (this.inputRoomError(text) !== undefined) return false;
    this.calls.onNotification();
    if (cause !== undefined) {
      this.calls.input?.send(createLine(cause, text));
      return true;
    }
    if (this.calls.input === undefined) return true;
    const byteLength = Buffer.byteLength(text);
    if (this.#ownBytes + byteLength > MAX_OWN_BYTES) return false;
    this.#ownBytes += byteLength;
    this.calls.input.send({ ...outgoing(text), byteLength, onEmptied: () => (this.#ownBytes -= byteLength) });
    return true;
  }

  /** Queues the lost generation's lines for the next one: first the calls to send again, then the lines that were never sent. */
  onLost(unwritten: readonly Outgoing[]): void {
    const { config, nowMs } = this.#context;
    this.calls.input = undefined;
    this.handshake = undefined;
    // The next generation gets the state of that time.
    for (const { memory } of this.#waiting) memory?.release();
    this.#waiting = [];
    this.#principal = undefined;
    this.hasOnePrincipal = true;
    for (const line of unwritten) if (!isClientLine(line)) line.onEmptied?.();
    // The next generation may have other tools, so calls are checked again.
    const checked = [...this.#checking];
    for (const call of checked) call.stopCheck?.();
    const carried = [...this.calls.takeRetries(), ...unwritten.filter(isClientLine), ...checked];
    const expiresAtMs = nowMs() + config.holdTimeoutMs;
    for (const line of carried) line.expiresAtMs = expiresAtMs;
    this.queue.close(carried);
    if (this.upstream.status().state === "failed") this.queue.refuseAll();
  }

  /** Rejects all queued entries and stops all timers. */
  close(): void {
    this.queue.end();
    this.#deadlines.clear();
    this.#slow.clear();
  }

  /** Returns a call that was not sent yet, with its text for the server. */
  #create(
    caller: Caller | undefined,
    reply: Reply,
    request: RequestMessage,
    onSettled: Call["onSettled"],
    limits: CallLimits | undefined,
  ): Call {
    const { retry, requestTimeoutMs } = this.#context.config;
    const { method } = request;
    const { acceptedAtMs } = reply;
    const wireId = this.calls.mintId();
    const text = requestToServer(request, wireId);
    const byteLength = Buffer.byteLength(text);
    const timeoutMs = limits?.timeoutMs ?? requestTimeoutMs;
    const isTool = method === "tools/call";
    const mayRetry = retry !== "off" && (isTool ? retry === "read-only" : effectOf(method) === "safe");
    // A literal with all members takes half of the memory of one that gets them one by one.
    const call: Call = {
      kind: caller === undefined ? "sidecar" : "client",
      caller,
      // Internal requests have a common owner and take no slot, so they do not delay clients.
      owner: caller ?? this,
      takesSlot: caller !== undefined,
      wireId,
      method,
      toolName: isTool ? request.outline.stringAt(Slot.toolName) : undefined,
      semaphore: limits?.semaphore,
      reply,
      text,
      byteLength,
      isKept: caller !== undefined && byteLength <= MAX_KEPT_BYTES && mayRetry,
      isWritten: false,
      sentAtMs: undefined,
      sentNumber: 0,
      progressTokenText: progressTokenText(request),
      timeoutMs,
      timeoutSetting: limits?.timeoutMs === undefined ? "REQUEST_TIMEOUT_MS" : limits.timeoutSetting,
      deadlineMs: acceptedAtMs + timeoutMs,
      lastDeadlineMs: acceptedAtMs + timeoutMs * MAX_RENEWED_TIMES,
      expiresAtMs: acceptedAtMs + this.#maxWaitMs(timeoutMs),
      mustNotRestart: false,
      pause: undefined,
      retry: "none",
      check: limits?.check,
      stopCheck: undefined,
      memory: undefined,
      onEmptied: undefined,
      onSettled,
      release: () => this.#admit(call),
      refuse: () => this.calls.giveUp(call, this.queue.isReady ? "not sent in time" : "not ready in time", this.notSent(call)),
    } as Call;
    return call;
  }

  #askNext(): void {
    while (this.#waitingInFlight < MAX_IN_TURN) {
      const request = this.#waiting.shift();
      if (request === undefined) return;
      const { method, params, isCurrent, onSettled, memory } = request;
      if (isCurrent?.() === false) {
        memory?.release();
        continue;
      }
      this.#waitingInFlight++;
      this.ask(method, params, (hasResult) => {
        this.#waitingInFlight--;
        memory?.release();
        onSettled?.(hasResult);
        this.#askNext();
      });
    }
  }

  #mustWait(call: Call): boolean {
    return !this.queue.isReady || (call.takesSlot && !this.queue.hasSlot) || call.semaphore?.isFree === false;
  }

  /** A ready server gets at least half of the time to respond. If queueing could take it all, an unresponsive server would not be detected. */
  #maxWaitMs(timeoutMs: number): number {
    const { holdTimeoutMs } = this.#context.config;
    return this.queue.isReady ? Math.min(holdTimeoutMs, timeoutMs / 2) : holdTimeoutMs;
  }

  #watchCall({ deadlineMs, reply }: Call): void {
    setEarlier(this.#deadlines, deadlineMs);
    setEarlier(this.#slow, reply.acceptedAtMs + this.#context.config.streamAfterMs);
  }

  /** Sends a call after its check. A call that a server may have seen was checked before. */
  #admit(call: Call): void {
    if (call.retry === "due") {
      call.retry = "done";
      this.#context.counters.requests.repeated++;
    }
    call.semaphore?.acquire(call);
    if (call.check === undefined || isSent(call)) this.#send(call);
    else this.#check(call, call.check);
  }

  #check(call: Call, check: CallCheck): void {
    const { defects } = this.#context;
    this.#checking.add(call);
    this.#checkingBytes += call.byteLength;
    let isOver = false;
    const forget = (): void => {
      call.stopCheck = undefined;
      if (this.#checking.delete(call)) this.#checkingBytes -= call.byteLength;
    };
    const onVerdict = (verdict: CallVerdict | undefined): void => {
      isOver = true;
      forget();
      if (verdict === undefined) this.#send(call);
      else this.calls.answer(call, verdict);
    };
    const fail = (): void => call.reply.fail(internalError(false));
    const stop = check((verdict) => defects.guard("argument check", () => onVerdict(verdict), fail));
    if (isOver) return;
    call.stopCheck = () => {
      forget();
      stop();
    };
  }

  /** Sends a call. Times it out instead if reading its body or queueing took too long. */
  #send(call: Call): void {
    const nowMs = this.#context.nowMs();
    if (nowMs >= call.deadlineMs) return this.calls.timeOut(call);
    if (call.kind === "client") this.noteClient(call.caller.memory.holder);
    call.sentAtMs = nowMs;
    call.sentNumber = ++this.sentCount;
    call.reply.observed?.onSent(nowMs);
    this.calls.input?.send(call);
  }

  /** Begins the responses of calls that take long. @returns the time of the next one, or Infinity. */
  #beginSlow(nowMs: number): number {
    const { streamAfterMs } = this.#context.config;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { reply, isWritten, pause } of this.calls.values()) {
      if (pause === "parked") continue;
      // A queued call may still fail with status 503, which is impossible once its response has begun.
      const dueAtMs = (isWritten ? reply.acceptedAtMs : nowMs) + streamAfterMs;
      if (dueAtMs > nowMs) nextMs = Math.min(nextMs, dueAtMs);
      else reply.keepAlive();
    }
    return nextMs;
  }

  get #queuedBytes(): number {
    return (this.calls.input?.queuedBytes ?? 0) + this.queue.queuedBytes + this.#checkingBytes;
  }
}

/** The delay before a sweep that threw is repeated. */
const AFTER_DEFECT_MS = 100;

/** Returns a timer for any number of deadlines. @param sweep handles all that are due, and returns the next one, or Infinity. */
function sweepWith(timers: Timers, sweep: (nowMs: number) => number): Timer {
  const timer = timers.add((nowMs) => {
    let nextMs = nowMs + AFTER_DEFECT_MS;
    try {
      nextMs = sweep(nowMs);
    } finally {
      setEarlier(timer, nextMs);
    }
  });
  return timer;
}

function setEarlier(timer: Timer, atMs: number): void {
  if (atMs < timer.atMs) timer.set(atMs);
}

/** The tool policy of one lane. The lane applies it to the messages of clients. A lane without rules has none. */
export interface LanePolicy {
  /** True if client requests must wait until the server's tools are known. */
  readonly needsTools: boolean;
  /** Returns what changes the response to a client's request; undefined if it stays as it is. @param listAgain lists the server's tools again, because they have changed. */
  transformOf(method: string, listAgain: () => void): Transform | undefined;
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
