import type { SidecarError } from "../errors.ts";
import type { ClientMessage } from "../jsonrpc/client-message.ts";
import type { OverlongLine } from "../jsonrpc/line-decoder.ts";
import type { JsonRpcId, Message, RequestMessage } from "../jsonrpc/message.ts";
import { type Outgoing, outgoing } from "../jsonrpc/outgoing.ts";
import { cancelledIdText, rewriteCancellation, rewriteRequest, rewriteResponseId, toOneLine } from "../jsonrpc/rewrite.ts";
import type { Log } from "../observability/log.ts";
import { type Call, type CarriedLine, isCarriedLine } from "./call.ts";
import { CallTable } from "./call-table.ts";
import { DeadlineSweep } from "./deadline-sweep.ts";
import { DropLog } from "./drop-log.ts";
import type { Exchange } from "./exchange.ts";
import {
  overloaded,
  requestTimedOut,
  responseTooLarge,
  sessionEnded,
  shorten,
  shuttingDown,
  upstreamExited,
  upstreamNotReady,
} from "./failures.ts";
import { type Held, HoldQueue } from "./hold-queue.ts";
import { answerInitialize } from "./initialize.ts";
import type { LaneLimits } from "./lane-limits.ts";
import { answerServerRequest } from "./server-requests.ts";
import type { Session } from "./session-store.ts";
import type { Upstream, UpstreamExit, UpstreamHandshake, UpstreamListener } from "./upstream.ts";

export interface LaneOptions {
  readonly upstream: Upstream;
  readonly limits: LaneLimits;
  readonly log: Log;
  readonly nowMs: () => number;
}

const TOO_MUCH_QUEUED = "too much is waiting to be read by it";

/** Notifications that a shared server must not hear as one of its clients sent them: they are the sidecar's to send, or mean nothing. */
const NOT_CARRIED_NOTIFICATIONS: ReadonlySet<string> = new Set([
  "notifications/cancelled",
  "notifications/initialized",
  "notifications/progress",
  "notifications/roots/list_changed",
]);

/** One supervised server, its id table, and everyone who uses it: here, the clients that declared no capabilities. */
export class Lane implements UpstreamListener {
  readonly #upstream: Upstream;
  readonly #limits: LaneLimits;
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #dropped: DropLog;
  readonly #held: HoldQueue;
  readonly #calls: CallTable;
  readonly #sweep: DeadlineSweep;
  #handshake: UpstreamHandshake | undefined;
  #isDraining = false;

  constructor({ upstream, limits, log, nowMs }: LaneOptions) {
    this.#upstream = upstream;
    this.#limits = limits;
    this.#log = log;
    this.#nowMs = nowMs;
    this.#dropped = new DropLog(log, nowMs);
    this.#held = new HoldQueue(limits.maxHeldRequests);
    this.#calls = new CallTable({ upstream, held: this.#held, log, nowMs });
    this.#sweep = new DeadlineSweep(nowMs, (atMs) => Math.min(this.#calls.expire(atMs, limits.requestTimeoutMs), this.#held.expire(atMs)));
  }

  /**
   * Answers `initialize` from the server's own handshake, with the revision that the client gets.
   *
   * @param open makes the session once there is an answer, and returns it in the exchange's headers.
   */
  initialize(exchange: Exchange, request: RequestMessage, open: (protocolVersion: string) => void): void {
    if (this.#isDraining) return exchange.fail(shuttingDown("initialize", false));
    const answer = (handshake: UpstreamHandshake): void => {
      const { protocolVersion, body } = answerInitialize(handshake, request, exchange.idText);
      open(protocolVersion);
      exchange.respond(body);
    };
    if (this.#handshake !== undefined) return answer(this.#handshake);
    const held = {
      length: 0,
      expiresAtMs: exchange.acceptedAtMs + this.#limits.holdTimeoutMs,
      release: () => this.#handshake !== undefined && answer(this.#handshake),
      expire: () => exchange.fail(this.#isDraining ? shuttingDown("initialize", false) : this.#notReady()),
    };
    exchange.onDisconnect = () => this.#held.remove(held);
    this.#hold(held, exchange);
  }

  /** Carries a request to the server; the exchange is finished with its answer, or with why there is none. */
  request(session: Session, exchange: Exchange, request: ClientMessage, method: string): void {
    const { requestTimeoutMs, holdTimeoutMs, maxInFlight } = this.#limits;
    if (this.#isDraining) return exchange.fail(shuttingDown(method, false));
    if (this.#calls.size >= maxInFlight) return exchange.fail(overloaded(`${maxInFlight} requests are in flight`));
    if (!this.#hasRoomFor(request.text.length)) return exchange.fail(overloaded(TOO_MUCH_QUEUED));
    const wireId = this.#calls.mintId();
    const text = rewriteRequest(request, wireId);
    const call: Call = {
      wireId,
      method,
      session,
      exchange,
      text,
      length: text.length,
      state: "queued",
      deadlineMs: exchange.acceptedAtMs + requestTimeoutMs,
      expiresAtMs: exchange.acceptedAtMs + holdTimeoutMs,
      release: () => this.#send(call),
      expire: () => this.#calls.giveUp(call, "not ready in time", this.#notReady()),
    };
    if (this.#handshake === undefined && !this.#hold(call, exchange)) return;
    this.#calls.add(call);
    exchange.onDisconnect = () => this.#calls.giveUp(call, "client disconnected");
    this.#sweep.watch(call.deadlineMs);
    if (this.#handshake !== undefined) this.#send(call);
  }

  /** Carries a notification of a client, where a shared server may hear it. @returns why it cannot be taken, if it cannot. */
  notify(session: Session, notification: ClientMessage, method: string): SidecarError | undefined {
    if (method === "notifications/cancelled") this.#cancel(session, notification);
    if (NOT_CARRIED_NOTIFICATIONS.has(method)) return undefined;
    if (!this.#hasRoomFor(notification.text.length)) return overloaded(TOO_MUCH_QUEUED);
    const text = toOneLine(notification.text);
    const line: CarriedLine = {
      text,
      length: text.length,
      state: "queued",
      expiresAtMs: this.#nowMs() + this.#limits.holdTimeoutMs,
      release: () => this.#upstream.send(line),
      expire: () => this.#log.warn({ method: shorten(method) }, "client notification dropped: the mcp server was not ready in time"),
    };
    if (this.#handshake !== undefined) line.release();
    else if (this.#held.add(line)) this.#sweep.watch(line.expiresAtMs);
    else return this.#notReady();
    return undefined;
  }

  /** The client has ended its session: what it still had running is cancelled. */
  endSession(session: Session): void {
    for (const call of this.#calls.values()) {
      if (call.session === session) this.#calls.giveUp(call, "session ended", sessionEnded(call.method, call.state === "written"));
    }
  }

  /** Refuses new requests from now on, and resolves when the last one in flight is answered. */
  drain(): Promise<void> {
    this.#isDraining = true;
    return this.#calls.whenEmpty();
  }

  /** Answers everything that is still in flight, and everything held. */
  close(): void {
    for (const call of this.#calls.values()) {
      this.#calls.giveUp(call, "shutdown", shuttingDown(call.method, call.state === "written"));
    }
    this.#held.expire(Number.POSITIVE_INFINITY);
    this.#sweep.close();
  }

  onReady(handshake: UpstreamHandshake): void {
    this.#handshake = handshake;
    this.#held.releaseAll();
  }

  onMessage(message: Message, text: string): void {
    if (message.kind === "response") this.#onResponse(message.id, text);
    else if (message.kind === "notification") this.#dropped.notification(message.method);
    else {
      const answer = answerServerRequest(message, text);
      // A server that asks and does not read must not fill the memory with what it will never read.
      if (this.#hasRoomFor(answer.length)) this.#upstream.send(outgoing(answer));
      else this.#dropped.request(message.method);
    }
  }

  onOverlongLine(line: OverlongLine): void {
    const id = line.hasMethod || line.idText === undefined ? undefined : Number(line.idText);
    const call = this.#calls.takeAnswered(id);
    this.#dropped.overlongLine(line, call);
    if (call !== undefined) call.exchange.fail(responseTooLarge(call.method, line.length, this.#limits.maxLineBytes));
    else if (!line.hasMethod) this.#dropped.answer(id, this.#calls.takeAbandoned(id));
  }

  onLost(exit: UpstreamExit, unwritten: readonly Outgoing[]): void {
    this.#handshake = undefined;
    const carried = unwritten.filter(isCarriedLine);
    const expiresAtMs = this.#nowMs() + this.#limits.holdTimeoutMs;
    for (const line of carried) line.expiresAtMs = expiresAtMs;
    this.#held.putBack(carried);
    if (carried.length > 0) this.#sweep.watch(expiresAtMs);
    const count = this.#calls.failWritten((call) => upstreamExited(call.method, exit));
    if (count > 0) this.#log.warn({ generation: exit.generation, count, reason: exit.reason }, "requests in flight failed");
  }

  #onResponse(id: JsonRpcId | undefined, text: string): void {
    const call = this.#calls.takeAnswered(id);
    if (call === undefined) this.#dropped.answer(id, this.#calls.takeAbandoned(id));
    else call.exchange.respond(rewriteResponseId(text, call.exchange.idText));
  }

  /** Several requests of one session may share an id; then nobody can tell which one is meant, and none is cancelled. */
  #cancel(session: Session, notification: ClientMessage): void {
    const idText = cancelledIdText(notification);
    const [call, another] = this.#calls.values().filter((each) => each.session === session && each.exchange.idText === idText);
    if (call === undefined || another !== undefined) {
      this.#log.debug({ method: "notifications/cancelled" }, "cancellation dropped: it names not exactly one request");
      return;
    }
    call.exchange.dismiss();
    this.#calls.giveUp(call, "cancelled by the client", undefined, rewriteCancellation(notification, call.wireId));
  }

  /** A body, or a restart, may have taken all of the request's time: what nobody will wait for is not sent. */
  #send(call: Call): void {
    if (this.#nowMs() < call.deadlineMs) this.#upstream.send(call);
    else this.#calls.giveUp(call, "timeout", requestTimedOut(call.method, this.#limits.requestTimeoutMs, false));
  }

  #hasRoomFor(length: number): boolean {
    const queuedLength = this.#upstream.queuedLength + this.#held.queuedLength;
    return queuedLength === 0 || queuedLength + length <= this.#limits.maxQueuedBytes;
  }

  #hold(entry: Held, exchange: Exchange): boolean {
    const isHeld = this.#held.add(entry);
    if (isHeld) this.#sweep.watch(entry.expiresAtMs);
    else exchange.fail(this.#notReady());
    return isHeld;
  }

  #notReady(): SidecarError {
    return upstreamNotReady(this.#upstream.status(), Date.now());
  }
}
