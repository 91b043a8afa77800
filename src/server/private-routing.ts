import { shorten } from "../json/text.ts";
import { JsonRpcErrorCode, type SidecarError } from "../mcp/errors.ts";
import { idTextOf, type NotificationMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { editsOf, messageToServer, notificationToClient, progressTokenText, requestToClient } from "../mcp/rewrite.ts";
import { type Reservation, textMemoryBytes } from "../memory.ts";
import { INITIALIZED } from "../process/handshake.ts";
import type { Caller } from "../session/session.ts";
import type { SessionStreams } from "../session/streams.ts";
import { Timer } from "../timers.ts";
import { MAX_RENEWED_TIMES, RequestIds, type RequestDecision } from "./call.ts";
import { answerElsewhere } from "./failures.ts";
import type { Lane } from "./lane.ts";
import { answerPing, cancellation, errorAnswer, LIST_CHANGED, type Routing } from "./routing.ts";
import { decideAbout, DesiredState, LegacyDriver } from "./desired-state.ts";
import { isCreateTaskResult, TaskTokens } from "./tasks.ts";

/** The maximum number of a server's requests that its client has not answered. */
const MAX_FORWARDED_REQUESTS = 1024;

/** A request of the server that its client has not answered. */
interface ForwardedRequest {
  /** The id for the client. */
  readonly id: number;
  /** The JSON text of the server's request id. */
  readonly idText: string;
  /** The JSON text of the server's progress token. */
  readonly progressTokenText: string | undefined;
  /** The end of the time in which the client may answer. */
  readonly timer: Timer;
}

/** Routing for a private server: every message is for its only client, or comes from it. */
export class PrivateRouting implements Routing {
  readonly isPrivate = true;
  readonly #lane: Lane;
  readonly #streams: SessionStreams;
  /** The memory of the `notifications/initialized` for the next generation. */
  readonly #kept: Reservation;
  readonly #onInitialized: (text: string) => void;
  /** By ids that are minted here, so that a late answer never matches a request of the next generation. */
  readonly #forwarded = new Map<unknown, ForwardedRequest>();
  readonly #ids = new RequestIds();
  /** The server's progress tokens, by the id of the request for the client. */
  readonly #taskTokens = new TaskTokens<string>();
  readonly state = new DesiredState();
  readonly #driver: LegacyDriver;
  #isReady = false;
  #isInitialized: boolean;
  #isOver = false;

  /**
   * @param streams those of the only client.
   * @param isInitialized true if the client has initialized its session at another replica, so that it does not send `notifications/initialized`.
   * @param onInitialized keeps the client's own `notifications/initialized`, for the next generation.
   */
  constructor(lane: Lane, streams: SessionStreams, isInitialized: boolean, onInitialized: (text: string) => void) {
    this.#lane = lane;
    this.#driver = new LegacyDriver(lane.calls, this.state, true);
    this.#streams = streams;
    this.#kept = streams.memory.hold("requests", 0);
    this.#onInitialized = onInitialized;
    this.#isInitialized = isInitialized;
  }

  get isWaitingForClient(): boolean {
    return this.#forwarded.size > 0;
  }

  onClientRequest(caller: Caller, request: RequestMessage): RequestDecision | undefined {
    // The client's own notification may have reached another replica, and a server may reject requests before it.
    if (!this.#isInitialized && request.method !== "ping") this.#initialize(INITIALIZED);
    return decideAbout(request, caller, this.#driver);
  }

  onClientNotification(notification: NotificationMessage): string | SidecarError | undefined {
    const { method } = notification;
    if (method === "notifications/progress") {
      const token = notification.outline.numberAt(Slot.progressToken);
      const tokenText = this.#forwarded.get(token)?.progressTokenText ?? this.#taskTokens.get(token);
      return tokenText === undefined ? undefined : messageToServer(notification, editsOf(notification, tokenText, Slot.progressToken));
    }
    if (method === "notifications/roots/list_changed") this.state.haveRootsChanged = true;
    const text = messageToServer(notification);
    return method === "notifications/initialized" ? this.#initialize(text) : text;
  }

  /** Sends a `notifications/initialized`, and keeps it for the next generation. */
  #initialize(text: string): SidecarError | undefined {
    const { calls, tools } = this.#lane;
    // A server that is starting gets this notification in its handshake. A line of this generation does not go to the next one.
    if (this.#isReady && !calls.sendInternal(text, this.#streams.memory)) return calls.inputRoomError(text);
    this.#kept.resize(textMemoryBytes(text));
    this.#onInitialized(text);
    this.#isInitialized = true;
    if (this.#isReady) tools.onInitialized();
    return undefined;
  }

  onClientResponse(_caller: Caller, response: ResponseMessage): SidecarError | undefined {
    const { calls, context } = this.#lane;
    const request = this.#forwarded.get(response.id);
    if (request === undefined) return this.#ids.has(response.id) ? undefined : answerElsewhere();
    const text = messageToServer(response, editsOf(response, request.idText, Slot.id));
    if (!calls.sendInternal(text, this.#streams.memory)) return calls.inputRoomError(text);
    this.#take(request);
    if (request.progressTokenText !== undefined && isCreateTaskResult(response))
      this.#taskTokens.keep(request.id, request.progressTokenText);
    calls.extend(context.nowMs());
    return undefined;
  }

  onServerNotification(notification: NotificationMessage): void {
    const { method, text, outline } = notification;
    // They are not related to a request, and so do not belong on a request's stream.
    if (LIST_CHANGED.test(method) || method === "notifications/resources/updated") this.#streams.emitOnce(text);
    else if (method === "notifications/cancelled") {
      const idText = outline.textAt(Slot.requestId);
      const request = this.#forwarded.values().find((each) => each.idText === idText);
      if (request === undefined) return this.#lane.dropped.notification(method);
      this.#take(request);
      this.#emit(notificationToClient(notification, Slot.requestId, String(request.id)));
    } else this.#emit(text);
  }

  onServerRequest(request: RequestMessage): void {
    const { calls, dropped } = this.#lane;
    if (request.method === "ping") {
      if (!calls.sendInternal(answerPing(request))) dropped.request(request.method);
    } else if (request.outline.isRepeated(Slot.id) || request.outline.isRepeated(Slot.method)) {
      // The client might use the other value.
      this.#refuse(request, JsonRpcErrorCode.InvalidRequest, "The id or the method of the request occurs twice");
    } else if (this.#forwarded.size >= MAX_FORWARDED_REQUESTS) {
      const reason = `The client already has ${MAX_FORWARDED_REQUESTS} requests to answer`;
      this.#refuse(request, JsonRpcErrorCode.ServerError, reason);
    } else this.#forward(request);
  }

  onReady(): void {
    if (this.#isOver) return;
    this.#isReady = true;
    this.#driver.onReady();
    if (this.#isInitialized) this.#lane.tools.onInitialized();
  }

  onLost(): void {
    this.#isReady = false;
    const forwarded = [...this.#forwarded.values()];
    this.#forgetForwarded();
    // The client may be asking a person.
    for (const { id } of forwarded) this.#emit(cancellation(id, "the MCP server has stopped"));
  }

  onListener(): void {
    // The streams of the only session are known already.
  }

  onCallerEnd(caller: Caller): void {
    this.#isOver = true;
    this.#forgetForwarded();
    this.state.end(caller);
    this.#kept.release();
  }

  #forward(request: RequestMessage): void {
    const { calls, dropped, context } = this.#lane;
    const { config, nowMs, timers } = context;
    const id = this.#ids.mint();
    const idText = idTextOf(request);
    const { method } = request;
    const timer = new Timer(timers, () => {
      this.#forwarded.delete(id);
      const reason = `The client did not answer ${shorten(method)} in time`;
      if (!calls.sendInternal(errorAnswer(idText, JsonRpcErrorCode.SessionOrTimeout, reason))) dropped.request(method);
      this.#emit(cancellation(id, "timeout"));
      calls.extend(nowMs());
    });
    timer.set(nowMs() + config.requestTimeoutMs * MAX_RENEWED_TIMES);
    this.#forwarded.set(id, { id, idText, progressTokenText: progressTokenText(request), timer });
    this.#emit(requestToClient(request, id));
  }

  #take({ id, timer }: ForwardedRequest): void {
    timer.clear();
    this.#forwarded.delete(id);
  }

  #forgetForwarded(): void {
    for (const request of this.#forwarded.values()) this.#take(request);
    this.#taskTokens.clear();
  }

  #refuse(request: RequestMessage, code: number, reason: string): void {
    const { calls, dropped } = this.#lane;
    if (!calls.sendInternal(errorAnswer(idTextOf(request), code, reason))) dropped.request(request.method);
  }

  /**
   * Sends a message on exactly one stream. With one request in flight, this is the stream of that request. With several, the message
   * could belong to any of them. A GET stream then takes it, or else the oldest request with a stream (MCP 2025-11-25, basic/transports).
   */
  #emit(text: string): void {
    // A message for the client cannot belong to a request of the sidecar.
    const inFlight = this.#lane.calls.ofClients.map(({ reply }) => reply);
    const listening = inFlight.filter(({ isListening }) => isListening);
    if (inFlight.length === 1 || !this.#streams.hasStandalone) {
      // A lost connection may be resumed later, but an open one reads the message now.
      const candidates = listening.length > 0 || this.#streams.hasStandalone ? listening : inFlight;
      if (candidates.some((reply) => reply.emit(text))) return;
    }
    this.#streams.emit(text);
  }
}
