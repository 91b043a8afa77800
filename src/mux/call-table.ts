import type { SidecarError } from "../errors.ts";
import { outgoing } from "../jsonrpc/outgoing.ts";
import { PendingRequests } from "../jsonrpc/pending-requests.ts";
import type { Log } from "../observability/log.ts";
import type { Call } from "./call.ts";
import { requestTimedOut, shorten } from "./failures.ts";
import type { HoldQueue } from "./hold-queue.ts";
import type { Upstream } from "./upstream.ts";

export interface CallTableOptions {
  readonly upstream: Upstream;
  /** Where calls wait that were not sent yet. */
  readonly held: HoldQueue;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** The calls of a lane that await their answer, and how each of them can end without one. */
export class CallTable {
  readonly #upstream: Upstream;
  readonly #held: HoldQueue;
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #pending = new PendingRequests<Call>();
  /** The sidecar's own requests hold up nobody, and nobody waits for them. */
  #ofClients = 0;
  #onEmpty: (() => void) | undefined;
  /** Told of each call that the server had and that has ended. */
  onEnded: ((call: Call, isAnswered: boolean) => void) | undefined;

  constructor({ upstream, held, log, nowMs }: CallTableOptions) {
    this.#upstream = upstream;
    this.#held = held;
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** Those of clients. */
  get size(): number {
    return this.#ofClients;
  }

  mintId(): number {
    return this.#pending.mintId();
  }

  add(call: Call): void {
    this.#pending.add(call.wireId, call);
    if (call.session === undefined) return;
    this.#ofClients++;
    call.session.callsInFlight++;
  }

  /** Calls may be ended while they are iterated. */
  values(): MapIterator<Call> {
    return this.#pending.values();
  }

  /** The call that the server knows by this id; one that was never sent it cannot know. */
  getWritten(wireId: unknown): Call | undefined {
    const call = this.#pending.get(wireId);
    return call?.state === "written" ? call : undefined;
  }

  /** Removes the call that an answer is for. */
  takeAnswered(wireId: unknown, hasResult: boolean): Call | undefined {
    const call = this.getWritten(wireId);
    if (call === undefined) return undefined;
    this.onEnded?.(call, true);
    this.#remove(call, hasResult);
    return call;
  }

  /** Why the call of a late answer was given up. */
  takeAbandoned(wireId: unknown): string | undefined {
    return this.#pending.takeAbandoned(wireId);
  }

  /**
   * Ends a call before its answer: tells the server where it may know of it (MCP 2025-11-25, basic/utilities/cancellation), and the
   * client where it still listens.
   *
   * @param cancellation the line for the server, where the client has written one itself.
   */
  giveUp(call: Call, reason: string, error?: SidecarError, cancellation?: string): void {
    const { wireId, method } = call;
    if (call.state === "written") {
      this.onEnded?.(call, false);
      this.#pending.abandon(wireId, reason, this.#nowMs());
      const params = { requestId: wireId, reason };
      this.#upstream.send(outgoing(cancellation ?? JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params })));
    } else {
      this.#held.remove(call);
      this.#upstream.withdraw(call);
    }
    this.#remove(call, false);
    this.#log.info({ method: shorten(method), requestId: wireId, reason, code: error?.code }, "request given up");
    if (error !== undefined) call.exchange.fail(error);
  }

  /** Ends the calls whose time is up. @returns the next deadline, or Infinity. */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const call of this.#pending.values()) {
      if (call.deadlineMs > nowMs) nextMs = Math.min(nextMs, call.deadlineMs);
      else this.timeOut(call);
    }
    return nextMs;
  }

  /** Ends a call whose time is up, however often that was renewed. */
  timeOut(call: Call): void {
    const takenMs = Math.round(call.deadlineMs - call.exchange.acceptedAtMs);
    this.giveUp(call, "timeout", requestTimedOut(call.method, takenMs, call.state === "written"));
  }

  /** Gives the calls that the server has a new time, within the limit of each. */
  extend(nowMs: number, timeoutMs: number): void {
    for (const call of this.#pending.values()) if (call.state === "written") extendDeadline(call, nowMs, timeoutMs);
  }

  /** Begins the answers of the server that are long in coming. @returns when the next one will be, or Infinity. */
  keepAlive(nowMs: number, silenceMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { exchange, state } of this.#pending.values()) {
      // One that is held may yet be answered 503, which an answer that has begun cannot be.
      const dueAtMs = state === "written" ? exchange.acceptedAtMs + silenceMs : nowMs + silenceMs;
      if (dueAtMs > nowMs) nextMs = Math.min(nextMs, dueAtMs);
      else exchange.keepAlive();
    }
    return nextMs;
  }

  /** The server is gone: ends the calls that it may have seen. @returns how many. */
  failWritten(describe: (call: Call) => SidecarError): number {
    let count = 0;
    for (const call of this.#pending.values()) {
      if (call.state !== "written") continue;
      count++;
      this.#remove(call, false);
      call.exchange.fail(describe(call));
    }
    this.#pending.forgetAbandoned();
    return count;
  }

  #remove(call: Call, hasResult: boolean): void {
    this.#pending.take(call.wireId);
    // Up to now its session was in use, however long ago its client was last heard of.
    if (call.session !== undefined) {
      this.#ofClients--;
      call.session.callsInFlight--;
      call.session.lastUsedAtMs = this.#nowMs();
    }
    call.onSettled?.(hasResult);
    if (this.#ofClients === 0) this.#onEmpty?.();
  }

  /** Resolves when no client awaits an answer. */
  whenEmpty(): Promise<void> {
    if (this.#ofClients === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
    });
  }
}

export function extendDeadline(call: Call, nowMs: number, timeoutMs: number): void {
  call.deadlineMs = Math.min(call.lastDeadlineMs, Math.max(call.deadlineMs, nowMs + timeoutMs));
}
