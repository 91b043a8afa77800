import type { SidecarError } from "../errors.ts";
import type { ClientMessage } from "../jsonrpc/client-message.ts";
import type { OverlongLine } from "../jsonrpc/line-decoder.ts";
import type { Message, NotificationMessage, RequestMessage, ResponseMessage } from "../jsonrpc/message.ts";
import type { Outgoing } from "../jsonrpc/outgoing.ts";
import { rewriteResponseId } from "../jsonrpc/rewrite.ts";
import type { Log } from "../observability/log.ts";
import type { CallTable } from "./call-table.ts";
import { cancelByClient } from "./cancellation.ts";
import { Dispatch } from "./dispatch.ts";
import { DropLog } from "./drop-log.ts";
import type { Exchange } from "./exchange.ts";
import { responseTooLarge, sessionEnded, shuttingDown, upstreamExited } from "./failures.ts";
import type { LaneLimits } from "./lane-limits.ts";
import type { LaneAccess, LaneRules } from "./lane-rules.ts";
import { deliverProgress, deliverTaskProgress, keepTaskProgress, type ProgressOwner } from "./progress.ts";
import { refuseOverlong } from "./refused-requests.ts";
import type { Session, SessionLane } from "./session.ts";
import { isCreateTaskResult, TaskTokens } from "./task-tokens.ts";
import type { Upstream, UpstreamExit, UpstreamHandshake, UpstreamListener } from "./upstream.ts";

export interface LaneOptions {
  readonly upstream: Upstream;
  readonly limits: LaneLimits;
  readonly log: Log;
  readonly nowMs: () => number;
  readonly rules: (access: LaneAccess) => LaneRules;
}

/** An `initialize` that waits for the server, and what to do when there is no session to come. */
interface Initializing {
  readonly exchange: Exchange;
  readonly end: () => void;
}

/** One supervised server, its id table, and everyone who uses it. */
export class Lane implements SessionLane, UpstreamListener {
  readonly #limits: LaneLimits;
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #dropped: DropLog;
  readonly #dispatch: Dispatch;
  readonly #calls: CallTable;
  readonly #rules: LaneRules;
  readonly #taskTokens = new TaskTokens<ProgressOwner>();
  readonly #initializing = new Set<Initializing>();
  #handshake: UpstreamHandshake | undefined;
  #isDraining = false;

  constructor({ upstream, limits, log, nowMs, rules }: LaneOptions) {
    this.#limits = limits;
    this.#log = log;
    this.#nowMs = nowMs;
    this.#dropped = new DropLog(log, nowMs);
    const dispatch = new Dispatch({ upstream, limits, log, nowMs, onDue: (atMs) => this.#onDue(atMs) });
    this.#dispatch = dispatch;
    this.#calls = dispatch.calls;
    this.#rules = rules({ dispatch, dropped: this.#dropped, nowMs, requestTimeoutMs: limits.requestTimeoutMs });
  }

  /**
   * Answers `initialize` from the server's handshake, once it is done.
   *
   * @param length of the request's text, which is kept while it waits.
   * @param open makes the session once there is an answer, and returns it in the exchange's headers.
   * @param onFailed called where there will be no session.
   */
  initialize(
    exchange: Exchange,
    request: RequestMessage,
    length: number,
    open: (protocolVersion: string) => void,
    onFailed?: () => void,
  ): void {
    const fail = (error: SidecarError): void => {
      exchange.fail(error);
      onFailed?.();
    };
    if (this.#isDraining) return fail(shuttingDown("initialize", false));
    const answer = (handshake: UpstreamHandshake): void => {
      const { protocolVersion, body } = this.#rules.answerInitialize(handshake, request, exchange.idText);
      open(protocolVersion);
      exchange.respond(body);
    };
    if (this.#handshake !== undefined) return answer(this.#handshake);
    const held = {
      length,
      expiresAtMs: exchange.acceptedAtMs + this.#rules.initializeTimeoutMs,
      release: () => {
        this.#initializing.delete(initializing);
        if (this.#handshake !== undefined) answer(this.#handshake);
      },
      expire: () => {
        this.#initializing.delete(initializing);
        fail(this.#isDraining ? shuttingDown("initialize", false) : this.#dispatch.notReady());
      },
    };
    const end = (): void => {
      this.#initializing.delete(initializing);
      this.#dispatch.unhold(held);
      onFailed?.();
    };
    const initializing = { exchange, end };
    exchange.onDisconnect = end;
    const roomError = this.#dispatch.roomError(length);
    if (roomError !== undefined) return fail(roomError);
    if (!this.#dispatch.hold(held)) return fail(this.#dispatch.notReady());
    this.#initializing.add(initializing);
  }

  request(session: Session, exchange: Exchange, request: ClientMessage, method: string): void {
    const refusal = this.#isDraining ? shuttingDown(method, false) : this.#dispatch.refusal(request.text.length);
    if (refusal !== undefined) return exchange.fail(refusal);
    const rule = this.#rules.onClientRequest(session, request.message);
    if (rule?.kind === "answer") exchange.respond(`{"jsonrpc":"2.0","id":${exchange.idText},${rule.outcome}}`);
    else this.#dispatch.carry(session, exchange, request, method, rule?.onSettled);
  }

  notify(session: Session, notification: ClientMessage, method: string): SidecarError | undefined {
    if (method === "notifications/cancelled") cancelByClient(this.#dispatch, session, notification, this.#log);
    else {
      const text = this.#rules.onClientNotification(notification, method);
      if (text !== undefined) return this.#dispatch.carryNotification(text, method);
    }
    return undefined;
  }

  answer(response: ClientMessage): SidecarError | undefined {
    return this.#rules.onClientResponse(response);
  }

  addSession(session: Session): void {
    this.#rules.onSession(session);
  }

  endSession(session: Session): void {
    for (const call of this.#calls.values()) {
      if (call.session === session) this.#calls.giveUp(call, "session ended", sessionEnded(call.method, call.state === "written"));
    }
    this.#taskTokens.deleteWhere((owner) => owner.session === session);
    this.#rules.onSessionEnd(session);
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
    this.#dispatch.close();
  }

  onReady(handshake: UpstreamHandshake): void {
    this.#handshake = handshake;
    this.#dispatch.onReady();
    // Behind what was held, so that none of what the new server has to be told is refused for want of room to hold it.
    this.#rules.onReady(handshake);
  }

  onRefused(text: string): void {
    if (!this.#rules.isRefusalFinal) return;
    for (const { exchange, end } of this.#initializing) {
      exchange.respond(rewriteResponseId(text, exchange.idText));
      end();
    }
  }

  onMessage(message: Message, text: string): void {
    if (message.kind === "response") this.#onResponse(message, text);
    else if (message.kind === "notification") this.#onNotification(message, text);
    else this.#rules.onServerRequest(message, text);
  }

  onOverlongLine(line: OverlongLine): void {
    const id = line.hasMethod || line.idText === undefined ? undefined : Number(line.idText);
    const call = this.#calls.takeAnswered(id, false);
    this.#dropped.overlongLine(line, call);
    if (call !== undefined) call.exchange.fail(responseTooLarge(call.method, line.length, this.#limits.maxLineBytes));
    else if (!line.hasMethod) this.#dropped.answer(id, this.#calls.takeAbandoned(id));
    else if (line.idText !== undefined) this.#dispatch.sendOwn(refuseOverlong(line.idText, this.#limits.maxLineBytes));
  }

  onLost(exit: UpstreamExit, unwritten: readonly Outgoing[]): void {
    this.#handshake = undefined;
    this.#taskTokens.clear();
    this.#rules.onLost();
    this.#dispatch.onLost(unwritten);
    const count = this.#calls.failWritten((call) => upstreamExited(call.method, exit));
    if (count > 0) this.#log.warn({ generation: exit.generation, count, reason: exit.reason }, "requests in flight failed");
  }

  #onResponse({ id, error, result }: ResponseMessage, text: string): void {
    const call = this.#calls.takeAnswered(id, error === undefined);
    if (call === undefined) this.#dropped.answer(id, this.#calls.takeAbandoned(id));
    else {
      if (isCreateTaskResult(result)) keepTaskProgress(this.#taskTokens, call);
      call.exchange.respond(rewriteResponseId(text, call.exchange.idText));
    }
  }

  #onNotification(message: NotificationMessage, text: string): void {
    if (message.method !== "notifications/progress") return this.#rules.onServerNotification(message, text);
    const isDelivered = deliverProgress(this.#calls, message, text, this.#nowMs(), this.#limits.requestTimeoutMs);
    if (!isDelivered && !deliverTaskProgress(this.#taskTokens, message, text)) this.#dropped.notification(message.method);
  }

  #onDue(nowMs: number): number {
    // A person may be asked: the time that takes is not the server's.
    if (this.#rules.isWaitingForClient) this.#calls.extend(nowMs, this.#limits.requestTimeoutMs);
    return this.#rules.expire(nowMs);
  }
}
