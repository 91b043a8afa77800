import { findMembers, stringOf } from "../json/read.ts";
import { shorten } from "../json/text.ts";
import { isSubset, kindsOf, offeredKinds } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode, type SidecarError } from "../mcp/errors.ts";
import { isAtLeast, type NotificationMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { messageToServer } from "../mcp/rewrite.ts";
import { listChanges, type SubscriptionFilter } from "../mcp/subscription-filter.ts";
import { withoutSubscriptionId } from "../mcp/translate.ts";
import type { ServerEra, UpstreamHandshake } from "../process/port.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import { SharedQuestions } from "./asking-calls.ts";
import { type ClientCall, errorAnswer, refuse, type RequestDecision } from "./call.ts";
import type { Calls } from "./calls.ts";
import { DesiredState, LegacyDriver, ModernDriver } from "./desired-state.ts";
import { ModernSessions } from "./modern-sessions.ts";
import { LIST_CHANGED, type PrivateSession } from "./private-session.ts";
import { UNKNOWN_TASK } from "./tasks.ts";
import type { ServerTools } from "./tools.ts";

/** The sidecar sends its own, or they have no meaning at a shared server. */
const NOT_CARRIED_NOTIFICATIONS: ReadonlySet<string> = new Set([
  "notifications/initialized",
  "notifications/progress",
  "notifications/roots/list_changed",
]);

/** A message of a shared server without a known recipient is dropped or rejected, never guessed. Each run of the server is of one era. */
export class Routing {
  readonly state = new DesiredState();
  /** True even if several sessions of the client share a private server. */
  readonly isOfOneClient: boolean;
  readonly asking: SharedQuestions | undefined;
  /** Requests that wait have the form of this era. */
  era: ServerEra;
  readonly #calls: Calls;
  readonly #tools: ServerTools;
  #private: PrivateSession | undefined;
  readonly #legacy: LegacyDriver;
  readonly #modern: ModernDriver;
  readonly #sessions: ModernSessions;
  #driver: LegacyDriver | ModernDriver;

  /**
   * @param era of the first run, as expected.
   * @param first the session that starts a private server.
   * @param onFree called when a server that may ask is free, or no longer is. Undefined for one that may not.
   */
  constructor(calls: Calls, tools: ServerTools, era: ServerEra = "legacy", first?: PrivateSession, onFree?: () => void) {
    [this.#calls, this.#tools, this.era, this.#private] = [calls, tools, era, first];
    this.isOfOneClient = first !== undefined;
    this.asking = onFree && new SharedQuestions(calls, onFree);
    this.#legacy = new LegacyDriver(calls, this.state, first !== undefined);
    this.#modern = new ModernDriver(calls, this.state, ({ lists }) => this.#onReopened(lists));
    this.#driver = era === "legacy" ? this.#legacy : this.#modern;
    this.#sessions = new ModernSessions(calls, this.state);
  }

  /** True while only one session has used a private server. */
  get isPrivate(): boolean {
    return this.#private !== undefined;
  }

  /** The server may not be able to answer while it waits for a client. */
  get isWaitingForClient(): boolean {
    return this.#private?.isAsked ?? this.#calls.queue.blocks.has("question");
  }

  share(): void {
    this.#private?.release();
    this.#private = undefined;
    this.#legacy.isPrivate = false;
    // A server that has asked for roots is not shared.
    this.state.haveRootsChanged = false;
  }

  onClientRequest(caller: Caller, request: RequestMessage, reply: Reply): RequestDecision | undefined {
    const { method, outline } = request;
    const isModern = this.era === "modern";
    // A server without sessions gets what sessions want in requests of the sidecar itself.
    if (isModern) this.#calls.sent.noteClient(caller.memory.holder);
    this.#private?.onRequest(method);
    if (method === "logging/setLevel") return this.#driver.setLevel(caller, outline.stringAt(Slot.level));
    if (method === "resources/subscribe") return this.#driver.subscribe(caller, outline.stringAt(Slot.uri));
    if (method === "resources/unsubscribe") return this.#driver.unsubscribe(caller, outline.stringAt(Slot.uri));
    if (isModern) return this.#sessions.decide(caller, request, reply);
    return !this.isOfOneClient && method.startsWith("tasks/") ? this.#checkTask(caller, request) : undefined;
  }

  /** @returns undefined if the server must not get it. */
  onClientNotification(notification: NotificationMessage): string | SidecarError | undefined {
    if (this.#private !== undefined) {
      if (notification.method === "notifications/roots/list_changed") this.state.haveRootsChanged = true;
      return this.#private.onNotification(notification);
    }
    // A server without sessions knows only cancellations, which the lane sends.
    if (this.era === "modern" || NOT_CARRIED_NOTIFICATIONS.has(notification.method)) return undefined;
    return messageToServer(notification);
  }

  onClientResponse(caller: Caller, response: ResponseMessage): SidecarError | undefined {
    if (this.#private !== undefined) return this.#private.onAnswer(response);
    // No request of a shared server with sessions reaches a client.
    return this.era === "legacy" ? undefined : this.#sessions.onAnswer(caller, response);
  }

  /** @returns false for a response that ends its call. */
  onUnfinished(call: ClientCall, response: ResponseMessage): boolean {
    return this.#sessions.onResponse(call, response);
  }

  onServerNotification(notification: NotificationMessage): void {
    const { method, outline } = notification;
    if (this.#private !== undefined) return this.#private.onServerNotification(notification);
    if (this.era === "legacy") {
      const isWithdrawal = method === "notifications/cancelled" && this.asking?.questions.withdraw(notification) !== undefined;
      return isWithdrawal ? undefined : this.#deliver(notification);
    }
    // A server ends a subscription by cancelling its request (MCP 2026-07-28, basic/utilities/cancellation).
    const cancelledId = method === "notifications/cancelled" ? outline.numberAt(Slot.requestId) : undefined;
    const id = outline.numberAt(Slot.subscriptionId) ?? cancelledId;
    if (id === undefined) return this.#deliver(notification);
    if (this.#modern.has(id)) {
      if (!this.#modern.onNotification(id, notification)) this.#deliver({ ...notification, text: withoutSubscriptionId(notification) });
      return;
    }
    const subscription = this.state.subscriptions.values().find(({ wireId }) => wireId === id);
    if (subscription === undefined) this.#calls.dropped.notification(method);
    else subscription.onNotification(notification);
  }

  onServerRequest(request: RequestMessage): void {
    const calls = this.#calls;
    const isPing = request.method === "ping" && this.era === "legacy";
    const kinds = kindsOf(request);
    if (!isPing && this.#private !== undefined) return this.#private.ask(request);
    if (this.asking !== undefined && kinds !== 0) return this.asking.onServerRequest(request);
    const reason = `${shorten(request.method)} is not available: several clients or sessions share this MCP server, and a request does not say for which it is`;
    const answer = isPing
      ? `{"jsonrpc":"2.0","id":${request.idText},"result":{}}`
      : errorAnswer(request.idText, JsonRpcErrorCode.MethodNotFound, reason);
    if (!calls.sendInternal(answer)) calls.dropped.request(request.method);
    if (!isPing) calls.dropped.question(request.method, "it is not known for which client it is");
    const [only, another] = isPing ? [] : calls.ofClients;
    const askable = another === undefined && calls.sent.hasOnePrincipal ? only?.reply.askable : undefined;
    if (askable !== undefined && !isSubset(kinds, askable.declared)) askable.missing |= offeredKinds(kinds);
  }

  /** Runs before any queued request is sent. */
  onReady(handshake: UpstreamHandshake): void {
    const { era, resultText } = handshake;
    this.era = era;
    this.#driver = era === "legacy" ? this.#legacy : this.#modern;
    this.#driver.onReady(handshake);
    for (const { memory } of this.state.subscribers) this.#calls.sent.noteClient(memory.holder);
    for (const subscription of this.state.subscriptions) {
      if (era === "modern") subscription.open();
      else subscription.end();
    }
    for (const caller of this.state.listeners) caller.onRestarted?.(era === "legacy" ? resultText : undefined);
    if (this.#private?.isInitialized !== false) this.#tools.onInitialized();
    this.asking?.assign();
  }

  onLost(): void {
    this.#private?.onLost();
    this.asking?.onLost();
    if (this.era === "modern") this.#modern.onLost();
  }

  /** @param initialize of a session. */
  onListener(caller: Caller, initialize?: RequestMessage): void {
    if (initialize !== undefined) this.#sessions.add(caller, initialize);
    this.state.listeners.add(caller);
    if (this.state.listeners.size === 1) this.#modern.update();
  }

  /** The caller's requests must be given up after this: a subscription may be in flight. */
  onCallerEnd(caller: Caller): void {
    this.#sessions.delete(caller);
    const unwatched = this.state.end(caller);
    // The server of a private session ends with it.
    if (this.#private !== undefined) this.#private.end();
    else if (this.era === "legacy") this.#legacy.onEnd(unwatched, caller);
    else if (unwatched.length > 0 || this.state.listeners.size === 0) this.#modern.update();
  }

  /** Changes may have been missed while the subscription was not open. */
  #onReopened(lists: SubscriptionFilter["lists"]): void {
    if (lists.has("tools")) this.#tools.onChanged();
    for (const text of listChanges(lists)) for (const caller of this.state.listeners) caller.deliverOnce?.(text);
  }

  /** A task of another principal does not exist; nor does an id that the server could read in another way. */
  #checkTask({ memory }: Caller, { method, text, outline }: RequestMessage): RequestDecision | undefined {
    // MCP 2025-11-25, basic/utilities/tasks: not allowed if the server cannot identify requestors. A client would see all tasks.
    if (method === "tasks/list")
      return refuse(JsonRpcErrorCode.MethodNotFound, "tasks/list is not available: this MCP server is shared by several clients");
    const { spans, double } = findMembers(text, outline.start(Slot.params), ["taskId"]);
    if (double !== undefined)
      return refuse(JsonRpcErrorCode.InvalidParams, '"taskId" is ambiguous in the params. The request was not sent.');
    const [span] = spans;
    const taskId = stringOf(text, span);
    if (span !== undefined && taskId === undefined)
      return refuse(JsonRpcErrorCode.InvalidParams, '"taskId" must be a string. The request was not sent.');
    const isForeign = this.#calls.tasks.owners.isOfOther(taskId, memory.holder);
    return isForeign ? refuse(JsonRpcErrorCode.InvalidParams, UNKNOWN_TASK) : undefined;
  }

  #deliver({ method, text, outline }: NotificationMessage): void {
    if (method === "notifications/message") return this.#deliverLog(text, outline.stringAt(Slot.level));
    let recipients: ReadonlySet<Caller> = new Set();
    if (LIST_CHANGED.test(method)) recipients = this.state.listeners;
    else if (method === "notifications/resources/updated") recipients = this.state.subscribersOf(outline.stringAt(Slot.uri));
    if (recipients.size === 0) this.#calls.dropped.notification(method);
    for (const caller of recipients) caller.deliverOnce?.(text);
  }

  /**
   * A log message does not name its request. It goes to the only client with calls in flight, on the stream of its call if there is just
   * one. Otherwise, and if the server has ever got something of another principal, it is dropped: it may be about earlier work.
   */
  #deliverLog(text: string, level: string | undefined): void {
    const calls = this.#calls;
    // A server without sessions logs only for requests that name a level.
    const mayLog = this.era === "modern" || this.state.level !== undefined;
    const inFlight = mayLog ? calls.ofClients.filter(({ reply }) => this.era === "legacy" || reply.logLevel !== undefined) : [];
    const [first, another] = inFlight;
    if (first === undefined || !calls.sent.hasOnePrincipal || inFlight.some(({ caller }) => caller !== first.caller))
      return calls.dropped.notification("notifications/message");
    const { caller, reply } = first;
    // Each request of a client without a session has a level of its own.
    if (!isAtLeast(level, reply.logLevel ?? this.state.levelOf(caller) ?? "")) return;
    if (another !== undefined || !reply.emit(text)) caller.deliver?.(text);
  }
}
