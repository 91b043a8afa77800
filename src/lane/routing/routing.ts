import type { SidecarError } from "../../errors.ts";
import type { Counters } from "../../observability/counters.ts";
import type { NotificationMessage, RequestMessage, ResponseMessage } from "../../protocol/message.ts";
import type { Dispatch } from "../dispatch.ts";
import type { ClientCall } from "../calls/call.ts";
import type { CallLimits } from "../calls/call-limits.ts";
import type { DropLog } from "./drop-log.ts";
import type { InitializeRules } from "../handshake/initialize.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import type { Caller } from "../../sessions/caller.ts";
import type { UpstreamHandshake } from "../../upstream/port.ts";

/** The parts of a lane that its routing may use. */
export interface RoutingAccess {
  readonly dispatch: Dispatch;
  readonly dropped: DropLog;
  readonly nowMs: () => number;
  readonly requestTimeoutMs: number;
  /** Must be called when `notifications/initialized` was sent. Before that, the server must not get requests. */
  readonly onInitialized: () => void;
}

/** The handling of a client's request. */
export type RequestDecision =
  /** Send it to the server within these limits, and report if it had a result. The limits of a tool call come from the policy instead. */
  | CarryDecision
  /** Answer it in the server's place, with this member after the id. `text` is the JSON text of its value. */
  | AnswerDecision;

interface AnswerDecision {
  readonly kind: "answer";
  readonly member: "result" | "error";
  readonly text: string;
}

interface CarryDecision {
  readonly kind: "carry";
  readonly onSettled?: (hasResult: boolean) => void;
  readonly limits?: CallLimits;
  /** The request in the form of the server; undefined if the server gets the client's. */
  readonly request?: RequestMessage;
  /** Returns the exchange that gives the client the response in its form. */
  readonly wrap?: (exchange: Exchange) => Exchange;
}

export function answerHere(counters: Counters, exchange: Exchange, { member, text }: AnswerDecision): void {
  counters.requests.accepted++;
  counters.countEnding(member === "result" ? "results" : "errors");
  exchange.respond(`{"jsonrpc":"2.0","id":${exchange.idText},"${member}":${text}}`);
}

export function refuse(code: number, message: string): RequestDecision {
  return { kind: "answer", member: "error", text: JSON.stringify({ code, message }) };
}

/** Routing of messages between the server and its clients. It differs for a shared server and a private one. */
export interface Routing {
  readonly initialize: InitializeRules;
  /** @returns undefined if the request is just sent to the server. */
  onClientRequest(caller: Caller, request: RequestMessage): RequestDecision | undefined;
  /** @returns the JSON text for the server; undefined if it must not get the notification; the error if the notification is rejected. */
  onClientNotification(notification: NotificationMessage): string | SidecarError | undefined;
  /** @returns the error if the response is rejected. */
  onClientResponse(caller: Caller, response: ResponseMessage): SidecarError | undefined;
  /**
   * Handles the server's response to a call, if it does not end the call: the call is suspended, or given up. Undefined for a server whose
   * responses end their calls.
   *
   * @returns false for a response that ends the call.
   */
  onUnfinished?(call: ClientCall, response: ResponseMessage): boolean;
  /** Called for all notifications except progress, which the lane handles. */
  onServerNotification(notification: NotificationMessage): void;
  onServerRequest(request: RequestMessage): void;
  /** Restores the former generation's state on the new one, before any queued request is sent. */
  onReady(handshake: UpstreamHandshake): void;
  onLost(): void;
  /** Adds a caller that gets the messages for all clients. @param initialize that of a session. */
  onListener(caller: Caller, initialize?: RequestMessage): void;
  /**
   * Removes the state of a session, or of a client without one. Its requests are given up after that, because the server may have a
   * subscription of one in flight.
   */
  onCallerEnd(caller: Caller): void;
  /** True if the server waits for a client's response, and so may not be able to answer. */
  readonly isWaitingForClient: boolean;
  /** @returns the next deadline, or Infinity. */
  expire(nowMs: number): number;
}
