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
  #onEmpty: (() => void) | undefined;

  constructor({ upstream, held, log, nowMs }: CallTableOptions) {
    this.#upstream = upstream;
    this.#held = held;
    this.#log = log;
    this.#nowMs = nowMs;
  }

  get size(): number {
    return this.#pending.size;
  }

  mintId(): number {
    return this.#pending.mintId();
  }

  add(call: Call): void {
    this.#pending.add(call.wireId, call);
  }

  /** Calls may be ended while they are iterated. */
  values(): MapIterator<Call> {
    return this.#pending.values();
  }

  /** Removes the call that an answer is for; a call that was never sent cannot have one. */
  takeAnswered(wireId: unknown): Call | undefined {
    const call = this.#pending.get(wireId);
    if (call?.state !== "written") return undefined;
    this.#remove(call);
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
      this.#pending.abandon(wireId, reason, this.#nowMs());
      const params = { requestId: wireId, reason };
      this.#upstream.send(outgoing(cancellation ?? JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params })));
    } else {
      this.#held.remove(call);
      this.#upstream.withdraw(call);
    }
    this.#remove(call);
    this.#log.info({ method: shorten(method), requestId: wireId, reason, code: error?.code }, "request given up");
    if (error !== undefined) call.exchange.fail(error);
  }

  /** Ends the calls whose time is up. @returns the next deadline, or Infinity. */
  expire(nowMs: number, timeoutMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const call of this.#pending.values()) {
      if (call.deadlineMs > nowMs) nextMs = Math.min(nextMs, call.deadlineMs);
      else this.giveUp(call, "timeout", requestTimedOut(call.method, timeoutMs, call.state === "written"));
    }
    return nextMs;
  }

  /** The server is gone: ends the calls that it may have seen. @returns how many. */
  failWritten(describe: (call: Call) => SidecarError): number {
    let count = 0;
    for (const call of this.#pending.values()) {
      if (call.state !== "written") continue;
      count++;
      this.#remove(call);
      call.exchange.fail(describe(call));
    }
    this.#pending.forgetAbandoned();
    return count;
  }

  #remove(call: Call): void {
    this.#pending.take(call.wireId);
    if (this.#pending.size === 0) this.#onEmpty?.();
  }

  /** Resolves when no call awaits an answer. */
  whenEmpty(): Promise<void> {
    if (this.#pending.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
    });
  }
}
