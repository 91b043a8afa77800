import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { JsonRpcErrorCode, type SidecarError } from "../mcp/errors.ts";
import { type JsonRpcId, type NotificationMessage, type OverlongLine, type RequestMessage, type ResponseMessage } from "../mcp/message.ts";
import type { Counters } from "../observe/record.ts";
import { type Log, logLimiter } from "../observe/log.ts";
import type { ServerEra, UpstreamHandshake } from "../process/port.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import type { ClientCall, RequestDecision } from "./call.ts";
import type { DesiredState } from "./desired-state.ts";

/** Counts and logs dropped messages. A server can cause them at any rate, so only the first of each period is logged, with the count. */
export class DropLog {
  /** The number of questions that could not be assigned to a call. */
  unattributed = 0;
  readonly #counts: Counters["dropped"];
  readonly #log: Log;
  readonly #mayLog: () => boolean;

  constructor({ counters, log, nowMs }: Context) {
    this.#counts = counters.dropped;
    this.#log = log;
    this.#mayLog = logLimiter(nowMs);
  }

  /** @param reason the reason why its request was given up; undefined if there was no such request. */
  answer(id: JsonRpcId | undefined, reason: string | undefined): void {
    const count = reason === undefined ? ++this.#counts.unknownAnswers : ++this.#counts.lateAnswers;
    if (!this.#mayLog()) return;
    const fields = { requestId: typeof id === "string" ? shorten(id) : id, reason, count };
    if (reason === undefined) this.#log.warn(fields, "answer dropped: no such request");
    else this.#log.info(fields, "late answer dropped");
  }

  notification(method: string): void {
    this.#log.debug({ method: shorten(method), count: ++this.#counts.notifications }, "server notification dropped");
  }

  request(method: string): void {
    this.#log.debug({ method: shorten(method), count: ++this.#counts.requests }, "server request dropped: no room to queue the answer");
  }

  question(method: string, reason: string): void {
    this.#counts.questions++;
    if (this.#mayLog()) this.#log.info({ method: shorten(method), reason }, "server question refused");
  }

  overlongLine({ bytes, isForMemory }: OverlongLine, call: { readonly method: string; readonly wireId: number } | undefined): void {
    this.#counts.overlongLines++;
    if (!this.#mayLog()) return;
    const method = call === undefined ? undefined : shorten(call.method);
    const fields = { bytes, method, requestId: call?.wireId };
    if (isForMemory) this.#log.warn(fields, "stdout line discarded: the memory was full");
    else this.#log.warn(fields, "stdout line discarded: longer than the limit");
  }
}

/** The notifications of a change of a list, in all eras. */
export const LIST_CHANGED = /^notifications\/(?:tools|prompts|resources)\/list_changed$/;

/** Routing of messages between the server and its clients. It differs for a shared server and a private one. */
export interface Routing {
  /** True while a single session has used the server. Its messages are for that session. */
  readonly isPrivate: boolean;
  /** What the clients want of the server. */
  readonly state: DesiredState;
  /** @param reply gets what changes the response. @returns undefined if the request is just sent to the server. */
  onClientRequest(caller: Caller, request: RequestMessage, reply: Reply): RequestDecision | undefined;
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
  /** Returns the routing for several sessions, with the state of the first one. Only a private server can be shared. */
  shared?(): Routing;
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
  /** The era of the current or the last run. Requests that wait have its form. */
  readonly era: ServerEra;
}

/** Returns the sidecar's own answer to a server's `ping`. */
export function answerPing(request: RequestMessage): string {
  return `{"jsonrpc":"2.0","id":${request.idText},"result":{}}`;
}

/** Returns the error for a request of a shared server. An immediate error keeps the server from waiting. */
export function refuseRequest(request: RequestMessage): string {
  return errorAnswer(
    request.idText,
    JsonRpcErrorCode.MethodNotFound,
    `${shorten(request.method)} is not available: several clients or sessions share this MCP server, and a request does not say for which it is`,
  );
}

/** Returns the error for a request above the line limit. Without a response the server would wait forever. */
export function refuseOverlong(idText: string, bytes: number): string {
  return errorAnswer(idText, JsonRpcErrorCode.InvalidRequest, `The request is too long for the sidecar (${bytes} bytes) and was discarded`);
}

export function errorAnswer(idText: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify({ code, message })}}`;
}
