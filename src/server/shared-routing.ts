import { findMembers, stringOf } from "../json/find.ts";
import { isSubset, kindsOf, offeredKinds } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode, type SidecarError } from "../mcp/errors.ts";
import { type NotificationMessage, type RequestMessage, type ResponseMessage, Slot, isAtLeast } from "../mcp/message.ts";
import { messageToServer } from "../mcp/rewrite.ts";
import { type MemoryAccount, type MemoryHolder } from "../memory.ts";
import { type ServerEra, type UpstreamHandshake } from "../process/port.ts";
import { type Caller } from "../session/session.ts";
import { type ClientCall } from "./call.ts";
import { type Calls } from "./calls.ts";
import { type Lane } from "./lane.ts";
import { type RequestDecision, refuse } from "./call.ts";
import { LIST_CHANGED, type Routing, answerPing, refuseRequest } from "./routing.ts";
import { UNKNOWN_TASK } from "./tasks.ts";
import { type SubscriptionFilter, listChanges, readFilter } from "../mcp/subscription-filter.ts";
import { withoutSubscriptionId } from "../mcp/translate.ts";
import { type Reply } from "../session/reply.ts";
import { upstreamChanged } from "./failures.ts";
import { ModernSessions } from "./modern-sessions.ts";
import { isInputRequired } from "../mcp/questions.ts";
import { SessionQuestions } from "./session-questions.ts";
import { ModernSubscription, type Subscription } from "./subscriptions.ts";
import { DesiredState, LegacyDriver, ModernDriver } from "./desired-state.ts";

/**
 * Returns the oldest call of the only caller with calls in flight, and if it is its only call. Undefined if several callers have some, or none.
 * Undefined too if this generation has got anything of another principal: the server may still work for that one.
 */
function findOnlyCaller({ ofClients, hasOnePrincipal }: Calls): { readonly call: ClientCall; readonly isOnly: boolean } | undefined {
  const [oldest] = ofClients;
  if (oldest === undefined || !hasOnePrincipal || ofClients.some(({ caller }) => caller !== oldest.caller)) return undefined;
  return { call: oldest, isOnly: ofClients.length === 1 };
}

/** Client notifications that are not sent to a shared server. The sidecar sends its own, or they have no meaning there. */
const NOT_CARRIED_NOTIFICATIONS: ReadonlySet<string> = new Set([
  "notifications/initialized",
  "notifications/progress",
  "notifications/roots/list_changed",
]);

/** Routing for a shared server. A message without a known recipient is dropped or rejected: the recipient is never guessed. */
export class SharedRouting implements Routing {
  readonly isPrivate = false;
  readonly isWaitingForClient = false;
  protected readonly lane: Lane;
  readonly state: DesiredState;
  readonly #driver: LegacyDriver;

  constructor(lane: Lane, state = new DesiredState()) {
    this.lane = lane;
    this.state = state;
    this.#driver = new LegacyDriver(lane.calls, state);
  }

  onClientRequest(caller: Caller, request: RequestMessage): RequestDecision | undefined {
    const { method, outline } = request;
    switch (method) {
      case "logging/setLevel":
        return this.#driver.setLevel(caller, outline.stringAt(Slot.level));
      case "resources/subscribe":
        return this.#driver.subscribe(caller, outline.stringAt(Slot.uri));
      case "resources/unsubscribe":
        return this.#driver.unsubscribe(caller, outline.stringAt(Slot.uri));
      case "tasks/list":
        // MCP 2025-11-25, basic/utilities/tasks: not allowed if the server cannot identify requestors. A client would see all tasks.
        return refuse(JsonRpcErrorCode.MethodNotFound, "tasks/list is not available: this MCP server is shared by several clients");
      default:
        return method.startsWith("tasks/") ? this.#checkTask(caller, request) : undefined;
    }
  }

  /** Refuses the task of another principal as one that does not exist, and an id that the server could read in another way. */
  #checkTask({ memory }: Caller, { text, outline }: RequestMessage): RequestDecision | undefined {
    const params = outline.isObject(Slot.params) ? findMembers(text, outline.start(Slot.params), ["taskId"]) : undefined;
    if ((params?.duplicate ?? params?.otherCase) !== undefined)
      return refuse(JsonRpcErrorCode.InvalidParams, '"taskId" is ambiguous in the params. The request was not sent.');
    const [span] = params?.spans ?? [];
    const taskId = stringOf(text, span);
    if (span !== undefined && taskId === undefined)
      return refuse(JsonRpcErrorCode.InvalidParams, '"taskId" must be a string. The request was not sent.');
    const isForeign = this.lane.calls.tasks.owners.isOfOther(taskId, memory.holder);
    return isForeign ? refuse(JsonRpcErrorCode.InvalidParams, UNKNOWN_TASK) : undefined;
  }

  onClientNotification(notification: NotificationMessage): string | undefined {
    return NOT_CARRIED_NOTIFICATIONS.has(notification.method) ? undefined : messageToServer(notification);
  }

  onClientResponse(): undefined {
    // No request of a shared server reaches a client, so no response is expected.
    return undefined;
  }

  onServerNotification({ method, outline, text }: NotificationMessage): void {
    if (LIST_CHANGED.test(method)) {
      for (const caller of this.state.listeners) caller.deliverOnce(text);
    } else if (method === "notifications/resources/updated") this.#onResourceUpdated(outline.stringAt(Slot.uri), text);
    else if (method === "notifications/message") this.#onLogMessage(outline.stringAt(Slot.level), text);
    else this.lane.dropped.notification(method);
  }

  onServerRequest(request: RequestMessage): void {
    const { calls, dropped } = this.lane;
    const isPing = request.method === "ping";
    if (!calls.sendInternal(isPing ? answerPing(request) : refuseRequest(request))) dropped.request(request.method);
    const owner = isPing ? undefined : findOnlyCaller(calls);
    const askable = owner?.isOnly === true ? owner.call.reply.askable : undefined;
    const kinds = kindsOf(request);
    if (askable !== undefined && !isSubset(kinds, askable.declared)) askable.missing |= offeredKinds(kinds);
  }

  onReady(_handshake: UpstreamHandshake): void {
    this.#driver.onReady();
    this.lane.tools.onInitialized();
  }

  /** Tells all listeners of a restarted server. @param initializeResult undefined if it has no sessions now. */
  onRestarted(initializeResult: string | undefined): void {
    for (const caller of this.state.listeners) caller.onRestarted?.(initializeResult);
  }

  onListener(caller: Caller): void {
    this.state.addListener(caller);
  }

  onCallerEnd(caller: Caller): void {
    this.#driver.onEnd(caller, this.state.end(caller));
  }

  #onResourceUpdated(uri: string | undefined, text: string): void {
    const subscribers = uri !== undefined ? this.state.subscribersOf(uri) : new Set<Caller>();
    if (subscribers.size === 0) this.lane.dropped.notification("notifications/resources/updated");
    for (const caller of subscribers) caller.deliverOnce(text);
  }

  /**
   * Delivers a log message, which does not name its request. It goes to the only caller with calls in flight, and on the stream of its
   * call if there is just one. It is dropped if several callers have calls in flight. It may also be about earlier work, so it is dropped
   * if the server has ever got something of another principal.
   */
  #onLogMessage(level: string | undefined, text: string): void {
    const owner = this.state.level === undefined ? undefined : findOnlyCaller(this.lane.calls);
    if (owner === undefined) return this.lane.dropped.notification("notifications/message");
    const { call, isOnly } = owner;
    const { caller, reply } = call;
    if (!isAtLeast(level, this.state.levelOf(caller) ?? "")) return;
    // Each request of a client without a session has a level of its own.
    const isWanted = reply.logLevel === undefined || isAtLeast(level, reply.logLevel);
    if (!(isOnly && isWanted && reply.emit(text))) caller.deliver(text);
  }
}

/** The memory of a subscription besides its request, and that of its request, whose URIs are kept as values too, for each UTF-16 unit. */
const SUBSCRIPTION_BYTES = 1024;
const FILTER_BYTES = 8;

/** Routing for a server without sessions. Responses, progress and notifications of subscriptions name their recipient; nothing else does. */
export class ModernRouting implements Routing {
  readonly isPrivate = false;
  readonly isWaitingForClient = false;
  readonly #lane: Lane;
  /** The subscriptions of clients without a session, with the principal of each. */
  readonly #subscriptions = new Map<ModernSubscription, MemoryHolder>();
  readonly state = new DesiredState();
  readonly #driver: ModernDriver;
  readonly #sessions: ModernSessions;
  readonly #questions: SessionQuestions;
  #isReady = false;

  constructor(lane: Lane) {
    this.#lane = lane;
    const onReopened = ({ lists }: SubscriptionFilter): void => {
      // The server may have announced changes without a subscription.
      if (lists.has("tools")) lane.tools.onChanged();
      for (const text of listChanges(lists)) this.#deliverToAll(text);
    };
    this.#driver = new ModernDriver(lane.context, lane.calls, this.state, onReopened);
    this.#sessions = new ModernSessions(this.state, this.#driver);
    this.#questions = new SessionQuestions(lane);
  }

  /** Opens a client's subscription. @returns undefined if there is no memory for it. */
  subscribe(subscription: Subscription, request: RequestMessage, memory: MemoryAccount): ModernSubscription | undefined {
    const { calls, context } = this.#lane;
    const reservation = memory.reserve("subscriptions", SUBSCRIPTION_BYTES + request.text.length * FILTER_BYTES);
    if (reservation === undefined) return undefined;
    const onEnd = (ended: ModernSubscription): void => void this.#subscriptions.delete(ended);
    const opened = new ModernSubscription(context, calls, subscription, request, reservation, onEnd);
    this.#subscriptions.set(opened, memory.holder);
    if (this.#isReady) this.#open(opened, memory.holder);
    return opened;
  }

  /** Ends all subscriptions gracefully, because the server cannot serve them any longer. */
  endSubscriptions(): void {
    for (const subscription of this.#subscriptions.keys()) subscription.end();
  }

  #open(subscription: ModernSubscription, holder: MemoryHolder): void {
    this.#lane.calls.noteClient(holder);
    subscription.open();
  }

  onClientRequest(caller: Caller, request: RequestMessage, reply: Reply): RequestDecision | undefined {
    // The resources of sessions are in requests of the sidecar itself.
    this.#lane.calls.noteClient(caller.memory.holder);
    return this.#sessions.decide(caller, request, reply);
  }

  onClientNotification(_notification: NotificationMessage): string | undefined {
    // A server without sessions knows only cancellations, which the lane sends.
    return undefined;
  }

  onClientResponse(caller: Caller, response: ResponseMessage): SidecarError | undefined {
    return this.#questions.onAnswer(caller, response, this.#sessions.isAskable(caller));
  }

  onUnfinished(call: ClientCall, response: ResponseMessage): boolean {
    const question = isInputRequired(response) ? this.#sessions.repeatableOf(call.reply) : undefined;
    if (question === undefined) return false;
    this.#questions.onInputRequired(call, question, response);
    return true;
  }

  onServerNotification(notification: NotificationMessage): void {
    const { method, text, outline } = notification;
    // A server ends a subscription by cancelling its request (MCP 2026-07-28, basic/utilities/cancellation).
    const cancelledId = method === "notifications/cancelled" ? outline.numberAt(Slot.requestId) : undefined;
    const subscriptionId = outline.numberAt(Slot.subscriptionId) ?? cancelledId;
    if (subscriptionId !== undefined) {
      if (this.#driver.has(subscriptionId)) return this.#onSubscribed(subscriptionId, notification);
      const subscription = this.#subscriptions.keys().find(({ wireId }) => wireId === subscriptionId);
      if (subscription !== undefined) return subscription.onNotification(notification);
    } else if (method === "notifications/message" && this.#deliverLog(text, outline.stringAt(Slot.level))) return;
    // The lane announces the lists of a new generation to sessions. Each subscription of a client does that by itself.
    else if (LIST_CHANGED.test(method)) return this.#deliverToAll(text);
    this.#lane.dropped.notification(method);
  }

  onServerRequest(request: RequestMessage): void {
    if (!this.#lane.calls.sendInternal(refuseRequest(request))) this.#lane.dropped.request(request.method);
  }

  onReady(handshake: UpstreamHandshake): void {
    this.#isReady = true;
    this.#driver.onReady(handshake);
    for (const [subscription, holder] of this.#subscriptions) this.#open(subscription, holder);
    this.#lane.tools.onInitialized();
  }

  /**
   * Delivers a log message to the only request that wants messages, because the message does not name its request. It may be about earlier
   * work, so it is not delivered if the server has ever got something of another principal.
   */
  #deliverLog(text: string, level: string | undefined): boolean {
    const { calls } = this.#lane;
    const [only, another] = calls.ofClients.filter(({ reply }) => reply.logLevel !== undefined);
    if (only === undefined || another !== undefined || !calls.hasOnePrincipal) return false;
    if (!isAtLeast(level, only.reply.logLevel ?? "")) return false;
    if (only.reply.emit(text)) return true;
    if (!this.#sessions.has(only.caller)) return false;
    only.caller.deliver(text);
    return true;
  }

  onLost(): void {
    this.#isReady = false;
    this.#driver.onLost();
    for (const subscription of this.#subscriptions.keys()) subscription.onLost();
  }

  onListener(caller: Caller, initialize?: RequestMessage): void {
    if (initialize === undefined) return;
    this.#sessions.add(caller, initialize);
    const isFirst = !this.state.hasListeners;
    this.state.addListener(caller);
    if (isFirst) this.#driver.onListener();
  }

  onCallerEnd(caller: Caller): void {
    this.#sessions.delete(caller);
    this.#driver.onEnd(this.state.end(caller));
  }

  #deliverToAll(text: string): void {
    for (const caller of this.state.listeners) caller.deliverOnce(text);
  }

  /** @returns false if there are none. */
  #deliverUpdate(uri: string | undefined, text: string): boolean {
    const subscribers = uri === undefined ? new Set<Caller>() : this.state.subscribersOf(uri);
    for (const session of subscribers) session.deliverOnce(text);
    return subscribers.size > 0;
  }

  #onSubscribed(subscriptionId: number, notification: NotificationMessage): void {
    const { method, text, outline } = notification;
    if (method === "notifications/subscriptions/acknowledged") {
      // It repeats the URIs of the sidecar's own filter, so it may be as long as that.
      const accepted = readFilter({ text, outline }, Number.POSITIVE_INFINITY);
      this.#driver.onAcknowledged(subscriptionId, "uris" in accepted ? accepted.uris : new Set());
    } else if (method === "notifications/cancelled") this.#driver.onCancelled(subscriptionId);
    else if (LIST_CHANGED.test(method)) {
      this.#deliverToAll(withoutSubscriptionId(notification));
    } else if (
      method !== "notifications/resources/updated" ||
      !this.#deliverUpdate(outline.stringAt(Slot.uri), withoutSubscriptionId(notification))
    ) {
      this.#lane.dropped.notification(method);
    }
  }
}

/** Routing for the shared server, which is of either era. One generation has one era, and the next may have the other. */
export class AnyEraRouting extends ModernRouting {
  readonly #legacy: SharedRouting;
  readonly #calls: Calls;
  #era: ServerEra = "legacy";

  constructor(lane: Lane) {
    super(lane);
    this.#legacy = new SharedRouting(lane, this.state);
    this.#calls = lane.calls;
  }

  override onClientRequest(caller: Caller, request: RequestMessage, reply: Reply): RequestDecision | undefined {
    return this.#era === "legacy" ? this.#legacy.onClientRequest(caller, request) : super.onClientRequest(caller, request, reply);
  }

  override onClientNotification(notification: NotificationMessage): string | undefined {
    return this.#era === "legacy" ? this.#legacy.onClientNotification(notification) : super.onClientNotification(notification);
  }

  override onServerNotification(notification: NotificationMessage): void {
    if (this.#era === "legacy") this.#legacy.onServerNotification(notification);
    else super.onServerNotification(notification);
  }

  override onServerRequest(request: RequestMessage): void {
    if (this.#era === "legacy") this.#legacy.onServerRequest(request);
    else super.onServerRequest(request);
  }

  override onReady(handshake: UpstreamHandshake): void {
    if (handshake.era !== this.#era) {
      const calls = this.#calls;
      // Requests that wait have the form of the former server.
      const queued = calls.values().filter(({ kind, isWritten }) => kind === "client" && !isWritten);
      calls.giveUpAll(queued, "server era changed", (call) => upstreamChanged(call.method, call.isSent));
    }
    this.#era = handshake.era;
    if (handshake.era === "modern") {
      super.onReady(handshake);
      this.#legacy.onRestarted(undefined);
    } else {
      this.#legacy.onReady(handshake);
      this.endSubscriptions();
      this.#legacy.onRestarted(handshake.resultText);
    }
  }

  override onListener(caller: Caller, initialize?: RequestMessage): void {
    if (initialize === undefined) this.#legacy.onListener(caller);
    else super.onListener(caller, initialize);
  }

  override onCallerEnd(caller: Caller): void {
    if (this.#era === "legacy") this.#legacy.onCallerEnd(caller);
    super.onCallerEnd(caller);
  }
}
