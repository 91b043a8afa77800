import { type ClientCall, isSent } from "../lane/calls/call.ts";
import { upstreamChanged } from "../lane/failures.ts";
import { SHARED_INITIALIZE, type InitializeRules } from "../lane/handshake/initialize.ts";
import type { RequestDecision, Routing, RoutingAccess } from "../lane/routing/routing.ts";
import { SharedRouting } from "../lane/routing/shared-routing.ts";
import type { SidecarError } from "../errors.ts";
import type { NotificationMessage, RequestMessage, ResponseMessage } from "../protocol/message.ts";
import type { Caller } from "../sessions/caller.ts";
import type { ServerEra, UpstreamHandshake } from "../upstream/port.ts";
import { ModernRouting } from "./modern-routing.ts";

/** Routing for the shared server, which is of either era. One generation has one era, and the next may have the other. */
export class AnyEraRouting implements Routing {
  readonly initialize: InitializeRules;
  readonly isWaitingForClient = false;
  readonly modern: ModernRouting;
  readonly #legacy: SharedRouting;
  readonly #access: RoutingAccess;
  readonly #onToolsChanged: () => void;
  #era: ServerEra = "legacy";

  /** @param onToolsChanged called when the server has changed its tools. */
  constructor(access: RoutingAccess, onToolsChanged: () => void) {
    this.#access = access;
    this.#onToolsChanged = onToolsChanged;
    this.modern = new ModernRouting(access, onToolsChanged);
    this.#legacy = new SharedRouting(access);
    this.initialize = {
      ...SHARED_INITIALIZE,
      answer: (handshake, ...initialize) => this.#of(handshake).initialize.answer(handshake, ...initialize),
      capabilities: (handshake) => this.#of(handshake).initialize.capabilities(handshake),
    };
  }

  onClientRequest(caller: Caller, request: RequestMessage): RequestDecision | undefined {
    return this.#current.onClientRequest(caller, request);
  }

  onClientNotification(notification: NotificationMessage): string | SidecarError | undefined {
    return this.#current.onClientNotification(notification);
  }

  onClientResponse(caller: Caller, response: ResponseMessage): SidecarError | undefined {
    return this.modern.onClientResponse(caller, response);
  }

  onUnfinished(call: ClientCall, response: ResponseMessage): boolean {
    return this.modern.onUnfinished(call, response);
  }

  onServerNotification(notification: NotificationMessage): void {
    if (this.#era === "legacy" && notification.method === "notifications/tools/list_changed") this.#onToolsChanged();
    this.#current.onServerNotification(notification);
  }

  onServerRequest(request: RequestMessage): void {
    this.#current.onServerRequest(request);
  }

  onReady(handshake: UpstreamHandshake): void {
    if (handshake.era !== this.#era) this.#giveUpQueued();
    this.#era = handshake.era;
    this.#onToolsChanged();
    this.#current.onReady(handshake);
    const isLegacy = handshake.era === "legacy";
    if (isLegacy) this.modern.endSubscriptions();
    this.#legacy.onRestarted(isLegacy ? handshake.resultText : undefined);
  }

  onLost(): void {
    this.modern.onLost();
    this.#legacy.onLost();
  }

  onListener(caller: Caller, initialize?: RequestMessage): void {
    this.#legacy.onListener(caller);
    this.modern.onListener(caller, initialize);
  }

  onCallerEnd(caller: Caller): void {
    this.#legacy.onCallerEnd(caller);
    this.modern.onCallerEnd(caller);
  }

  expire(nowMs: number): number {
    return this.modern.expire(nowMs);
  }

  /** Requests that wait have the form of the former server. */
  #giveUpQueued(): void {
    const { calls } = this.#access.dispatch;
    const queued = calls.values().filter(({ origin, state }) => origin === "client" && state === "queued");
    calls.giveUpAll(queued.toArray(), "server era changed", (call) => upstreamChanged(call.method, isSent(call)));
  }

  #of({ era }: UpstreamHandshake): Routing {
    return era === "modern" ? this.modern : this.#legacy;
  }

  get #current(): Routing {
    return this.#era === "legacy" ? this.#legacy : this.modern;
  }
}
