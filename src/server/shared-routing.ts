import { findMembers, stringOf } from "../json/find.ts";
import { isSubset, kindsOf, offeredKinds } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode } from "../mcp/errors.ts";
import { isAtLeast, LOG_LEVELS as LEVELS, type NotificationMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import { messageToServer } from "../mcp/rewrite.ts";
import { type Reservation, textMemoryBytes } from "../memory.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import type { Caller } from "../session/session.ts";
import { type ClientCall, sendIf } from "./call.ts";
import type { Calls } from "./calls.ts";
import { SHARED_INITIALIZE } from "./initialize.ts";
import type { InternalRequest } from "./internal-calls.ts";
import type { Lane } from "./lane.ts";
import { answerPing, EMPTY_RESULT, LIST_CHANGED, refuse, refuseRequest, type RequestDecision, type Routing } from "./routing.ts";
import { UNKNOWN_TASK } from "./tasks.ts";

/** The log levels of a shared server's callers. The server gets the most verbose one; each caller gets messages from its level up. */
export class LogLevels {
  readonly #severities = new Map<Caller, number>();
  /** The number of callers of each severity: a search of all callers would cost more beside many idle ones. */
  readonly #counts = LEVELS.map(() => 0);
  /** The severity that the server was sent last; undefined if it is unknown. */
  #sentSeverity: number | undefined;

  /** @returns false if it is not a level, and was ignored. */
  set(caller: Caller, level = ""): boolean {
    const severity = LEVELS.indexOf(level);
    if (severity === -1) return false;
    this.delete(caller);
    this.#severities.set(caller, severity);
    this.#count(severity, 1);
    return true;
  }

  /** Returns the level of a caller; undefined if it has not set one. */
  levelOf(caller: Caller): string | undefined {
    return LEVELS[this.#severities.get(caller) ?? -1];
  }

  delete(caller: Caller): void {
    const severity = this.#severities.get(caller);
    if (severity === undefined) return;
    this.#severities.delete(caller);
    this.#count(severity, -1);
  }

  /** Returns the level to send to the server, and marks it as sent; undefined if the server has it already. */
  takePendingLevel(isNewServer = false): string | undefined {
    if (isNewServer) this.#sentSeverity = undefined;
    const wanted = this.#counts.findIndex(Boolean);
    if (wanted === -1 || wanted === this.#sentSeverity) return undefined;
    this.#sentSeverity = wanted;
    return LEVELS[wanted];
  }

  get sentLevel(): string | undefined {
    return LEVELS[this.#sentSeverity ?? -1];
  }

  /** Called if the server rejected the level. */
  forgetSentLevel(): void {
    this.#sentSeverity = undefined;
  }

  get isEmpty(): boolean {
    return this.#severities.size === 0;
  }

  wants(caller: Caller, level = ""): boolean {
    const least = this.#severities.get(caller);
    return least !== undefined && LEVELS.indexOf(level) >= least;
  }

  #count(severity: number, change: number): void {
    this.#counts[severity] = (this.#counts[severity] ?? 0) + change;
  }
}

/** The maximum number of subscriptions of one session. Above it, subscribe requests are rejected. */
const MAX_SUBSCRIPTIONS_PER_SESSION = 1024;
const TOO_MANY = `This client has ${MAX_SUBSCRIPTIONS_PER_SESSION} subscriptions, its limit; end some first`;
const NO_MEMORY = "The sidecar has no memory left for another subscription; end some first";
/** The memory of a subscription besides its URI. */
const SUBSCRIPTION_BYTES = 512;

interface Resource {
  /** True if the current generation has confirmed a subscription. */
  isConfirmed: boolean;
  /** By caller: if one of its subscribe requests had a result, and the number of those in flight. */
  readonly subscriptions: Map<Caller, { isConfirmed: boolean; requestsInFlight: number; readonly memory: Reservation }>;
}

/** The subscriptions of a server's callers. They are restored on each new generation. */
export class Subscriptions {
  readonly #byUri = new Map<string, Resource>();
  readonly #byCaller = new Map<Caller, Set<string>>();

  /**
   * Adds a subscription, which stays if any of its requests has a result.
   *
   * @returns two functions: `isCurrent` returns false if the caller has unsubscribed since. `onEnded` must be called at the end of the
   *   request, with false for an error. Returns the reason if the subscription is rejected.
   */
  subscribe(caller: Caller, uri: string): { readonly isCurrent: () => boolean; readonly onEnded: (hasResult: boolean) => void } | string {
    const uris = this.#byCaller.get(caller) ?? new Set();
    const known = this.#byUri.get(uri)?.subscriptions.get(caller);
    if (known === undefined && uris.size >= MAX_SUBSCRIPTIONS_PER_SESSION) return TOO_MANY;
    const memory = known?.memory ?? caller.memory.reserve("subscriptions", subscriptionBytes(uri));
    if (memory === undefined) return NO_MEMORY;
    this.#byCaller.set(caller, uris.add(uri));
    const resource: Resource = this.#byUri.get(uri) ?? { subscriptions: new Map(), isConfirmed: false };
    this.#byUri.set(uri, resource);
    const { subscriptions } = resource;
    const subscription = known ?? { isConfirmed: false, requestsInFlight: 0, memory };
    subscriptions.set(caller, subscription);
    subscription.requestsInFlight++;
    const isCurrent = (): boolean => subscriptions.get(caller) === subscription;
    const onEnded = (hasResult: boolean): void => {
      subscription.requestsInFlight--;
      if (!isCurrent()) return;
      if (hasResult) subscription.isConfirmed = resource.isConfirmed = true;
      else if (!subscription.isConfirmed && subscription.requestsInFlight === 0) this.delete(caller, uri);
    };
    return { isCurrent, onEnded };
  }

  /** The resources that any caller is subscribed to, or is subscribing to. */
  get uris(): ReadonlySet<string> {
    return new Set(this.#byUri.keys());
  }

  /** The callers that are subscribed to anything, or are subscribing. */
  get callers(): Iterable<Caller> {
    return this.#byCaller.keys();
  }

  has(uri: string): boolean {
    return this.#byUri.has(uri);
  }

  isConfirmed(uri: string): boolean {
    return this.#byUri.get(uri)?.isConfirmed === true;
  }

  /** Removes a subscription, independent of the server's response. @returns true if the resource has none left. */
  delete(caller: Caller, uri: string): boolean {
    const uris = this.#byCaller.get(caller);
    uris?.delete(uri);
    if (uris?.size === 0) this.#byCaller.delete(caller);
    const subscriptions = this.#byUri.get(uri)?.subscriptions;
    subscriptions?.get(caller)?.memory.release();
    subscriptions?.delete(caller);
    if (subscriptions !== undefined && subscriptions.size > 0) return false;
    this.#byUri.delete(uri);
    return true;
  }

  /** @returns the resources that have no subscribers left. */
  deleteAll(caller: Caller): string[] {
    return [...(this.#byCaller.get(caller) ?? [])].filter((uri) => this.delete(caller, uri));
  }

  /** Marks all resources as unconfirmed, for a new generation. @returns the requests that restore what former generations confirmed. */
  restart(): InternalRequest[] {
    const requests: InternalRequest[] = [];
    for (const [uri, resource] of this.#byUri) {
      resource.isConfirmed = false;
      if (!resource.subscriptions.values().some(({ isConfirmed }) => isConfirmed)) continue;
      requests.push({
        method: "resources/subscribe",
        params: { uri },
        isCurrent: () => this.#byUri.get(uri) === resource,
        onEnded: (hasResult) => (resource.isConfirmed ||= hasResult),
      });
    }
    return requests;
  }

  /** Returns the subscribers of the resource or of a parent in its hierarchy (MCP 2025-11-25, schema, ResourceUpdated). */
  subscribers(uri: string): ReadonlySet<Caller> {
    const found = new Set<Caller>();
    // Iterates over the subscriptions, which are bounded. The parts of a server's URI are not.
    for (const [subscribed, { subscriptions }] of this.#byUri) {
      if (!uri.startsWith(subscribed)) continue;
      const isCovered = uri.length === subscribed.length || subscribed.endsWith("/") || uri.charAt(subscribed.length) === "/";
      if (isCovered) for (const caller of subscriptions.keys()) found.add(caller);
    }
    return found;
  }
}

/** Returns the memory of a subscription to a resource, or of a request about one. */
function subscriptionBytes(uri: string): number {
  return SUBSCRIPTION_BYTES + textMemoryBytes(uri);
}

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
  readonly initialize = SHARED_INITIALIZE;
  readonly isWaitingForClient = false;
  protected readonly lane: Lane;
  /** The callers that get each change of a list. */
  readonly listeners = new Set<Caller>();
  readonly #levels = new LogLevels();
  readonly #subscriptions = new Subscriptions();

  constructor(lane: Lane) {
    this.lane = lane;
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
      for (const caller of this.listeners) caller.deliverOnce(text);
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
    this.#sendLevel(this.#levels.takePendingLevel(true));
    for (const request of this.#subscriptions.restart()) this.#ask(request);
    for (const { memory } of this.#subscriptions.callers) this.lane.calls.noteClient(memory.holder);
    this.lane.tools.onInitialized();
  }

  /** Tells all listeners of a restarted server. @param initializeResult undefined if it has no sessions now. */
  onRestarted(initializeResult: string | undefined): void {
    for (const caller of this.listeners) caller.onRestarted?.(initializeResult);
  }

  onListener(caller: Caller): void {
    this.listeners.add(caller);
  }

  onCallerEnd(caller: Caller): void {
    this.listeners.delete(caller);
    this.#levels.delete(caller);
    this.#sendLevel(this.#levels.takePendingLevel());
    for (const uri of this.#subscriptions.deleteAll(caller)) {
      // The server may be busy, and get this later.
      const memory = this.lane.calls.queue.isReady ? caller.memory.hold("requests", subscriptionBytes(uri)) : undefined;
      this.#ask({ method: "resources/unsubscribe", params: { uri }, isCurrent: () => !this.#subscriptions.has(uri), memory });
    }
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
      onEnded: (hasResult) => {
        if (hasResult) return;
        // The former level holds again, unless the caller has set another one meanwhile.
        if (this.#levels.levelOf(caller) === level && !this.#levels.set(caller, former)) this.#levels.delete(caller);
        this.#levels.forgetSentLevel();
      },
    };
  }

  #sendLevel(level: string | undefined): void {
    if (level === undefined) return;
    const onEnded = (hasResult: boolean): void => {
      // The next request for this level must reach the server.
      if (!hasResult) this.#levels.forgetSentLevel();
    };
    this.#ask({ method: "logging/setLevel", params: { level }, isCurrent: () => this.#isSentLevel(level), onEnded });
  }

  /** False if a later request has changed the level while the request with this level was queued. */
  #isSentLevel(level: string | undefined): boolean {
    return [level, undefined].includes(this.#levels.sentLevel);
  }

  /** Sends an internal request. Does nothing while no server is ready: the next generation gets the state of that time. */
  #ask(request: InternalRequest): void {
    if (this.lane.calls.queue.isReady) this.lane.calls.askInTurn(request);
  }

  #subscribe(caller: Caller, uri: string | undefined): RequestDecision | undefined {
    if (uri === undefined) return undefined;
    const request = this.#subscriptions.subscribe(caller, uri);
    if (typeof request === "string") return refuse(JsonRpcErrorCode.ServerError, request);
    const { isCurrent, onEnded } = request;
    if (!this.#subscriptions.isConfirmed(uri)) return { kind: "carry", onEnded, limits: sendIf(isCurrent) };
    onEnded(true);
    return EMPTY_RESULT;
  }

  #unsubscribe(caller: Caller, uri: string | undefined): RequestDecision | undefined {
    if (uri === undefined) return undefined;
    if (!this.#subscriptions.delete(caller, uri)) return EMPTY_RESULT;
    return { kind: "carry", limits: sendIf(() => !this.#subscriptions.has(uri)) };
  }

  #onResourceUpdated(uri: string | undefined, text: string): void {
    const subscribers = uri !== undefined ? this.#subscriptions.subscribers(uri) : new Set<Caller>();
    if (subscribers.size === 0) this.lane.dropped.notification("notifications/resources/updated");
    for (const caller of subscribers) caller.deliverOnce(text);
  }

  /**
   * Delivers a log message, which does not name its request. It goes to the only caller with calls in flight, and on the stream of its
   * call if there is just one. It is dropped if several callers have calls in flight. It may also be about earlier work, so it is dropped
   * if the server has ever got something of another principal.
   */
  #onLogMessage(level: string | undefined, text: string): void {
    const owner = this.#levels.isEmpty ? undefined : findOnlyCaller(this.lane.calls);
    if (owner === undefined) return this.lane.dropped.notification("notifications/message");
    const { call, isOnly } = owner;
    const { caller, reply } = call;
    if (!this.#levels.wants(caller, level)) return;
    // Each request of a client without a session has a level of its own.
    const isWanted = reply.logLevel === undefined || isAtLeast(level, reply.logLevel);
    if (!(isOnly && isWanted && reply.emit(text))) caller.deliver(text);
  }
}
