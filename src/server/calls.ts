import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { readCapabilities } from "../mcp/capabilities.ts";
import { SidecarError } from "../mcp/errors.ts";
import { type JsonObject, type Outgoing, outgoing, type RequestMessage, Slot } from "../mcp/message.ts";
import { requestToServer, responseToClient } from "../mcp/rewrite.ts";
import type { MemoryAccount } from "../memory.ts";
import { type LogFields } from "../observe/log.ts";
import type { Upstream, UpstreamHandshake, UpstreamInput } from "../process/port.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import { Timer } from "../timers.ts";
import {
  Call,
  type CallCheck,
  type CallLimits,
  type CallVerdict,
  cancellation,
  type ClientCall,
  createLine,
  type Effect,
  effectOf,
  type InternalRequest,
  internalRequest,
  isOfClient,
  type LaneLoad,
  type Outcome,
  RequestIds,
  SentMessages,
  Semaphore,
  sendIf,
} from "./call.ts";
import { DropLog } from "./dropped.ts";
import { internalError, overloaded, requestTimedOut, toolsNotListed, upstreamNotReady } from "./failures.ts";
import { RequestQueue } from "./queue.ts";
import { ClientTasks } from "./tasks.ts";

/** A longer request is not kept for a retry: a caller may have a thousand in flight. */
const MAX_KEPT_BYTES = 64 * 1024;
/** The sidecar's own requests in flight: one client may cancel a thousand subscriptions at once. */
const MAX_IN_BACKGROUND = 16;
/** Lines that the server has caused, such as responses to its pings. */
const MAX_OWN_BYTES = 256 * 1024;

export interface HeldRequest {
  readonly owner: { readonly memory: MemoryAccount };
  readonly reply: Pick<Reply, "acceptedAtMs" | "onDisconnect">;
  readonly request: Pick<RequestMessage, "method" | "text">;
}

/** The calls of one server: each is sent at once, queued until the server is ready and has a free slot, or rejected. */
export class Calls {
  readonly context: Context;
  readonly upstream: Upstream;
  readonly queue: RequestQueue;
  readonly tasks = new ClientTasks();
  readonly dropped: DropLog;
  input: UpstreamInput | undefined;
  /** The handshake of the current or the last generation; undefined before the first. */
  lastHandshake: UpstreamHandshake | undefined;
  /** Empty until all tools are listed, and while they are outdated. */
  readOnlyTools: ReadonlySet<string> = new Set();
  onTimeout: ((call: Call) => void) | undefined;
  onAbandoned: ((call: Call) => void) | undefined;
  /** Called when a client's call has ended, was parked, or goes on. */
  readonly onChanged: ((call: Call) => void)[] = [];
  /** The number of the last call or message, and of the last message of the server, in one order. */
  lastNumber = 0;
  lastMessageNumber = 0;
  readonly isWaitingForClient: () => boolean;
  readonly #ids = new RequestIds();
  sent = new SentMessages(this.#ids);
  /** May fire too early: an end does not move it, so a call that ends soon costs it nothing. */
  readonly #timer: Timer;
  /** In the order of their ids. A Map would leave old tables behind, which only a full garbage collection frees. */
  readonly #all: Call[] = [];
  #fewer: PromiseWithResolvers<void> | undefined;
  #ownBytes = 0;
  readonly #sidecar = {};
  readonly #background = new Semaphore("the sidecar", MAX_IN_BACKGROUND);

  /** @param isWaitingForClient true while the server waits for a client: that time does not count. */
  constructor(context: Context, upstream: Upstream, isWaitingForClient: () => boolean) {
    this.context = context;
    this.upstream = upstream;
    this.dropped = new DropLog(context);
    this.isWaitingForClient = isWaitingForClient;
    this.#timer = new Timer(context, (nowMs) => this.#onTimer(nowMs));
    this.queue = new RequestQueue(
      context,
      upstream,
      (call) => this.#admit(call),
      (call) => this.#reject(call),
    );
  }

  get load(): LaneLoad & { readonly suspended: number } {
    const { length: waiting, queuedBytes } = this.queue;
    let [requestsInFlight, suspended] = [0, 0];
    for (const { kind, state } of this.#all) {
      if (state === "suspended") suspended++;
      else if (kind === "client" && state !== "parked") requestsInFlight++;
    }
    return { requestsInFlight, suspended, waiting, queuedBytes: queuedBytes + (this.input?.queuedBytes ?? 0) };
  }

  /** Empty before the first handshake. */
  get capabilities(): JsonObject {
    return readCapabilities(this.lastHandshake?.resultText ?? "{}");
  }

  values(): Call[] {
    return [...this.#all];
  }

  /** Resolves when no call of a client is in flight or suspended. */
  async whenEmpty(): Promise<void> {
    for (;;) {
      const { requestsInFlight, suspended } = this.load;
      if (requestsInFlight + suspended === 0) return;
      this.#fewer ??= Promise.withResolvers();
      await this.#fewer.promise;
    }
  }

  /**
   * @param caller undefined for the sidecar itself, as is `reply`.
   * @returns undefined if it was rejected.
   */
  carry(
    caller: Caller | undefined,
    reply: Reply | undefined,
    request: RequestMessage,
    onEnded?: Call["onEnded"],
    limits?: CallLimits,
  ): Call | undefined {
    const { counters, defects, nowMs } = this.context;
    const acceptedAtMs = reply?.acceptedAtMs ?? nowMs();
    const call = this.#create(caller, reply, acceptedAtMs, request, limits);
    call.onEnded = onEnded;
    const place = this.queue.enter(call);
    if (place === undefined) {
      const error = this.notSent(call);
      reply?.refuse(error);
      onEnded?.(false, error);
      return undefined;
    }
    if (place === "queued" && caller !== undefined) counters.requests.held++;
    // The end of a call that was evicted for this one may have sent another one, with a later id.
    this.#all.splice(this.#indexOf(call.wireId), 0, call);
    if (caller !== undefined) {
      reply?.accept();
      caller.beginCall();
      call.holdMemory();
    }
    if (reply !== undefined)
      reply.onDisconnect = () => defects.guard("client disconnect", () => this.giveUp(call, "client disconnected", "unread"));
    if (place === "open") this.#admit(call);
    else {
      // Those in the background wait for others of the sidecar, however long these take.
      if (call.semaphore !== this.#background) call.expiresAtMs = acceptedAtMs + this.#maxWaitMs(call);
      this.#schedule(call);
    }
    return call;
  }

  /** Comes after the queued requests of its caller, but not those of a tool with limited slots. @returns the error if it is rejected. */
  carryNotification(caller: Caller, text: string, method: string): SidecarError | undefined {
    const { config, nowMs } = this.context;
    return this.roomError(text) ?? this.hold(new Call("notification", caller, method, text, caller), nowMs() + config.holdTimeoutMs);
  }

  holdRequest(
    { owner, reply, request }: HeldRequest,
    onReady: () => void,
    onFailed: (error: SidecarError) => void,
    semaphore?: Semaphore,
  ): void {
    const call = new Call("waiting", owner, request.method, request.text);
    call.semaphore = semaphore;
    const proceed = (): void => {
      this.end(call, "unread");
      onReady();
    };
    call.onReady = () => this.context.defects.guard("request that waits", proceed, () => onFailed(internalError(false)));
    call.onEnded = (_hasResult, outcome) => {
      if (outcome instanceof SidecarError) onFailed(outcome);
    };
    const error = this.roomError(request.text) ?? this.hold(call, reply.acceptedAtMs + this.context.config.holdTimeoutMs);
    if (error !== undefined) onFailed(error);
    else reply.onDisconnect = () => this.end(call, "unread");
  }

  /** Until the queue admits it: then a notification is sent, any other call gets `onReady`. Else it is rejected at `expiresAtMs`. */
  hold(call: Call, expiresAtMs: number): SidecarError | undefined {
    const place = this.queue.enter(call);
    if (place === undefined) return this.notSent();
    call.expiresAtMs = expiresAtMs;
    call.holdMemory();
    if (place === "open") this.#admit(call);
    else this.#schedule(call);
    return undefined;
  }

  /** Lets requests that wait go on now: another server may take them. */
  releaseWaiting(): void {
    // Those that come back meanwhile wait again.
    const waiting = [...this.queue.entries].filter(({ kind }) => kind === "waiting");
    for (const call of waiting) if (call.state === "queued") call.onReady?.();
  }

  requestOwn(method: string, params: object, onEnded: Call["onEnded"], limits?: CallLimits): Call | undefined {
    const request = internalRequest(method, params, this.lastHandshake?.requestMeta);
    const onCallEnded: Call["onEnded"] = (isResult, outcome) => {
      // A failure during shutdown is expected.
      if (outcome instanceof SidecarError && outcome.code !== "SHUTTING_DOWN")
        this.context.log.warn({ method, reason: outcome.message }, "internal request failed");
      onEnded?.(isResult, outcome);
    };
    return this.carry(undefined, undefined, request, onCallEnded, limits);
  }

  requestInBackground({ method, params, isCurrent, onEnded, memory }: InternalRequest): void {
    const call = this.requestOwn(method, params, onEnded, { ...(isCurrent && sendIf(isCurrent)), semaphore: this.#background });
    if (call === undefined || call.state === "ended") memory?.release();
    else call.memory = memory;
  }

  ping(onEnded?: () => void, limits?: CallLimits): Call | undefined {
    return this.requestOwn(this.lastHandshake?.pingMethod ?? "ping", {}, onEnded, limits);
  }

  openStream(request: RequestMessage, onEnded: Call["onEnded"]): Call | undefined {
    return this.carry(undefined, undefined, request, onEnded, { timeoutMs: Infinity });
  }

  endStream(call: Call | undefined, reason: string): void {
    if (call !== undefined) this.giveUp(call, reason, "unread");
  }

  /**
   * Sends a line to this generation only.
   *
   * @param cause the client that has caused it; undefined for the server. @returns false if there is no room: a server may never read.
   */
  sendInternal(text: string, cause?: MemoryAccount): boolean {
    if (this.inputRoomError(text) !== undefined) return false;
    this.sent.noteNotification();
    if (cause !== undefined) {
      this.input?.send(createLine(cause, text));
      return true;
    }
    if (this.input === undefined) return true;
    const byteLength = Buffer.byteLength(text);
    if (this.#ownBytes + byteLength > MAX_OWN_BYTES) return false;
    this.#ownBytes += byteLength;
    this.input.send({ ...outgoing(text), byteLength, onEmptied: () => (this.#ownBytes -= byteLength) });
    return true;
  }

  /** @returns the error if there is no room for a line that may be held. A single one may exceed the limit. */
  roomError(text: string, queuedBytes = this.queue.queuedBytes + (this.input?.queuedBytes ?? 0)): SidecarError | undefined {
    const roomBytes = this.context.config.maxQueuedBytes - queuedBytes;
    // A UTF-16 unit has at most three bytes, so the exact size is rarely needed.
    const hasRoom = queuedBytes === 0 || text.length * 3 <= roomBytes || Buffer.byteLength(text) <= roomBytes;
    return hasRoom ? undefined : overloaded("its input queue is full");
  }

  /** @returns the error if there is no room for a line that is sent at once. Held calls do not count: the server may need it to end one. */
  inputRoomError(text: string): SidecarError | undefined {
    return this.roomError(text, this.input?.queuedBytes ?? 0);
  }

  notReady(call?: Call): SidecarError {
    return upstreamNotReady(this.upstream.status(), Date.now(), call?.isSent, call && this.effectOf(call));
  }

  notSent(call?: Call): SidecarError {
    if (!this.queue.isReady) return this.notReady(call);
    const { blocks, length } = this.queue;
    const semaphore = call?.semaphore;
    const outcome = [call?.isSent, call && this.effectOf(call)] as const;
    if (blocks.has("tools")) return toolsNotListed(...outcome);
    if (blocks.has("question"))
      return overloaded("its processes wait for answers of clients (CLAW_MCP_STDIO_MAX_PRIVATE_SERVERS)", ...outcome);
    if (semaphore !== undefined && semaphore.freeCount <= 0) return overloaded(semaphore.describe(), ...outcome);
    return overloaded(`${this.context.config.maxInFlight} in flight, ${length} queued`, ...outcome);
  }

  effectOf({ method, toolName = "", retry }: Call): Effect {
    // The call was read-only when it was queued again. The next generation may not have listed its tools yet.
    if (retry !== "none") return "safe";
    if (method === "tools/call") return this.context.config.retry === "read-only" && this.readOnlyTools.has(toolName) ? "safe" : "unknown";
    return effectOf(method);
  }

  getWritten(wireId: unknown): Call | undefined {
    const call = typeof wireId === "number" ? this.#all[this.#indexOf(wireId)] : undefined;
    return call?.wireId === wireId && call?.isWritten === true ? call : undefined;
  }

  /** Those that the server has, by their ids. */
  get ofClients(): ClientCall[] {
    return this.#all.filter(isOfClient).filter(({ isWritten }) => isWritten);
  }

  /**
   * Ends a call without a response of the server, and cancels it there (MCP 2025-11-25, basic/utilities/cancellation).
   *
   * @param ofClient the client's own cancellation as the server reads it.
   */
  giveUp(call: Call, reason: string, outcome: SidecarError | "dismissed" | "unread", ofClient?: string): void {
    const { wireId, method, toolName, account } = call;
    if (call.state === "ended") return;
    if (call.isWritten) {
      this.#remove(call);
      this.sent.noteAbandoned(wireId, reason);
      const text = ofClient ?? cancellation(wireId, reason);
      this.input?.send(account === undefined ? outgoing(text) : createLine(account, text));
      if (account !== undefined) this.onAbandoned?.(call);
    }
    const code = outcome instanceof SidecarError ? outcome.code : undefined;
    const setting = code === "REQUEST_TIMEOUT" ? call.timeoutSetting : undefined;
    const fields: LogFields = { method: shorten(method), tool: toolName && shorten(toolName), requestId: wireId, reason, setting, code };
    if (call.kind === "client") this.context.limitedRequestLog.info(fields, "request given up");
    else this.context.limitedRequestLog.debug(fields, "internal request given up");
    this.end(call, outcome);
  }

  answer(call: Call, verdict: CallVerdict): void {
    if (verdict instanceof SidecarError) this.giveUp(call, "rejected by a check", verdict);
    else this.end(call, verdict);
  }

  close(): void {
    this.queue.end();
    this.#timer.clear();
  }

  /** Queued calls go first, so that none is sent when another one frees its slot. */
  giveUpAll(calls: Iterable<Call>, reason: string, describe: (call: Call) => SidecarError): void {
    const { queued = [], others = [] } = Object.groupBy(calls, ({ state }) => (state === "queued" ? "queued" : "others"));
    for (const call of [...queued, ...others]) this.giveUp(call, reason, describe(call));
  }

  #timeOut(call: Call): void {
    this.onTimeout?.(call);
    const takenMs = Math.round(call.deadlineMs - call.beganAtMs);
    this.giveUp(call, "timeout", requestTimedOut(call, takenMs, call.isSent, this.effectOf(call)));
  }

  extend(nowMs: number): void {
    for (const call of this.#all) if (call.isWritten) call.extend(nowMs);
  }

  /** Its client was asked: it takes no slot and no time. */
  park(call: Call): void {
    call.state = "parked";
    call.caller?.endCall(this.context.nowMs());
    this.#fewer?.resolve();
    this.#fewer = undefined;
    this.queue.free(call);
    for (const onChanged of this.onChanged) onChanged(call);
  }

  /** The client's next request has a time of its own. */
  resume(call: Call): void {
    const acceptedAtMs = call.reply?.acceptedAtMs ?? 0;
    call.reply?.accept();
    call.caller?.beginCall();
    call.state = "passed";
    call.renew(acceptedAtMs);
    call.slowAtMs = acceptedAtMs + this.context.config.streamAfterMs;
    this.queue.take(call);
    this.#schedule(call);
    for (const onChanged of this.onChanged) onChanged(call);
  }

  /**
   * The server has answered without ending the call. Its client goes on waiting.
   *
   * @param isAsked true if a person answers, which takes more time than the call has.
   */
  suspend(call: Call, isAsked: boolean): void {
    this.sent.noteAnswered(call.wireId);
    call.state = "suspended";
    call.isWritten = false;
    call.mustNotRestart = true;
    if (isAsked) call.deadlineMs = Infinity;
    this.#schedule(call);
    this.queue.free(call);
  }

  /** The call gets a new time if its client was asked. */
  repeat(call: Call, request: RequestMessage): void {
    const nowMs = this.context.nowMs();
    if (call.deadlineMs === Infinity) call.renew(nowMs);
    this.#remove(call);
    call.wireId = ++this.#ids.last;
    this.#all.push(call);
    call.text = requestToServer(request, call.wireId);
    call.byteLength = Buffer.byteLength(call.text);
    call.holdMemory();
    call.state = "queued";
    call.expiresAtMs = nowMs + this.#maxWaitMs(call);
    const place = this.queue.enter(call);
    if (place === undefined) this.#reject(call);
    else if (place === "open") this.#admit(call);
    else this.#schedule(call);
  }

  /** Ends a call exactly once, wherever it waits. */
  end(call: Call, outcome: Outcome): void {
    const { caller, kind, reply, state } = call;
    if (state === "ended") return;
    if (state === "queued") this.queue.remove(call);
    else if (state === "checking") this.#stopCheck(call);
    else if (state === "passed" && !call.isWritten) this.input?.withdraw(call);
    call.state = "ended";
    call.memory?.release();
    this.#remove(call);
    // One that its client has cancelled may count too: only a later response proves that the server has read the cancellation.
    if (call.isWritten && !(outcome instanceof SidecarError)) this.sent.noteAnswered(call.wireId);
    try {
      call.onEnded?.(hasResult(outcome), outcome);
    } catch (error) {
      this.context.defects.recover("server response", error);
    }
    if (kind === "client" && state !== "parked") caller?.endCall(this.context.nowMs());
    if (reply !== undefined && outcome !== "unread") {
      try {
        if (outcome instanceof SidecarError) reply.fail(outcome);
        else if (outcome === "dismissed") reply.dismiss();
        else if ("resultText" in outcome) reply.answer("result", outcome.resultText);
        else reply.respond(responseToClient(outcome, reply.idText), outcome);
      } catch (error) {
        this.context.defects.recover("server response", error, () => reply.fail(internalError(call.isSent)));
      }
      // A Set such as `queue.entries` may keep ended calls in an old table until the next full garbage collection.
      call.reply = undefined;
    }
    this.#fewer?.resolve();
    this.#fewer = undefined;
    // Last: other calls are sent now.
    this.queue.free(call);
    if (kind === "client") for (const onChanged of this.onChanged) onChanged(call);
  }

  /**
   * Queues calls of clients for the next generation: first those to send again, then those that were never sent. Fails the others.
   *
   * @returns how many clients' calls failed.
   */
  onLost(unwritten: readonly Outgoing[], describe: (call: Call) => SidecarError): number {
    const { config, nowMs } = this.context;
    // Nothing is sent any more, whatever ends meanwhile.
    this.queue.isReady = false;
    this.input = undefined;
    this.sent = new SentMessages(this.#ids);
    const returned = this.#takeRetries();
    for (const line of unwritten) {
      if (line instanceof Call && line.kind !== "sidecar") returned.push(line);
      else line.onEmptied?.();
    }
    // The next generation gets the state of that time.
    for (const call of this.queue.entries) if (call.semaphore === this.#background) this.end(call, "dismissed");
    for (const call of this.values()) {
      // The next generation may have other tools, so calls are checked again.
      if (call.state !== "checking") continue;
      this.#stopCheck(call);
      returned.push(call);
    }
    const expiresAtMs = nowMs() + config.holdTimeoutMs;
    for (const call of returned) call.expiresAtMs = expiresAtMs;
    this.queue.addReturned(returned);
    let count = 0;
    for (const call of this.values()) {
      if (!call.isWritten && call.kind === "client") continue;
      if (call.kind === "client") count++;
      this.end(call, describe(call));
    }
    this.tasks.tokens.clear();
    this.#scheduleAll();
    return count;
  }

  #create(
    caller: Caller | undefined,
    reply: Reply | undefined,
    acceptedAtMs: number,
    request: RequestMessage,
    limits: CallLimits | undefined,
  ): Call {
    const { retry, requestTimeoutMs, streamAfterMs } = this.context.config;
    const { method } = request;
    const wireId = ++this.#ids.last;
    const text = requestToServer(request, wireId);
    const call = new Call(caller === undefined ? "sidecar" : "client", caller ?? this.#sidecar, method, text, caller, reply);
    call.wireId = wireId;
    const isTool = method === "tools/call";
    if (isTool) call.toolName = request.outline.stringAt(Slot.toolName);
    const mayRetry = retry !== "off" && (isTool ? retry === "read-only" : effectOf(method) === "safe");
    call.isKept = caller !== undefined && call.byteLength <= MAX_KEPT_BYTES && mayRetry;
    call.progressTokenText = request.outline.copyAt(Slot.metaProgressToken);
    call.timeoutMs = limits?.timeoutMs ?? requestTimeoutMs;
    call.timeoutSetting = limits?.timeoutMs === undefined ? "REQUEST_TIMEOUT_MS" : limits.timeoutSetting;
    if (limits?.semaphore !== this.#background) call.renew(acceptedAtMs);
    if (caller !== undefined) call.slowAtMs = acceptedAtMs + streamAfterMs;
    call.semaphore = limits?.semaphore;
    call.check = limits?.check;
    return call;
  }

  #indexOf(wireId: number): number {
    let low = 0;
    let high = this.#all.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#all[middle]?.wireId ?? 0) < wireId) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #remove(call: Call): void {
    const index = this.#indexOf(call.wireId);
    if (this.#all[index] === call) this.#all.splice(index, 1);
  }

  /** A ready server gets at least half of the time. Else one that is unresponsive would not be detected. */
  #maxWaitMs({ timeoutMs }: Call): number {
    const { holdTimeoutMs } = this.context.config;
    return this.queue.isReady ? Math.min(holdTimeoutMs, timeoutMs / 2) : holdTimeoutMs;
  }

  #admit(call: Call, isChecked = false): void {
    const { onReady } = call;
    if (onReady !== undefined) return onReady();
    if (call.retry === "due") {
      call.retry = "done";
      this.context.counters.requests.repeated++;
    }
    // A call that a server may have seen was checked before.
    if (call.check !== undefined && !isChecked && !call.isSent) return this.#check(call, call.check);
    const nowMs = this.context.nowMs();
    if (call.semaphore === this.#background) call.renew(nowMs);
    if (nowMs >= call.deadlineMs) return this.#timeOut(call);
    const { kind, account, reply } = call;
    if (account !== undefined) this.sent.noteClient(account.holder);
    call.state = "passed";
    call.sentAtMs = nowMs;
    if (kind === "notification") this.sent.noteNotification();
    else {
      // A call that is queued for long may still fail with status 503, which is impossible once its response has begun.
      if (call.slowAtMs <= nowMs && call.sentNumber === 0) call.slowAtMs = nowMs + this.context.config.streamAfterMs;
      call.sentNumber = ++this.lastNumber;
      if (reply?.record !== undefined) reply.record.sentAtMs ??= nowMs;
      this.#schedule(call);
    }
    this.input?.send(call);
  }

  #check(call: Call, check: CallCheck): void {
    const { defects } = this.context;
    call.state = "checking";
    this.queue.queuedBytes += call.byteLength;
    this.#schedule(call);
    const onVerdict = (verdict: CallVerdict | undefined): void => {
      if (call.state !== "checking") return;
      call.stopCheck = undefined;
      this.#stopCheck(call);
      if (verdict === undefined) this.#admit(call, true);
      else this.answer(call, verdict);
    };
    const fail = (): void => this.end(call, internalError(false));
    try {
      const stop = check((verdict) => defects.guard("argument check", () => onVerdict(verdict), fail));
      if (call.state === "checking") call.stopCheck = stop;
    } catch (error) {
      // The end of another call may have admitted this one.
      defects.recover("argument check", error, fail);
    }
  }

  #stopCheck(call: Call): void {
    this.queue.queuedBytes -= call.byteLength;
    call.state = "queued";
    call.stopCheck?.();
    call.stopCheck = undefined;
  }

  #schedule({ state, deadlineMs, expiresAtMs, slowAtMs }: Call): void {
    if (state === "parked") return;
    const dueAtMs = Math.min(deadlineMs, state === "queued" ? expiresAtMs : state === "passed" ? slowAtMs : Infinity);
    if (dueAtMs < this.#timer.atMs) this.#timer.set(dueAtMs);
  }

  #onTimer(nowMs: number): void {
    for (const call of [...this.#all, ...this.queue.entries]) this.#onDue(call, nowMs);
    this.#scheduleAll();
  }

  #scheduleAll(): void {
    this.#timer.clear();
    for (const call of [...this.#all, ...this.queue.entries]) this.#schedule(call);
  }

  #onDue(call: Call, nowMs: number): void {
    if (call.state === "parked" || call.state === "ended") return;
    try {
      // The time in which a person answers the server does not count.
      if (call.deadlineMs <= nowMs && this.isWaitingForClient()) call.extend(nowMs);
      if (call.deadlineMs <= nowMs) return this.#timeOut(call);
      if (call.state === "queued" && call.expiresAtMs <= nowMs) return this.#reject(call);
      if (call.state !== "passed" || call.slowAtMs > nowMs) return;
      call.slowAtMs = Infinity;
      call.reply?.keepAlive();
    } catch (error) {
      this.context.defects.recover("deadline", error, () => {
        const { reply } = call;
        const failure = internalError(call.isSent);
        this.end(call, failure);
        reply?.fail(failure);
      });
    }
  }

  /** It has waited for too long, another one needs its place, or there is no server any more. */
  #reject(call: Call): void {
    const { kind, method } = call;
    this.queue.remove(call);
    if (kind === "client" || kind === "sidecar")
      return this.giveUp(call, this.queue.isReady ? "not sent in time" : "not ready in time", this.notSent(call));
    this.end(call, this.notSent(call));
    if (kind !== "notification") return;
    this.context.counters.dropped.clientNotifications++;
    this.context.limitedRequestLog.warn({ method: shorten(method) }, "client notification dropped: the mcp server was not ready in time");
  }

  #takeRetries(): Call[] {
    const nowMs = this.context.nowMs();
    const retried: Call[] = [];
    for (const call of this.#all) {
      call.sentAtMs = undefined;
      // Each generation gets new requests of the sidecar itself.
      if (!call.isWritten || call.kind === "sidecar" || !call.isKept || call.retry !== "none") continue;
      // Its client would see progress or a question again.
      if (call.mustNotRestart || call.deadlineMs <= nowMs || this.effectOf(call) !== "safe") continue;
      call.isWritten = false;
      call.retry = "due";
      retried.push(call);
    }
    return retried;
  }
}

function hasResult(outcome: Outcome): boolean {
  if (outcome instanceof SidecarError || typeof outcome === "string") return false;
  return "resultText" in outcome || !outcome.isError;
}
