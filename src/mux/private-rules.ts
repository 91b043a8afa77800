import type { SidecarError } from "../errors.ts";
import type { ClientMessage } from "../jsonrpc/client-message.ts";
import { JsonRpcErrorCode } from "../jsonrpc/error-codes.ts";
import type { NotificationMessage, RequestMessage } from "../jsonrpc/message.ts";
import { toOneLine } from "../jsonrpc/rewrite.ts";
import { findMembers } from "../jsonrpc/splice.ts";
import type { Exchange } from "./exchange.ts";
import { shorten } from "./failures.ts";
import { cancellation, ForwardedRequests } from "./forwarded-requests.ts";
import { MAX_RENEWED_TIMES } from "./lane-limits.ts";
import type { InitializeAnswer, LaneAccess, LaneRules } from "./lane-rules.ts";
import { answerPing, errorAnswer, requestIdText } from "./refused-requests.ts";
import type { SessionStreams } from "./session-streams.ts";
import type { UpstreamHandshake } from "./upstream.ts";

/** What a server may have asked its client at the same time. */
const MAX_FORWARDED_REQUESTS = 1024;

/** Notifications that are about the server as a whole, and so belong on no request's stream. */
const UNRELATED_NOTIFICATIONS: ReadonlySet<string> = new Set([
  "notifications/tools/list_changed",
  "notifications/prompts/list_changed",
  "notifications/resources/list_changed",
  "notifications/resources/updated",
]);

export interface PrivateRulesOptions {
  /** Of the one session there is. */
  readonly streams: SessionStreams;
  readonly initializeTimeoutMs: number;
  /** Keeps the client's own `notifications/initialized`, for the next generation. */
  readonly onInitialized: (text: string) => void;
  /** The server has no client any more. */
  readonly onSessionEnd: () => void;
}

/** The rules of a server that a single client has for itself: everything is meant for that client, or comes from it. */
export class PrivateRules implements LaneRules {
  readonly initializeTimeoutMs: number;
  readonly isRefusalFinal = true;
  readonly #access: LaneAccess;
  readonly #streams: SessionStreams;
  readonly #onInitialized: (text: string) => void;
  readonly #onSessionEnd: () => void;
  readonly #forwarded = new ForwardedRequests();
  #isReady = false;

  constructor(access: LaneAccess, options: PrivateRulesOptions) {
    this.#access = access;
    this.#streams = options.streams;
    this.#onInitialized = options.onInitialized;
    this.#onSessionEnd = options.onSessionEnd;
    this.initializeTimeoutMs = options.initializeTimeoutMs;
  }

  get isWaitingForClient(): boolean {
    return this.#forwarded.size > 0;
  }

  answerInitialize({ resultText, protocolVersion }: UpstreamHandshake, _request: RequestMessage, idText: string): InitializeAnswer {
    return { protocolVersion, body: `{"jsonrpc":"2.0","id":${idText},"result":${resultText}}` };
  }

  onClientRequest(): undefined {
    return undefined;
  }

  onClientNotification(notification: ClientMessage, method: string): string | undefined {
    const text = toOneLine(notification.text);
    if (method === "notifications/progress") return this.#forwarded.progress(notification);
    if (method !== "notifications/initialized") return text;
    this.#onInitialized(text);
    // A server that is just being started gets it with its handshake; sent as a line of this generation, it is not sent to the next.
    if (this.#isReady) this.#access.dispatch.sendOwn(text);
    return undefined;
  }

  onClientResponse(response: ClientMessage): SidecarError | undefined {
    const { dispatch, nowMs, requestTimeoutMs } = this.#access;
    const error = dispatch.roomError(response.text.length);
    if (error !== undefined) return error;
    const answer = this.#forwarded.answer(response);
    if (answer === undefined) return undefined;
    dispatch.calls.extend(nowMs(), requestTimeoutMs);
    dispatch.sendOwn(answer);
    return undefined;
  }

  onServerNotification(notification: NotificationMessage, text: string): void {
    const { method } = notification;
    if (UNRELATED_NOTIFICATIONS.has(method)) this.#streams.emitOnce(text);
    else if (method === "notifications/cancelled") {
      const rewritten = this.#forwarded.cancel(notification, text);
      if (rewritten === undefined) this.#access.dropped.notification(method);
      else this.#emit(rewritten);
    } else this.#emit(text);
  }

  onServerRequest(request: RequestMessage, text: string): void {
    const { dispatch, dropped, nowMs, requestTimeoutMs } = this.#access;
    if (request.method === "ping") {
      if (!dispatch.sendOwn(answerPing(request, text))) dropped.request(request.method);
    } else if (findMembers(text, 0, ["id", "method"]).duplicate !== undefined) {
      // Its client might read the other one.
      this.#refuse(request, text, JsonRpcErrorCode.InvalidRequest, "A member of the request occurs twice");
    } else if (this.#forwarded.size >= MAX_FORWARDED_REQUESTS) {
      const reason = `The client has ${MAX_FORWARDED_REQUESTS} requests to answer already`;
      this.#refuse(request, text, JsonRpcErrorCode.ServerError, reason);
    } else {
      const deadlineMs = nowMs() + requestTimeoutMs * MAX_RENEWED_TIMES;
      this.#emit(this.#forwarded.add(request, text, deadlineMs));
      dispatch.watch(deadlineMs);
    }
  }

  onReady(): void {
    this.#isReady = true;
  }

  onLost(): void {
    this.#isReady = false;
    for (const text of this.#forwarded.cancelAll("the MCP server has stopped")) this.#emit(text);
  }

  onSession(): void {
    // There is one, and its streams are known.
  }

  onSessionEnd(): void {
    this.#forwarded.clear();
    this.#onSessionEnd();
  }

  expire(nowMs: number): number {
    return this.#forwarded.expire(nowMs, ({ id, idText, method }) => {
      const reason = `The client did not answer ${shorten(method)} in time`;
      this.#access.dispatch.sendOwn(errorAnswer(idText, JsonRpcErrorCode.SessionOrTimeout, reason));
      this.#emit(cancellation(id, "timeout"));
    });
  }

  #refuse(request: RequestMessage, text: string, code: number, reason: string): void {
    const { dispatch, dropped } = this.#access;
    if (!dispatch.sendOwn(errorAnswer(requestIdText(request, text), code, reason))) dropped.request(request.method);
  }

  /**
   * Sends a message on exactly one stream. With one request in flight it belongs to that one's; with several it could belong to any,
   * so a GET stream takes it, or else the oldest request that reads a stream (MCP 2025-11-25, basic/transports).
   */
  #emit(text: string): void {
    const inFlight: Exchange[] = [];
    for (const { state, exchange } of this.#access.dispatch.calls.values()) if (state === "written") inFlight.push(exchange);
    const listening = inFlight.filter(({ isListening }) => isListening);
    if (inFlight.length === 1 || !this.#streams.hasStandalone) {
      // A connection that is gone may come back, but one that is there reads it now.
      const candidates = listening.length > 0 || this.#streams.hasStandalone ? listening : inFlight;
      if (candidates.some((exchange) => exchange.emit(text))) return;
    }
    this.#streams.emit(text);
  }
}
