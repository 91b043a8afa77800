import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { outgoing } from "../mcp/message.ts";
import type { RequestEnding } from "../observe/record.ts";
import { limitedLog, type Log } from "../observe/log.ts";
import type { UpstreamInput } from "../process/port.ts";
import { type Call, type ClientCall, createLine, type Effect, effectOf, extend, holdCallMemory, isSent, renew, takenMs } from "./call.ts";
import { requestTimedOut } from "./failures.ts";
import type { RequestQueue } from "./queue.ts";
import type { CallVerdict } from "./slots.ts";
import { ClientTasks } from "./tasks.ts";

/** The limits of the memory of abandoned requests. It distinguishes a late response from one with a wrong id. */
const LATE_MEMORY_MS = 5 * 60_000;
const LATE_MEMORY_ENTRIES = 1000;

/**
 * The requests to one peer that await their responses, by id. Ids are consecutive integers from a random one on and are never reused
 * (MCP 2025-11-25, basic/index), so clients cannot guess them. Iterates in the order of ids.
 */
export class PendingRequests<Entry> extends Map<unknown, Entry> {
  readonly #abandoned = new Map<unknown, { readonly reason: string; readonly atMs: number }>();
  readonly #firstId: number;
  #lastId: number;
  /** The highest id that the peer has answered. It answers in any order, but reads in the order of ids. */
  #highestAnsweredId = 0;
  /** The last id when a request was abandoned; -1 before. */
  #lastIdAtAbandon = -1;
  /** The last id when the peer was sent anything else; -1 before. */
  #lastIdAtNotification = -1;

  /** @param lastId the number before the first id. */
  constructor(lastId = randomId()) {
    super();
    this.#firstId = lastId + 1;
    this.#lastId = lastId;
  }

  mintId(): number {
    return ++this.#lastId;
  }

  /** True if `mintId` has returned this id. */
  hasMinted(id: unknown): boolean {
    return typeof id === "number" && id >= this.#firstId && id <= this.#lastId;
  }

  /** Must be called for each response. */
  onAnswered(id: number): void {
    this.#highestAnsweredId = Math.max(this.#highestAnsweredId, id);
  }

  /** True if the peer may not have read yet that a request was abandoned: it has answered none that was sent later. */
  get hasUnreadAbandoned(): boolean {
    return this.#lastIdAtAbandon >= this.#highestAnsweredId;
  }

  /** Must be called when the peer is sent anything but a request. */
  onNotification(): void {
    this.#lastIdAtNotification = this.#lastId;
  }

  /** True if the peer may not have read all that it was sent besides requests: it has answered none that was sent later. */
  get hasUnreadNotification(): boolean {
    return Math.max(this.#lastIdAtNotification, this.#lastIdAtAbandon) >= this.#highestAnsweredId;
  }

  /** Removes an entry whose response is no longer awaited, and remembers the reason. */
  abandon(id: number, reason: string, nowMs: number): void {
    if (!this.delete(id)) return;
    this.#abandoned.set(id, { reason, atMs: nowMs });
    this.#lastIdAtAbandon = this.#lastId;
    for (const [oldId, old] of this.#abandoned) {
      if (this.#abandoned.size <= LATE_MEMORY_ENTRIES && nowMs - old.atMs <= LATE_MEMORY_MS) break;
      this.#abandoned.delete(oldId);
    }
  }

  /** Returns why the request of a late response was abandoned, and forgets it. */
  takeAbandoned(id: unknown): string | undefined {
    const abandoned = this.#abandoned.get(id);
    this.#abandoned.delete(id);
    return abandoned?.reason;
  }

  /** Forgets the abandoned requests, because the peer that could have answered them has exited. */
  forgetAbandoned(): void {
    this.#abandoned.clear();
    this.#lastIdAtAbandon = this.#lastIdAtNotification = -1;
  }
}

/** Some servers keep ids in signed 32-bit integers. This leaves room for a billion requests. */
function randomId(): number {
  const [bits = 0] = crypto.getRandomValues(new Uint32Array(1));
  return bits >>> 2;
}

/** The calls of a lane that wait for a response. They may be ended while they are iterated. */
export class CallTable extends PendingRequests<Call> {
  readonly tasks = new ClientTasks();
  /** The stdin of the current generation; undefined if there is none. */
  input: UpstreamInput | undefined;
  /** The tools that certainly only read. Empty until all tools are listed, and while they are outdated. */
  readOnlyTools: ReadonlySet<string> = new Set();
  /** Called with each call that times out. */
  onTimeout: ((call: Call) => void) | undefined;
  /** Called when a call of a client that the server has is given up. */
  onAbandoned: ((call: Call) => void) | undefined;
  /** Called after the end of each client's call. */
  onEnd: (() => void) | undefined;
  readonly #context: Context;
  readonly #queue: RequestQueue;
  readonly #log: Log;
  /** The number of clients' calls that were suspended. The queue counts the others, without parked ones. */
  suspendedCount = 0;
  #empty: PromiseWithResolvers<void> | undefined;

  constructor(context: Context, queue: RequestQueue) {
    super();
    this.#context = context;
    this.#queue = queue;
    this.#log = limitedLog(context.log, context.nowMs);
  }

  /** Resolves when no client waits for a response. */
  whenEmpty(): Promise<void> {
    if (this.#queue.openCount + this.suspendedCount === 0) return Promise.resolve();
    this.#empty ??= Promise.withResolvers();
    return this.#empty.promise;
  }

  /** Adds a call. A client's is counted until its end. */
  accept(call: Call): void {
    this.set(call.wireId, call);
    if (call.kind === "sidecar") return;
    this.#open(call);
    holdCallMemory(call);
  }

  /** Returns the call that was sent with this id, and is not queued again. */
  getWritten(wireId: unknown): Call | undefined {
    const call = this.get(wireId);
    return call?.isWritten === true ? call : undefined;
  }

  /** Returns the call that the server works on, if it is the only one. A call of the sidecar that stays open is a subscription. */
  findOnly(): Call | undefined {
    let only: Call | undefined;
    for (const call of this.values()) {
      if (!call.isWritten || (call.kind === "sidecar" && call.timeoutMs === Number.POSITIVE_INFINITY)) continue;
      if (only !== undefined) return undefined;
      only = call;
    }
    return only;
  }

  /** Returns the effect of sending a call again. */
  effectOf({ method, toolName = "", retry }: Call): Effect {
    // The call was read-only when it was queued again. The next generation may not have listed its tools yet.
    if (retry !== "none") return "safe";
    if (method === "tools/call") return this.#context.config.retry === "read-only" && this.readOnlyTools.has(toolName) ? "safe" : "unknown";
    return effectOf(method);
  }

  /** Returns the arguments for the error of a call that is given up. */
  outcomeOf(call: Call): [method: string, sent: boolean, effect: Effect] {
    return [call.method, isSent(call), this.effectOf(call)];
  }

  /** Ends a call that the server has answered. */
  endAnswered(call: Call, ending: RequestEnding): void {
    this.onAnswered(call.wireId);
    this.#remove(call, ending);
  }

  /**
   * Ends a call without a response from the server. Sends the server a cancellation if the call was sent (MCP 2025-11-25,
   * basic/utilities/cancellation). Otherwise removes it from the queue.
   *
   * @param ending the error for the client; "dismissed" or "unread" if the client does not want a response.
   * @param cancellation the client's own cancellation as the server reads it; the default is one from the sidecar.
   */
  giveUp(call: Call, reason: string, ending: SidecarError | "dismissed" | "unread", cancellation?: string): void {
    const { wireId, method, toolName } = call;
    if (call.isWritten) {
      this.abandon(wireId, reason, this.#context.nowMs());
      const params = { requestId: wireId, reason };
      const text = cancellation ?? JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params });
      this.input?.send(call.kind === "client" ? createLine(call.caller.memory, text) : outgoing(text));
      if (call.kind === "client") this.onAbandoned?.(call);
    } else this.#withdraw(call);
    const error = ending instanceof SidecarError ? ending : undefined;
    this.#remove(call, ending instanceof SidecarError ? ending.code : ending);
    const tool = toolName && shorten(toolName);
    const setting = error?.code === "REQUEST_TIMEOUT" ? call.timeoutSetting : undefined;
    const fields = { method: shorten(method), tool, requestId: wireId, reason, setting, code: error?.code };
    if (call.kind === "client") this.#log.info(fields, "request given up");
    else this.#log.debug(fields, "internal request given up");
    if (error !== undefined) call.reply.fail(error);
    else if (ending === "dismissed") call.reply.dismiss();
  }

  /** Answers a call that was not sent with the sidecar's own error or result. */
  answer(call: Call, verdict: CallVerdict): void {
    if ("error" in verdict) return this.giveUp(call, "rejected by a check", verdict.error);
    this.#withdraw(call);
    this.#remove(call, "results");
    call.reply.respond(`{"jsonrpc":"2.0","id":${call.reply.idText},"result":${verdict.resultText}}`);
  }

  /** Gives up several calls. Queued calls go first, so that none of them is sent when another call frees its slot. */
  giveUpAll(calls: Iterable<Call>, reason: string, describe: (call: Call) => SidecarError): void {
    const { queued = [], others = [] } = Object.groupBy(calls, (call) => (this.#queue.entries.has(call) ? "queued" : "others"));
    for (const call of [...queued, ...others]) this.giveUp(call, reason, describe(call));
  }

  /** Fails the calls whose time is up. @returns the next deadline, or Infinity. */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const call of this.values()) {
      if (call.deadlineMs > nowMs) nextMs = Math.min(nextMs, call.deadlineMs);
      else this.timeOut(call);
    }
    return nextMs;
  }

  /** Fails a call whose time is up. */
  timeOut(call: Call): void {
    this.onTimeout?.(call);
    this.giveUp(call, "timeout", requestTimedOut(call, takenMs(call), isSent(call), this.effectOf(call)));
  }

  /** Renews the time of all calls that the server has, up to the limit of each. */
  extend(nowMs: number): void {
    for (const call of this.values()) if (call.isWritten) extend(call, nowMs);
  }

  /** Parks a call whose client was asked: it takes no slot and no time, and its client waits for nothing. */
  park(call: ClientCall): void {
    call.pause = "parked";
    call.deadlineMs = Number.POSITIVE_INFINITY;
    this.#release(call);
  }

  /** Continues a parked call with the next request of its client, which has a time of its own. */
  resume(call: ClientCall): void {
    call.pause = undefined;
    renew(call, call.reply.acceptedAtMs);
    call.semaphore?.acquire(call);
    this.#open(call);
  }

  /**
   * Suspends a call that the server has answered without ending it. Its client goes on waiting.
   *
   * @param isAsked true if the client is asked. A person who answers takes more time than the call has.
   */
  suspend(call: ClientCall, isAsked: boolean): void {
    this.onAnswered(call.wireId);
    call.pause = "suspended";
    call.isWritten = false;
    call.mustNotRestart = true;
    if (isAsked) call.deadlineMs = Number.POSITIVE_INFINITY;
    this.suspendedCount++;
    this.#queue.openCount--;
    call.semaphore?.release(call);
    this.#queue.release();
  }

  /** Continues a suspended call, which must be sent or queued after that. It gets a new time if its client was asked. */
  continue(call: ClientCall): void {
    call.pause = undefined;
    if (call.deadlineMs === Number.POSITIVE_INFINITY) renew(call, this.#context.nowMs());
    this.delete(call.wireId);
    call.wireId = this.mintId();
    this.set(call.wireId, call);
    this.suspendedCount--;
    this.#queue.openCount++;
  }

  /** Returns the lost generation's calls that are sent again to the next one, and marks them as queued. */
  takeRetries(): Call[] {
    const nowMs = this.#context.nowMs();
    const retried: Call[] = [];
    for (const call of this.values()) {
      // The lost generation may have left it unwritten.
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

  /** Fails the calls that the lost generation may have seen, and all internal requests. @returns the number of clients' calls. */
  failWritten(describe: (call: Call) => SidecarError): number {
    let count = 0;
    for (const call of this.values()) {
      if (!call.isWritten && call.kind === "client") continue;
      if (call.kind === "client") count++;
      const error = describe(call);
      if (!call.isWritten) this.#withdraw(call);
      this.#remove(call, error.code);
      call.reply.fail(error);
    }
    this.forgetAbandoned();
    this.tasks.clear();
    return count;
  }

  /** Removes a call that was not written, so that it is never sent. */
  #withdraw(call: Call): void {
    this.#queue.remove(call);
    this.input?.withdraw(call);
  }

  /** Removes a call. Every call ends here. */
  #remove(call: Call, ending: RequestEnding): void {
    this.delete(call.wireId);
    call.stopCheck?.();
    if (call.kind === "client") call.memory?.release();
    call.onSettled?.(ending === "results");
    if (call.pause === "suspended") {
      this.suspendedCount--;
      this.#queue.openCount++;
    }
    if (call.pause !== "parked") this.#release(call);
    if (call.kind === "client") this.onEnd?.();
  }

  #open({ caller, reply }: ClientCall): void {
    reply.accept();
    this.#queue.openCount++;
    caller.beginCall();
  }

  /** Ends the wait of a client for its call, and gives the slot to another one. */
  #release(call: Call): void {
    if (call.kind === "client") {
      this.#queue.openCount--;
      call.caller.endCall(this.#context.nowMs());
      if (this.#queue.openCount + this.suspendedCount === 0) {
        this.#empty?.resolve();
        this.#empty = undefined;
      }
    }
    call.semaphore?.release(call);
    this.#queue.release();
  }
}
