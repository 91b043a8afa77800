import { findMembers, stringOf } from "../json/find.ts";
import { isSubset, kindsOf, offeredKinds } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode, type SidecarError } from "../mcp/errors.ts";
import { isAtLeast, type NotificationMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { messageToServer } from "../mcp/rewrite.ts";
import { listChanges, type SubscriptionFilter } from "../mcp/subscription-filter.ts";
import { withoutSubscriptionId } from "../mcp/translate.ts";
import type { ServerEra, UpstreamHandshake } from "../process/port.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import { type ClientCall, refuse, type RequestDecision } from "./call.ts";
import { decideAbout, DesiredState, LegacyDriver, ModernDriver } from "./desired-state.ts";
import { SharedQuestions } from "./asking-calls.ts";
import type { Lane } from "./lane.ts";
import { ModernSessions } from "./modern-sessions.ts";
import { Questions } from "./questions.ts";
import { answerPing, LIST_CHANGED, refuseRequest, type Routing } from "./routing.ts";
import { UNKNOWN_TASK } from "./tasks.ts";

/** The maximum number of questions of one server that are not answered. */
const MAX_QUESTIONS = 64;

/** Client notifications that are not sent to a shared server. The sidecar sends its own, or they have no meaning there. */
const NOT_CARRIED_NOTIFICATIONS: ReadonlySet<string> = new Set([
  "notifications/initialized",
  "notifications/progress",
  "notifications/roots/list_changed",
]);

/**
 * Routing for a server that clients share. Each run of it is of one era. A message without a known recipient is dropped or rejected: the
 * recipient is never guessed.
 */
export class SharedRouting implements Routing {
  readonly isPrivate = false;
  readonly state: DesiredState;
  /** True if all sessions are of one client, so that a task is nobody else's. */
  readonly #isOfOneClient: boolean;
  /** Undefined if the server may not ask. */
  readonly asking: SharedQuestions | undefined;
  readonly #lane: Lane;
  /** That of the current or the last run. Requests that wait have its form. */
  era: ServerEra;
  readonly #legacy: LegacyDriver;
  readonly #modern: ModernDriver;
  readonly #sessions: ModernSessions;

  /**
   * @param era the one that is expected of the first run.
   * @param onFree called when a server that may ask has become free for other calls, or no longer is. Undefined if the server may not ask.
   * @param state that of the only session so far, for a server of one client.
   */
  constructor(lane: Lane, era: ServerEra = "legacy", onFree?: () => void, state?: DesiredState) {
    [this.#lane, this.era] = [lane, era];
    this.state = state ?? new DesiredState();
    this.#isOfOneClient = state !== undefined;
    const questions = new Questions(lane, MAX_QUESTIONS);
    this.asking = onFree && new SharedQuestions(questions, onFree);
    this.#legacy = new LegacyDriver(lane.calls, this.state);
    this.#modern = new ModernDriver(lane.context, lane.calls, this.state, ({ lists }) => this.#onReopened(lists));
    this.#sessions = new ModernSessions(questions, this.state);
  }

  get isWaitingForClient(): boolean {
    return this.#lane.calls.queue.blocks.has("question");
  }

  get #driver(): LegacyDriver | ModernDriver {
    return this.era === "legacy" ? this.#legacy : this.#modern;
  }

  onClientRequest(caller: Caller, request: RequestMessage, reply: Reply): RequestDecision | undefined {
    // What sessions want of a server without sessions is in requests of the sidecar itself.
    if (this.era === "modern") this.#lane.calls.noteClient(caller.memory.holder);
    const decision = decideAbout(request, caller, this.#driver);
    if (decision !== undefined || this.era === "legacy")
      return decision ?? (!this.#isOfOneClient && request.method.startsWith("tasks/") ? this.#checkTask(caller, request) : undefined);
    return this.#sessions.decide(caller, request, reply);
  }

  onClientNotification(notification: NotificationMessage): string | undefined {
    // A server without sessions knows only cancellations, which the lane sends.
    if (this.era === "modern" || NOT_CARRIED_NOTIFICATIONS.has(notification.method)) return undefined;
    return messageToServer(notification);
  }

  onClientResponse(caller: Caller, response: ResponseMessage): SidecarError | undefined {
    // No request of a server with sessions reaches a client.
    return this.era === "legacy" ? undefined : this.#sessions.onAnswer(caller, response);
  }

  onUnfinished(call: ClientCall, response: ResponseMessage): boolean {
    return this.#sessions.onResponse(call, response);
  }

  onServerNotification(notification: NotificationMessage): void {
    const { method, outline } = notification;
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
    if (subscription === undefined) this.#lane.dropped.notification(method);
    else subscription.onNotification(notification);
  }

  onServerRequest(request: RequestMessage): void {
    const kinds = kindsOf(request);
    if (this.asking !== undefined && kinds !== 0) return this.asking.onServerRequest(request);
    const { calls, dropped } = this.#lane;
    const isPing = request.method === "ping" && this.era === "legacy";
    if (!calls.sendInternal(isPing ? answerPing(request) : refuseRequest(request))) dropped.request(request.method);
    if (!isPing) dropped.question(request.method, "it is not known for which client it is");
    const [only, another] = isPing ? [] : calls.ofClients;
    const askable = another === undefined && calls.hasOnePrincipal ? only?.reply.askable : undefined;
    if (askable !== undefined && !isSubset(kinds, askable.declared)) askable.missing |= offeredKinds(kinds);
  }

  onReady(handshake: UpstreamHandshake): void {
    const { era, resultText } = handshake;
    this.era = era;
    this.#driver.onReady(handshake);
    for (const subscription of this.state.subscriptions) {
      if (era === "modern") subscription.open();
      else subscription.end();
    }
    for (const caller of this.state.listeners) caller.onRestarted?.(era === "legacy" ? resultText : undefined);
    this.#lane.tools.onInitialized();
    this.asking?.onReady();
  }

  onLost(): void {
    this.asking?.onLost();
    this.#modern.onLost();
  }

  onListener(caller: Caller, initialize?: RequestMessage): void {
    if (initialize !== undefined) this.#sessions.add(caller, initialize);
    this.state.listeners.add(caller);
    if (this.state.listeners.size === 1) this.#modern.update();
  }

  onCallerEnd(caller: Caller): void {
    this.#sessions.delete(caller);
    const unwatched = this.state.end(caller);
    if (this.era === "legacy") this.#legacy.onEnd(unwatched, caller);
    else if (unwatched.length > 0 || this.state.listeners.size === 0) this.#modern.update();
  }

  /** The server may have announced changes while the subscription of the sidecar was not open. */
  #onReopened(lists: SubscriptionFilter["lists"]): void {
    if (lists.has("tools")) this.#lane.tools.onChanged();
    for (const text of listChanges(lists)) for (const caller of this.state.listeners) caller.deliverOnce(text);
  }

  /** Refuses the task of another principal as one that does not exist, and an id that the server could read in another way. */
  #checkTask({ memory }: Caller, { method, text, outline }: RequestMessage): RequestDecision | undefined {
    // MCP 2025-11-25, basic/utilities/tasks: not allowed if the server cannot identify requestors. A client would see all tasks.
    if (method === "tasks/list")
      return refuse(JsonRpcErrorCode.MethodNotFound, "tasks/list is not available: this MCP server is shared by several clients");
    const params = outline.firstAt(Slot.params) === "{" ? findMembers(text, outline.start(Slot.params), ["taskId"]) : undefined;
    if (params?.double !== undefined)
      return refuse(JsonRpcErrorCode.InvalidParams, '"taskId" is ambiguous in the params. The request was not sent.');
    const [span] = params?.spans ?? [];
    const taskId = stringOf(text, span);
    if (span !== undefined && taskId === undefined)
      return refuse(JsonRpcErrorCode.InvalidParams, '"taskId" must be a string. The request was not sent.');
    const isForeign = this.#lane.calls.tasks.owners.isOfOther(taskId, memory.holder);
    return isForeign ? refuse(JsonRpcErrorCode.InvalidParams, UNKNOWN_TASK) : undefined;
  }

  /** Delivers a notification that names no client. */
  #deliver({ method, text, outline }: NotificationMessage): void {
    if (method === "notifications/message") return this.#deliverLog(text, outline.stringAt(Slot.level));
    let recipients: ReadonlySet<Caller> = new Set();
    if (LIST_CHANGED.test(method)) recipients = this.state.listeners;
    else if (method === "notifications/resources/updated") recipients = this.state.subscribersOf(outline.stringAt(Slot.uri));
    if (recipients.size === 0) this.#lane.dropped.notification(method);
    for (const caller of recipients) caller.deliverOnce(text);
  }

  /**
   * Delivers a log message, which does not name its request. It goes to the only client with calls in flight that it can be about, and on the
   * stream of its call if there is just one. Otherwise it is dropped, as it is if the server has ever got something of another principal: it may
   * be about earlier work.
   */
  #deliverLog(text: string, level: string | undefined): void {
    const { calls, dropped } = this.#lane;
    // A server without sessions logs only for requests that name a level.
    const mayLog = this.era === "modern" || this.state.level !== undefined;
    const inFlight = mayLog ? calls.ofClients.filter(({ reply }) => this.era === "legacy" || reply.logLevel !== undefined) : [];
    const [first, another] = inFlight;
    if (first === undefined || !calls.hasOnePrincipal || inFlight.some(({ caller }) => caller !== first.caller))
      return dropped.notification("notifications/message");
    const { caller, reply } = first;
    // Each request of a client without a session has a level of its own.
    if (!isAtLeast(level, reply.logLevel ?? this.state.levelOf(caller) ?? "")) return;
    if (another !== undefined || !reply.emit(text)) caller.deliver(text);
  }
}
