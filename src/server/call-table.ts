import { shorten } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { outgoing } from "../mcp/message.ts";
import type { Counters, RequestEnding } from "../observe/counters.ts";
import { limitedLog, type Log } from "../observe/log.ts";
import type { UpstreamInput } from "../process/port.ts";
import { type Call, type ClientCall, createLine, extend, holdCallMemory, renew, takenMs } from "./call.ts";
import { requestTimedOut } from "./failures.ts";
import type { RequestQueue, Retries } from "./queue.ts";
import type { CallVerdict } from "./slots.ts";
import { ClientTasks } from "./tasks.ts";

/** The calls that clients wait for, queued and suspended ones included. Each is counted for its client from its beginning to its end. */
class OpenCalls {
  readonly #counters: Counters;
  readonly #nowMs: () => number;
  #size = 0;
  #suspended = 0;
  #empty: PromiseWithResolvers<void> | undefined;

  constructor(counters: Counters, nowMs: () => number) {
    this.#counters = counters;
    this.#nowMs = nowMs;
  }

  /** The number of those that take a slot, or wait for one. */
  get size(): number {
    return this.#size - this.#suspended;
  }

  /** The number of those whose clients were asked, or whose server wants another request. */
  get suspended(): number {
    return this.#suspended;
  }

  suspend(): void {
    this.#suspended++;
  }

  continue(): void {
    this.#suspended--;
  }

  begin({ caller }: ClientCall): void {
    this.#counters.requests.accepted++;
    this.#size++;
    caller.beginCall();
  }

  end({ caller }: ClientCall, ending: RequestEnding): void {
    this.#counters.countEnding(ending);
    this.#size--;
    caller.endCall(this.#nowMs());
    if (this.#size > 0) return;
    this.#empty?.resolve();
    this.#empty = undefined;
  }

  /** Resolves when no client waits for a response. */
  whenEmpty(): Promise<void> {
    if (this.#size === 0) return Promise.resolve();
    this.#empty ??= Promise.withResolvers();
    return this.#empty.promise;
  }
}

/** The limits of the memory of abandoned requests. It distinguishes a late response from one with a wrong id. */
const LATE_MEMORY_MS = 5 * 60_000;
const LATE_MEMORY_ENTRIES = 1000;

interface Abandoned {
  readonly reason: string;
  readonly atMs: number;
}

/**
 * The requests to one peer that await their responses, by id. Ids are consecutive integers from a random one on and are never reused
 * (MCP 2025-11-25, basic/index), so clients cannot guess them. Iterates in the order of ids.
 */
export class PendingRequests<Entry> {
  readonly #entries = new Map<number, Entry>();
  readonly #abandoned = new Map<number, Abandoned>();
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
    this.#firstId = lastId + 1;
    this.#lastId = lastId;
  }

  get size(): number {
    return this.#entries.size;
  }

  mintId(): number {
    return ++this.#lastId;
  }

  /** True if `mintId` has returned this id. */
  hasMinted(id: unknown): boolean {
    return typeof id === "number" && id >= this.#firstId && id <= this.#lastId;
  }

  add(id: number, entry: Entry): void {
    this.#entries.set(id, entry);
  }

  /** Gives an entry a new id. @returns that id. */
  renumber(id: number): number {
    const entry = this.take(id);
    const newId = this.mintId();
    if (entry !== undefined) this.add(newId, entry);
    return newId;
  }

  get(id: unknown): Entry | undefined {
    return typeof id === "number" ? this.#entries.get(id) : undefined;
  }

  /** Removes and returns the entry of an id. */
  take(id: unknown): Entry | undefined {
    const entry = this.get(id);
    if (typeof id === "number") this.#entries.delete(id);
    return entry;
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
    if (!this.#entries.delete(id)) return;
    this.#abandoned.set(id, { reason, atMs: nowMs });
    this.#lastIdAtAbandon = this.#lastId;
    for (const [oldId, old] of this.#abandoned) {
      if (this.#abandoned.size <= LATE_MEMORY_ENTRIES && nowMs - old.atMs <= LATE_MEMORY_MS) break;
      this.#abandoned.delete(oldId);
    }
  }

  /** Returns why the request of a late response was abandoned, and forgets it. */
  takeAbandoned(id: unknown): string | undefined {
    if (typeof id !== "number") return undefined;
    const abandoned = this.#abandoned.get(id);
    this.#abandoned.delete(id);
    return abandoned?.reason;
  }

  /** Forgets the abandoned requests, because the peer that could have answered them has exited. */
  forgetAbandoned(): void {
    this.#abandoned.clear();
    this.#lastIdAtAbandon = this.#lastIdAtNotification = -1;
  }

  values(): MapIterator<Entry> {
    return this.#entries.values();
  }
}

/** Some servers keep ids in signed 32-bit integers. This leaves room for a billion requests. */
function randomId(): number {
  const [bits = 0] = crypto.getRandomValues(new Uint32Array(1));
  return bits >>> 2;
}

interface CallTableOptions {
  /** Returns the stdin of the current generation; undefined if there is none. */
  readonly input: () => UpstreamInput | undefined;
  /** The queue of calls that were not sent yet. */
  readonly queue: RequestQueue;
  readonly retries: Retries;
  readonly counters: Counters;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** The calls of a lane that wait for a response. */
export class CallTable {
  readonly tasks = new ClientTasks();
  readonly #input: () => UpstreamInput | undefined;
  readonly #queue: RequestQueue;
  readonly #retries: Retries;
  /** The clients' calls, without parked ones. */
  readonly open: OpenCalls;
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #pending = new PendingRequests<Call>();
  /** Called with each call that times out. */
  onTimeout: ((call: Call) => void) | undefined;
  /** Called when a call of a client is given up that the server has. */
  onAbandoned: ((call: Call) => void) | undefined;
  /** Called after the end of each client's call. */
  onEnd: (() => void) | undefined;

  constructor({ input, queue, retries, counters, log, nowMs }: CallTableOptions) {
    this.#input = input;
    this.#queue = queue;
    this.#retries = retries;
    this.open = new OpenCalls(counters, nowMs);
    this.#log = limitedLog(log, nowMs);
    this.#nowMs = nowMs;
  }

  mintId(): number {
    return this.#pending.mintId();
  }

  add(call: Call): void {
    this.#pending.add(call.wireId, call);
    if (call.origin === "sidecar") return;
    this.open.begin(call);
    holdCallMemory(call);
  }

  /** Calls may be ended while they are iterated. */
  values(): MapIterator<Call> {
    return this.#pending.values();
  }

  /** Returns the call that was sent with this id, and is not queued again. */
  getWritten(wireId: unknown): Call | undefined {
    const call = this.#pending.get(wireId);
    return call?.state === "written" ? call : undefined;
  }

  /** True if the server may still work on a call without knowing that it was given up. */
  get hasUnreadAbandoned(): boolean {
    return this.#pending.hasUnreadAbandoned;
  }

  /** Must be called when the server is sent anything but a request. */
  onNotification(): void {
    this.#pending.onNotification();
  }

  /** True if the server may still answer something that was no request, as some do with an error without an id. */
  get hasUnreadNotification(): boolean {
    return this.#pending.hasUnreadNotification;
  }

  /** Returns the call that the server works on, if it is the only one. A call of the sidecar that stays open is a subscription. */
  findOnly(): Call | undefined {
    let only: Call | undefined;
    for (const call of this.#pending.values()) {
      if (call.state !== "written" || (call.origin === "sidecar" && call.timeoutMs === Number.POSITIVE_INFINITY)) continue;
      if (only !== undefined) return undefined;
      only = call;
    }
    return only;
  }

  /** Removes and returns the call that a response answers. */
  takeAnswered(wireId: unknown, ending: RequestEnding): Call | undefined {
    const call = this.getWritten(wireId);
    if (call === undefined) return undefined;
    this.#pending.onAnswered(call.wireId);
    this.#remove(call, ending);
    return call;
  }

  /** Returns the reason why the call of a late answer was given up; undefined for an unknown id. */
  takeAbandoned(wireId: unknown): string | undefined {
    return this.#pending.takeAbandoned(wireId);
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
    if (call.state === "written") {
      this.#pending.abandon(wireId, reason, this.#nowMs());
      const params = { requestId: wireId, reason };
      const text = cancellation ?? JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params });
      this.#input()?.send(call.origin === "client" ? createLine(call.caller.memory, text) : outgoing(text));
      if (call.origin === "client") this.onAbandoned?.(call);
    } else this.#withdraw(call);
    const error = ending instanceof SidecarError ? ending : undefined;
    this.#remove(call, ending instanceof SidecarError ? ending.code : ending);
    const tool = toolName && shorten(toolName);
    const setting = error?.code === "REQUEST_TIMEOUT" ? call.timeoutSetting : undefined;
    const fields = { method: shorten(method), tool, requestId: wireId, reason, setting, code: error?.code };
    if (call.origin === "client") this.#log.info(fields, "request given up");
    else this.#log.debug(fields, "internal request given up");
    if (error !== undefined) call.exchange.fail(error);
    else if (ending === "dismissed") call.exchange.dismiss();
  }

  /** Answers a call that was not sent with the sidecar's own error or result. */
  answer(call: Call, verdict: CallVerdict): void {
    if ("error" in verdict) return this.giveUp(call, "rejected by a check", verdict.error);
    this.#withdraw(call);
    this.#remove(call, "results");
    call.exchange.respond(`{"jsonrpc":"2.0","id":${call.exchange.idText},"result":${verdict.resultText}}`);
  }

  /** Gives up several calls. Queued calls go first, so that none of them is sent when another call frees its slot. */
  giveUpAll(calls: Iterable<Call>, reason: string, describe: (call: Call) => SidecarError): void {
    const { queued = [], others = [] } = Object.groupBy(calls, (call) => (this.#queue.entries.has(call) ? "queued" : "others"));
    for (const call of [...queued, ...others]) this.giveUp(call, reason, describe(call));
  }

  /** Fails the calls whose time is up. @returns the next deadline, or Infinity. */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const call of this.#pending.values()) {
      if (call.deadlineMs > nowMs) nextMs = Math.min(nextMs, call.deadlineMs);
      else this.timeOut(call);
    }
    return nextMs;
  }

  /** Fails a call whose time is up. */
  timeOut(call: Call): void {
    this.onTimeout?.(call);
    const [, sent, effect] = this.#retries.outcomeOf(call);
    this.giveUp(call, "timeout", requestTimedOut(call, takenMs(call), sent, effect));
  }

  /** Renews the time of all calls that the server has, up to the limit of each. */
  extend(nowMs: number): void {
    for (const call of this.#pending.values()) if (call.state === "written") extend(call, nowMs);
  }

  /** Parks a call whose client was asked: it takes no slot and no time, and its client waits for nothing. */
  park(call: ClientCall): void {
    call.pause = "parked";
    call.deadlineMs = Number.POSITIVE_INFINITY;
    this.#release(call, "results");
  }

  /** Continues a parked call with the next request of its client, which has a time of its own. */
  resume(call: ClientCall): void {
    call.pause = undefined;
    renew(call, call.exchange.acceptedAtMs);
    call.semaphore?.acquire(call);
    this.open.begin(call);
  }

  /**
   * Suspends a call that the server has answered without ending it. Its client goes on waiting.
   *
   * @param isAsked true if the client is asked. A person who answers takes more time than the call has.
   */
  suspend(call: ClientCall, isAsked: boolean): void {
    this.#pending.onAnswered(call.wireId);
    call.pause = "suspended";
    call.state = "queued";
    call.mustNotRestart = true;
    if (isAsked) call.deadlineMs = Number.POSITIVE_INFINITY;
    this.open.suspend();
    this.#freeSlot(call);
  }

  /** Continues a suspended call, which must be sent or queued after that. It gets a new time if its client was asked. */
  continue(call: ClientCall): void {
    call.pause = undefined;
    if (call.deadlineMs === Number.POSITIVE_INFINITY) renew(call, this.#nowMs());
    call.wireId = this.#pending.renumber(call.wireId);
    this.open.continue();
  }

  /** Returns the lost generation's calls that are sent again to the next one, and marks them as queued. */
  takeRetries(): Call[] {
    return this.#retries.takeFrom(this.#pending.values(), this.#nowMs());
  }

  /** Fails the calls that the lost generation may have seen, and all internal requests. @returns the number of clients' calls. */
  failWritten(describe: (call: Call) => SidecarError): number {
    let count = 0;
    for (const call of this.#pending.values()) {
      if (call.state !== "written" && call.origin === "client") continue;
      if (call.origin === "client") count++;
      const error = describe(call);
      if (call.state === "queued") this.#withdraw(call);
      this.#remove(call, error.code);
      call.exchange.fail(error);
    }
    this.#pending.forgetAbandoned();
    this.tasks.clear();
    return count;
  }

  /** Removes a call that was not written, so that it is never sent. */
  #withdraw(call: Call): void {
    this.#queue.remove(call);
    this.#input()?.withdraw(call);
  }

  /** Removes a call. Every call ends here. */
  #remove(call: Call, ending: RequestEnding): void {
    this.#pending.take(call.wireId);
    call.stopCheck?.();
    if (call.origin === "client") call.memory?.release();
    call.onSettled?.(ending === "results");
    if (call.pause === "suspended") this.open.continue();
    if (call.pause !== "parked") this.#release(call, ending);
    if (call.origin === "client") this.onEnd?.();
  }

  /** Ends the wait of a client for its call, and gives the slot to another one. */
  #release(call: Call, ending: RequestEnding): void {
    if (call.origin === "client") this.open.end(call, ending);
    this.#freeSlot(call);
  }

  #freeSlot(call: Call): void {
    call.semaphore?.release(call);
    this.#queue.release();
  }
}
