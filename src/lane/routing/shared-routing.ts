import { findOnlyCaller } from "../calls/only-caller.ts";
import { findMembers, stringOf } from "../../json/find.ts";
import { UNKNOWN_TASK } from "../tasks/task-owners.ts";
import { JsonRpcErrorCode } from "../../protocol/error-codes.ts";
import { type NotificationMessage, type RequestMessage, Slot } from "../../protocol/message.ts";
import { messageToServer } from "../../protocol/rewrite.ts";
import { SHARED_INITIALIZE } from "../handshake/initialize.ts";
import { type RoutingAccess, type Routing, refuse, type RequestDecision } from "./routing.ts";
import type { CallLimits } from "../calls/call-limits.ts";
import { LogLevels } from "./log-levels.ts";
import { type InternalRequest, InternalRequests } from "../internal/internal-requests.ts";
import { answerPing, refuseRequest } from "./refused-requests.ts";
import type { Caller } from "../../sessions/caller.ts";
import type { UpstreamHandshake } from "../../upstream/port.ts";
import { subscriptionBytes, Subscriptions } from "./subscriptions.ts";

/** Client notifications that are not sent to a shared server. The sidecar sends its own, or they have no meaning there. */
const NOT_CARRIED_NOTIFICATIONS: ReadonlySet<string> = new Set([
  "notifications/initialized",
  "notifications/progress",
  "notifications/roots/list_changed",
]);

const LIST_CHANGED_NOTIFICATIONS: ReadonlySet<string> = new Set([
  "notifications/tools/list_changed",
  "notifications/prompts/list_changed",
  "notifications/resources/list_changed",
]);

const EMPTY_RESULT: RequestDecision = { kind: "answer", member: "result", text: "{}" };

/**
 * Answers a held request with an empty result if a later request has made it outdated. Callers take turns, so the server may get the
 * requests in another order than the sidecar did.
 */
function sendIf(isCurrent: () => boolean): CallLimits {
  return {
    check: (onVerdict) => {
      onVerdict(isCurrent() ? undefined : { resultText: "{}" });
      return () => {
        // The check is over already.
      };
    },
  };
}

/** Routing for a shared server. A message without a known recipient is dropped or rejected: the recipient is never guessed. */
export class SharedRouting implements Routing {
  readonly initialize = SHARED_INITIALIZE;
  readonly isWaitingForClient = false;
  protected readonly access: RoutingAccess;
  /** The callers that get each change of a list. */
  readonly #listeners = new Set<Caller>();
  readonly #levels = new LogLevels();
  readonly #subscriptions = new Subscriptions();
  readonly #requests: InternalRequests;
  #isReady = false;

  constructor(access: RoutingAccess) {
    this.access = access;
    this.#requests = new InternalRequests((method, params, onSettled) => access.dispatch.internal.ask(method, params, onSettled));
  }

  onClientRequest(caller: Caller, request: RequestMessage): RequestDecision | undefined {
    const { method, outline } = request;
    switch (method) {
      case "logging/setLevel":
        return this.#setLevel(caller, outline.stringAt(Slot.level));
      case "resources/subscribe":
        return this.#subscribe(caller, outline.stringAt(Slot.uri));
      case "resources/unsubscribe":
        return this.#unsubscribe(caller, outline.stringAt(Slot.uri));
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
    const isForeign = this.access.dispatch.calls.tasks.owners.isOfOther(taskId, memory.holder);
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
    if (LIST_CHANGED_NOTIFICATIONS.has(method)) {
      for (const caller of this.#listeners) caller.deliverOnce(text);
    } else if (method === "notifications/resources/updated") this.#onResourceUpdated(outline.stringAt(Slot.uri), text);
    else if (method === "notifications/message") this.#onLogMessage(outline.stringAt(Slot.level), text);
    else this.access.dropped.notification(method);
  }

  onServerRequest(request: RequestMessage): void {
    const { dispatch, dropped } = this.access;
    const isPing = request.method === "ping";
    if (!dispatch.sendInternal(isPing ? answerPing(request) : this.refusalOf(request))) dropped.request(request.method);
    const owner = isPing ? undefined : findOnlyCaller(dispatch);
    if (owner?.isOnly === true) owner.call.exchange.asking?.onRefused(request);
  }

  /** Returns the response to a request that no client answers. */
  protected refusalOf(request: RequestMessage): string {
    return refuseRequest(request);
  }

  onReady(_handshake: UpstreamHandshake): void {
    this.#isReady = true;
    this.#levels.forgetSentLevel();
    this.#sendPendingLevel();
    for (const request of this.#subscriptions.restart()) this.#ask(request);
    for (const { memory } of this.#subscriptions.callers) this.access.dispatch.noteClient(memory.holder);
    this.access.onInitialized();
  }

  /** Tells all listeners of a restarted server. @param initializeResult undefined if it has no sessions now. */
  onRestarted(initializeResult: string | undefined): void {
    for (const caller of this.#listeners) caller.onRestarted?.(initializeResult);
  }

  onLost(): void {
    this.#isReady = false;
    this.#requests.clear();
  }

  /** True if a caller gets the messages for all clients. */
  get hasListeners(): boolean {
    return this.#listeners.size > 0;
  }

  onListener(caller: Caller): void {
    this.#listeners.add(caller);
  }

  onCallerEnd(caller: Caller): void {
    this.#listeners.delete(caller);
    this.#levels.delete(caller);
    this.#sendPendingLevel();
    for (const uri of this.#subscriptions.deleteAll(caller)) {
      // The server may be busy, and get this later.
      const memory = this.#isReady ? caller.memory.hold("requests", subscriptionBytes(uri)) : undefined;
      this.#ask({ method: "resources/unsubscribe", params: { uri }, isCurrent: () => !this.#subscriptions.has(uri), memory });
    }
  }

  expire(_nowMs: number): number {
    return Number.POSITIVE_INFINITY;
  }

  #setLevel(caller: Caller, level: string | undefined): RequestDecision | undefined {
    const former = this.#levels.levelOf(caller);
    if (!this.#levels.set(caller, level)) return undefined;
    const pending = this.#levels.takePendingLevel();
    if (pending !== level) {
      this.#sendLevel(pending);
      return EMPTY_RESULT;
    }
    return {
      kind: "carry",
      limits: sendIf(() => this.#isSentLevel(level)),
      onSettled: (hasResult) => {
        if (hasResult) return;
        // The former level holds again, unless the caller has set another one meanwhile.
        if (this.#levels.levelOf(caller) === level && !this.#levels.set(caller, former)) this.#levels.delete(caller);
        this.#levels.forgetSentLevel();
      },
    };
  }

  #sendPendingLevel(): void {
    this.#sendLevel(this.#levels.takePendingLevel());
  }

  #sendLevel(level: string | undefined): void {
    if (level !== undefined) this.#ask({ method: "logging/setLevel", params: { level }, isCurrent: () => this.#isSentLevel(level) });
  }

  /** False if a later request has changed the level while the request with this level was queued. */
  #isSentLevel(level: string | undefined): boolean {
    return [level, undefined].includes(this.#levels.sentLevel);
  }

  /** Sends an internal request. Does nothing while no server is ready: the next generation gets the state of that time. */
  #ask(request: InternalRequest): void {
    if (this.#isReady) this.#requests.add(request);
  }

  #subscribe(caller: Caller, uri: string | undefined): RequestDecision | undefined {
    if (uri === undefined) return undefined;
    const request = this.#subscriptions.subscribe(caller, uri);
    if (typeof request === "string") return refuse(JsonRpcErrorCode.ServerError, request);
    const { isCurrent, onSettled } = request;
    if (!this.#subscriptions.isConfirmed(uri)) return { kind: "carry", onSettled, limits: sendIf(isCurrent) };
    onSettled(true);
    return EMPTY_RESULT;
  }

  #unsubscribe(caller: Caller, uri: string | undefined): RequestDecision | undefined {
    if (uri === undefined) return undefined;
    if (!this.#subscriptions.delete(caller, uri)) return EMPTY_RESULT;
    return { kind: "carry", limits: sendIf(() => !this.#subscriptions.has(uri)) };
  }

  #onResourceUpdated(uri: string | undefined, text: string): void {
    const subscribers = uri !== undefined ? this.#subscriptions.subscribers(uri) : new Set<Caller>();
    if (subscribers.size === 0) this.access.dropped.notification("notifications/resources/updated");
    for (const caller of subscribers) caller.deliverOnce(text);
  }

  /**
   * Delivers a log message, which does not name its request. It goes to the only caller with calls in flight, and on the stream of its
   * call if there is just one. It is dropped if several callers have calls in flight. It may also be about earlier work, so it is dropped
   * if the server has ever got something of another principal.
   */
  #onLogMessage(level: unknown, text: string): void {
    const owner = this.#levels.isEmpty ? undefined : findOnlyCaller(this.access.dispatch);
    if (owner === undefined) return this.access.dropped.notification("notifications/message");
    const { call, isOnly } = owner;
    if (this.#levels.wants(call.caller, level) && !(isOnly && call.exchange.emit(text))) call.caller.deliver(text);
  }
}
