import type { SidecarError } from "../errors.ts";
import { type ClientMessage, readClientMessage } from "../jsonrpc/client-message.ts";
import { type Outgoing, outgoing } from "../jsonrpc/outgoing.ts";
import { progressTokenText, rewriteRequest } from "../jsonrpc/rewrite.ts";
import type { Log } from "../observability/log.ts";
import { type Call, type CarriedLine, isCarriedLine } from "./call.ts";
import { CallTable } from "./call-table.ts";
import { DeadlineSweep } from "./deadline-sweep.ts";
import type { Exchange } from "./exchange.ts";
import { overloaded, shorten, upstreamNotReady } from "./failures.ts";
import { type Held, HoldQueue } from "./hold-queue.ts";
import { type LaneLimits, MAX_RENEWED_TIMES } from "./lane-limits.ts";
import { OwnExchange } from "./own-exchange.ts";
import type { Session } from "./session.ts";
import type { Upstream } from "./upstream.ts";

export interface DispatchOptions {
  readonly upstream: Upstream;
  readonly limits: LaneLimits;
  readonly log: Log;
  readonly nowMs: () => number;
  /** Called with the rest when deadlines are due. @returns the next deadline, or Infinity. */
  readonly onDue: (nowMs: number) => number;
}

const TOO_MUCH_QUEUED = "too much is waiting to be read by it";

/** The way to the server: what goes out at once, what is held while the server is away, what is refused, and until when. */
export class Dispatch {
  readonly calls: CallTable;
  readonly #upstream: Upstream;
  readonly #limits: LaneLimits;
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #held: HoldQueue;
  readonly #sweep: DeadlineSweep;
  readonly #silence: DeadlineSweep;
  #isReady = false;

  constructor({ upstream, limits, log, nowMs, onDue }: DispatchOptions) {
    this.#upstream = upstream;
    this.#limits = limits;
    this.#log = log;
    this.#nowMs = nowMs;
    this.#held = new HoldQueue(limits.maxHeldRequests);
    this.calls = new CallTable({ upstream, held: this.#held, log, nowMs });
    this.#sweep = new DeadlineSweep(nowMs, (atMs) => {
      const nextMs = onDue(atMs);
      return Math.min(nextMs, this.calls.expire(atMs), this.#held.expire(atMs));
    });
    this.#silence = new DeadlineSweep(nowMs, (atMs) => this.calls.keepAlive(atMs, limits.streamAfterMs));
  }

  /** @returns why a request of this length cannot be taken now, if it cannot. */
  refusal(length: number): SidecarError | undefined {
    const { maxInFlight } = this.#limits;
    if (this.calls.size >= maxInFlight) return overloaded(`${maxInFlight} requests are in flight`);
    return this.roomError(length);
  }

  /** @returns why a line of this length cannot be taken now, if it cannot. */
  roomError(length: number): SidecarError | undefined {
    return this.#hasRoomFor(length) ? undefined : overloaded(TOO_MUCH_QUEUED);
  }

  /** Puts a request on its way. The exchange is failed where it can neither be sent nor held. */
  carry(session: Session | undefined, exchange: Exchange, request: ClientMessage, method: string, onSettled: Call["onSettled"]): void {
    const { requestTimeoutMs, holdTimeoutMs, streamAfterMs } = this.#limits;
    const wireId = this.calls.mintId();
    const text = rewriteRequest(request, wireId);
    const call: Call = {
      wireId,
      method,
      session,
      exchange,
      text,
      length: text.length,
      state: "queued",
      progressTokenText: progressTokenText(request),
      deadlineMs: exchange.acceptedAtMs + requestTimeoutMs,
      lastDeadlineMs: exchange.acceptedAtMs + requestTimeoutMs * MAX_RENEWED_TIMES,
      expiresAtMs: exchange.acceptedAtMs + holdTimeoutMs,
      onSettled,
      release: () => this.#send(call),
      expire: () => this.calls.giveUp(call, "not ready in time", this.notReady()),
    };
    if (!this.#isReady && !this.hold(call)) {
      exchange.fail(this.notReady());
      return onSettled?.(false);
    }
    this.calls.add(call);
    exchange.onDisconnect = () => this.calls.giveUp(call, "client disconnected");
    this.#sweep.watch(call.deadlineMs);
    this.#silence.watch(exchange.acceptedAtMs + streamAfterMs);
    if (this.#isReady) this.#send(call);
  }

  /** Carries a notification of a client. @returns why it cannot be taken, if it cannot. */
  carryNotification(text: string, method: string): SidecarError | undefined {
    const error = this.roomError(text.length);
    if (error !== undefined) return error;
    const line: CarriedLine = {
      text,
      length: text.length,
      state: "queued",
      expiresAtMs: this.#nowMs() + this.#limits.holdTimeoutMs,
      release: () => this.#upstream.send(line),
      expire: () => this.#log.warn({ method: shorten(method) }, "client notification dropped: the mcp server was not ready in time"),
    };
    if (this.#isReady) line.release();
    else if (!this.hold(line)) return this.notReady();
    return undefined;
  }

  /** Makes a request of the sidecar's own. */
  ask(method: string, params: object, onSettled: Call["onSettled"]): void {
    const request = readClientMessage(JSON.stringify({ jsonrpc: "2.0", id: 0, method, params }));
    const onFailed = (reason: string): void => this.#log.warn({ method, reason }, "own request failed");
    if (!("code" in request)) this.carry(undefined, new OwnExchange(this.#nowMs(), onFailed), request, method, onSettled);
  }

  /**
   * Sends a line that means nothing to the next generation. A server that does not read must not fill the memory with what it will
   * never read.
   *
   * @returns false where too much is unread, and nothing was sent.
   */
  sendOwn(text: string): boolean {
    if (!this.#hasRoomFor(text.length)) return false;
    this.#upstream.send(outgoing(text));
    return true;
  }

  /** Lets something wait for the server to be ready. @returns false when too much waits. */
  hold(entry: Held): boolean {
    const isHeld = this.#held.add(entry);
    if (isHeld) this.#sweep.watch(entry.expiresAtMs);
    return isHeld;
  }

  unhold(entry: Held): void {
    this.#held.remove(entry);
  }

  /** Makes sure that `onDue` is called then. */
  watch(deadlineMs: number): void {
    this.#sweep.watch(deadlineMs);
  }

  onReady(): void {
    this.#isReady = true;
    this.#held.releaseAll();
  }

  /** The server is gone; what it cannot have seen waits for the next one. */
  onLost(unwritten: readonly Outgoing[]): void {
    this.#isReady = false;
    const carried = unwritten.filter(isCarriedLine);
    const expiresAtMs = this.#nowMs() + this.#limits.holdTimeoutMs;
    for (const line of carried) line.expiresAtMs = expiresAtMs;
    this.#held.putBack(carried);
    if (carried.length > 0) this.#sweep.watch(expiresAtMs);
  }

  /** Ends everything that is held, and all timers. */
  close(): void {
    this.#held.expire(Number.POSITIVE_INFINITY);
    this.#sweep.close();
    this.#silence.close();
  }

  notReady(): SidecarError {
    return upstreamNotReady(this.#upstream.status(), Date.now());
  }

  /** A body, or a restart, may have taken all of the request's time: what nobody will wait for is not sent. */
  #send(call: Call): void {
    if (this.#nowMs() < call.deadlineMs) this.#upstream.send(call);
    else this.calls.timeOut(call);
  }

  #hasRoomFor(length: number): boolean {
    const queuedLength = this.#upstream.queuedLength + this.#held.queuedLength;
    return queuedLength === 0 || queuedLength + length <= this.#limits.maxQueuedBytes;
  }
}
