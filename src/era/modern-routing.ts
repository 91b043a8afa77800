import { readCapabilities } from "../lane/handshake/capabilities.ts";
import type { InitializeRules } from "../lane/handshake/initialize.ts";
import { sessionsUnsupported } from "../lane/failures.ts";
import { internalRequest } from "../lane/internal/internal-exchange.ts";
import type { RequestDecision, Routing, RoutingAccess } from "../lane/routing/routing.ts";
import { refuseRequest } from "../lane/routing/refused-requests.ts";
import type { MemoryAccount } from "../memory/memory-budget.ts";
import { isJsonObject, type NotificationMessage, type RequestMessage, Slot } from "../protocol/message.ts";
import type { UpstreamHandshake } from "../upstream/port.ts";
import { ListChangeWatch } from "./subscriptions/list-change-watch.ts";
import { isAtLeast } from "../protocol/log-level.ts";
import { ModernSubscription } from "./subscriptions/modern-subscription.ts";
import type { Subscription } from "./subscriptions/subscription.ts";

/** The memory of a subscription besides its request, and that of its request, whose URIs are kept as values too, for each UTF-16 unit. */
const SUBSCRIPTION_BYTES = 1024;
const FILTER_BYTES = 8;

const LIST_CHANGED = /^notifications\/(?:tools|prompts|resources)\/list_changed$/;

/** A server without sessions answers no `initialize`. */
const MODERN_INITIALIZE: InitializeRules = {
  timeoutMs: ({ holdTimeoutMs }) => holdTimeoutMs,
  isRefusalFinal: false,
  refusal: () => sessionsUnsupported(),
  answer: ({ protocolVersion }) => ({ protocolVersion, body: "" }),
  // Its clients rely on nothing that a handshake promised.
  capabilities: () => ({ protocolVersion: undefined, declared: {} }),
};

/** Routing for a server without sessions. Responses, progress and notifications of subscriptions name their recipient; nothing else does. */
export class ModernRouting implements Routing {
  readonly initialize = MODERN_INITIALIZE;
  readonly isWaitingForClient = false;
  readonly #access: RoutingAccess;
  readonly #onToolsChanged: () => void;
  readonly #subscriptions = new Set<ModernSubscription>();
  #watch: ListChangeWatch | undefined;
  #isReady = false;

  /** @param onToolsChanged called when the server has changed its tools. */
  constructor(access: RoutingAccess, onToolsChanged: () => void) {
    this.#access = access;
    this.#onToolsChanged = onToolsChanged;
  }

  /** Opens a client's subscription. @returns a function that ends it at the server; undefined if there is no memory for it. */
  subscribe(subscription: Subscription, request: RequestMessage, memory: MemoryAccount): ((reason: string) => void) | undefined {
    const { dispatch, nowMs } = this.#access;
    const reservation = memory.reserve("subscriptions", SUBSCRIPTION_BYTES + request.text.length * FILTER_BYTES);
    if (reservation === undefined) return undefined;
    const onEnd = (ended: ModernSubscription): void => void this.#subscriptions.delete(ended);
    const opened = new ModernSubscription({ subscription, request, dispatch, memory: reservation, nowMs: nowMs(), onEnd });
    this.#subscriptions.add(opened);
    if (this.#isReady) opened.open();
    return (reason) => opened.cancel(reason);
  }

  /** Ends all subscriptions gracefully, because the server cannot serve them any longer. */
  endSubscriptions(): void {
    for (const subscription of this.#subscriptions) subscription.end();
  }

  onClientRequest(): RequestDecision | undefined {
    return undefined;
  }

  onClientNotification(): undefined {
    // Notifications of clients have no effect without a session.
    return undefined;
  }

  onClientResponse(): undefined {
    // The server has asked nothing.
    return undefined;
  }

  onServerNotification(notification: NotificationMessage): void {
    const { method, text, outline } = notification;
    const subscriptionId = outline.numberAt(Slot.subscriptionId) ?? cancelledId(notification);
    if (subscriptionId !== undefined) {
      if (subscriptionId === this.#watch?.wireId) return this.#watch.onNotification(method);
      const subscription = this.#subscriptions.values().find(({ wireId }) => wireId === subscriptionId);
      if (subscription !== undefined) return subscription.onNotification(notification);
    } else if (method === "notifications/message" && this.#deliverLog(text, outline.stringAt(Slot.level))) return;
    // The lane announces the lists of a new generation. Each subscription does that by itself.
    else if (LIST_CHANGED.test(method)) return;
    this.#access.dropped.notification(method);
  }

  onServerRequest(request: RequestMessage): void {
    if (!this.#access.dispatch.sendInternal(refuseRequest(request))) this.#access.dropped.request(request.method);
  }

  onReady({ resultText, requestMeta }: UpstreamHandshake): void {
    this.#isReady = true;
    const { dispatch, nowMs, onInitialized } = this.#access;
    const { tools } = readCapabilities(resultText);
    if (isJsonObject(tools) && tools["listChanged"] === true) {
      const request = internalRequest("subscriptions/listen", { notifications: { toolsListChanged: true } }, requestMeta);
      this.#watch = new ListChangeWatch(dispatch, request, nowMs(), this.#onToolsChanged);
    }
    for (const subscription of this.#subscriptions) subscription.open();
    onInitialized();
  }

  /**
   * Delivers a log message to the only request that wants messages, because the message does not name its request. It may be about earlier
   * work of another client.
   */
  #deliverLog(text: string, level: string | undefined): boolean {
    const { calls } = this.#access.dispatch;
    const wanting = calls.values().filter(({ exchange, state }) => exchange.logLevel !== undefined && state === "written");
    const [only, another] = wanting.take(2).toArray();
    if (only?.origin !== "client" || another !== undefined || calls.hasUnseenWorkOfOthers(only.caller)) return false;
    return isAtLeast(level, only.exchange.logLevel ?? "") && only.exchange.emit(text);
  }

  onLost(): void {
    this.#isReady = false;
    this.#watch = undefined;
    for (const subscription of this.#subscriptions) subscription.onLost();
  }

  onListener(): void {
    // No session exists.
  }

  onCallerEnd(): void {
    // A caller has no state here.
  }

  expire(): number {
    return Number.POSITIVE_INFINITY;
  }
}

/** Returns the request that a server cancels: it ends a subscription in this way (MCP 2026-07-28, basic/utilities/cancellation). */
function cancelledId({ method, outline }: NotificationMessage): number | undefined {
  return method === "notifications/cancelled" ? outline.numberAt(Slot.requestId) : undefined;
}
