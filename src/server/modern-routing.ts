import { readCapabilities } from "../mcp/capabilities.ts";
import type { SidecarError } from "../mcp/errors.ts";
import { isAtLeast, type NotificationMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { listChanges, readFilter, type SubscriptionFilter, supportedPart } from "../mcp/subscription-filter.ts";
import type { MemoryAccount, MemoryHolder } from "../memory.ts";
import type { ServerEra, UpstreamHandshake } from "../process/port.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import type { ClientCall } from "./call.ts";
import type { Calls } from "./calls.ts";
import { upstreamChanged } from "./failures.ts";
import { ModernSessions } from "./modern-sessions.ts";
import type { Lane } from "./lane.ts";
import { LIST_CHANGED, refuseRequest, type RequestDecision, type Routing } from "./routing.ts";
import { withoutSubscriptionId } from "../mcp/translate.ts";
import { isInputRequired } from "../mcp/questions.ts";
import { SessionQuestions } from "./session-questions.ts";
import { SharedRouting } from "./shared-routing.ts";
import { LaneSubscription, ModernSubscription, type Subscription } from "./subscriptions.ts";

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
  readonly #sessions = new ModernSessions(() => this.#laneSubscription);
  readonly #questions: SessionQuestions;
  #laneSubscription: LaneSubscription | undefined;

  constructor(lane: Lane) {
    this.#lane = lane;
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
    if (this.#laneSubscription !== undefined) this.#open(opened, memory.holder);
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
      if (this.#laneSubscription?.has(subscriptionId) === true) return this.#onSubscribed(subscriptionId, notification);
      const subscription = this.#subscriptions.keys().find(({ wireId }) => wireId === subscriptionId);
      if (subscription !== undefined) return subscription.onNotification(notification);
    } else if (method === "notifications/message" && this.#deliverLog(text, outline.stringAt(Slot.level))) return;
    // The lane announces the lists of a new generation to sessions. Each subscription of a client does that by itself.
    else if (LIST_CHANGED.test(method)) return this.#sessions.deliverToAll(text);
    this.#lane.dropped.notification(method);
  }

  onServerRequest(request: RequestMessage): void {
    if (!this.#lane.calls.sendInternal(refuseRequest(request))) this.#lane.dropped.request(request.method);
  }

  onReady({ resultText, requestMeta }: UpstreamHandshake): void {
    const { calls, tools } = this.#lane;
    this.#sessions.onReady(resultText);
    const own = supportedPart({ lists: new Set(["tools"]), uris: new Set(), tasks: new Set() }, readCapabilities(resultText));
    const wanted = (): SubscriptionFilter => {
      const { lists, uris, tasks } = this.#sessions.filter;
      return { lists: own.lists.union(lists), uris, tasks };
    };
    const onReopened = ({ lists }: SubscriptionFilter): void => {
      // The server may have announced changes without a subscription.
      if (lists.has("tools")) tools.onChanged();
      for (const text of listChanges(lists)) this.#sessions.deliverToAll(text);
    };
    this.#laneSubscription = new LaneSubscription(this.#lane, requestMeta, wanted, onReopened);
    this.#laneSubscription.update();
    for (const caller of this.#sessions.subscribers) calls.noteClient(caller.memory.holder);
    for (const [subscription, holder] of this.#subscriptions) this.#open(subscription, holder);
    tools.onInitialized();
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
    this.#laneSubscription?.close();
    this.#laneSubscription = undefined;
    for (const subscription of this.#subscriptions.keys()) subscription.onLost();
  }

  onListener(caller: Caller, initialize?: RequestMessage): void {
    if (initialize !== undefined) this.#sessions.add(caller, initialize);
  }

  onCallerEnd(caller: Caller): void {
    this.#sessions.delete(caller);
  }

  #onSubscribed(subscriptionId: number, notification: NotificationMessage): void {
    const { method, text, outline } = notification;
    if (method === "notifications/subscriptions/acknowledged") {
      // It repeats the URIs of the sidecar's own filter, so it may be as long as that.
      const accepted = readFilter({ text, outline }, Number.POSITIVE_INFINITY);
      this.#laneSubscription?.onAcknowledged(subscriptionId, "uris" in accepted ? accepted.uris : new Set());
    } else if (method === "notifications/cancelled") this.#laneSubscription?.onCancelled(subscriptionId);
    else if (LIST_CHANGED.test(method)) {
      this.#sessions.deliverToAll(withoutSubscriptionId(notification));
    } else if (
      method !== "notifications/resources/updated" ||
      !this.#sessions.deliverUpdate(outline.stringAt(Slot.uri), withoutSubscriptionId(notification))
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
    this.#legacy = new SharedRouting(lane);
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
      calls.giveUpAll(queued.toArray(), "server era changed", (call) => upstreamChanged(call.method, call.isSent));
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
    this.#legacy.onListener(caller);
    super.onListener(caller, initialize);
  }

  override onCallerEnd(caller: Caller): void {
    this.#legacy.onCallerEnd(caller);
    super.onCallerEnd(caller);
  }
}
