import { declares, readCapabilities } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode, SidecarError } from "../mcp/errors.ts";
import { isJsonObject, type JsonObject, LOG_LEVELS as LEVELS, type NotificationMessage } from "../mcp/message.ts";
import { ALL_LISTS, filterMembers, isSame, readFilter, type SubscriptionFilter, supportedPart } from "../mcp/subscription-filter.ts";
import { type Reservation, textMemoryBytes } from "../memory.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import type { Caller } from "../session/session.ts";
import { Timer } from "../timers.ts";
import {
  type Call,
  type CallCheck,
  EMPTY_RESULT,
  internalRequest,
  type InternalRequest,
  refuse,
  type RequestDecision,
  sendIf,
  unavailable,
} from "./call.ts";
import type { Calls } from "./calls.ts";
import type { ModernSubscription } from "./subscriptions.ts";

const MAX_URIS = 1024;
const TOO_MANY = `This client has ${MAX_URIS} subscriptions, its limit; end some first`;
const NO_MEMORY = "The sidecar has no memory left for another subscription; end some first";
const SUBSCRIPTION_BYTES = 512;

/** One notification stands for all changes that the former server was told of. */
const ROOTS_CHANGED = '{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}';

/** Levels are indexes of LEVELS. */
interface Wants {
  level: number | undefined;
  /** The newest that a server has accepted, and the number of its request. */
  accepted: { readonly level: number | undefined; readonly sequence: number };
  readonly uris: Set<string>;
}

interface Resource {
  isConfirmed: boolean;
  /** `isConfirmed` once one of the client's requests had a result. */
  readonly subscriptions: Map<Caller, { isConfirmed: boolean; requestsInFlight: number; readonly memory: Reservation }>;
}

/** What clients want of a server without a further request: logs, updates of resources, changes of lists. It outlives each process. */
export class DesiredState {
  haveRootsChanged = false;
  readonly listeners = new Set<Caller>();
  /** Subscriptions of clients without a session, at a server without sessions. */
  readonly subscriptions = new Set<ModernSubscription>();
  readonly #clients = new Map<Caller, Wants>();
  readonly #resources = new Map<string, Resource>();
  /** Clients by level: a search of all would cost more beside many idle ones. */
  readonly #counts = LEVELS.map(() => 0);
  #lastSequence = 0;

  get subscribers(): Iterable<Caller> {
    return this.#resources.values().flatMap(({ subscriptions }) => subscriptions.keys());
  }

  get uris(): ReadonlySet<string> {
    return new Set(this.#resources.keys());
  }

  get level(): string | undefined {
    return LEVELS[this.#counts.findIndex(Boolean)];
  }

  levelOf(caller: Caller): string | undefined {
    return LEVELS[this.#clients.get(caller)?.level ?? -1];
  }

  /**
   * @returns a function for the end of the request: after an error, the former level holds again, unless the client has asked for another
   *   one. Undefined if the name is not a level.
   */
  setLevel(caller: Caller, name = ""): ((isAccepted: boolean) => void) | undefined {
    const level = LEVELS.indexOf(name);
    if (level === -1) return undefined;
    const own = this.#of(caller);
    const sequence = ++this.#lastSequence;
    this.#changeLevel(own, level);
    return (isAccepted) => {
      if (isAccepted && sequence > own.accepted.sequence) own.accepted = { level, sequence };
      else if (!isAccepted && own.level === level) this.#changeLevel(own, own.accepted.level);
    };
  }

  /**
   * The subscription stays if any of the client's requests has a result.
   *
   * @returns `isCurrent`, false once the client has unsubscribed, and `onEnded` for the end of the request; or why it is rejected.
   */
  subscribe(caller: Caller, uri: string): { readonly isCurrent: () => boolean; readonly onEnded: (hasResult: boolean) => void } | string {
    const { uris } = this.#of(caller);
    const resource: Resource = this.#resources.get(uri) ?? { subscriptions: new Map(), isConfirmed: false };
    const { subscriptions } = resource;
    const known = subscriptions.get(caller);
    if (known === undefined && uris.size >= MAX_URIS) return TOO_MANY;
    const memory = known?.memory ?? caller.memory.reserve("subscriptions", subscriptionBytes(uri));
    if (memory === undefined) return NO_MEMORY;
    const subscription = known ?? { isConfirmed: false, requestsInFlight: 0, memory };
    uris.add(uri);
    this.#resources.set(uri, resource);
    subscriptions.set(caller, subscription);
    subscription.requestsInFlight++;
    const isCurrent = (): boolean => subscriptions.get(caller) === subscription;
    const onEnded = (hasResult: boolean): void => {
      subscription.requestsInFlight--;
      if (!isCurrent()) return;
      if (hasResult) subscription.isConfirmed = resource.isConfirmed = true;
      else if (!subscription.isConfirmed && subscription.requestsInFlight === 0) this.unsubscribe(caller, uri);
    };
    return { isCurrent, onEnded };
  }

  /** @returns true if no client is subscribed to the resource any more, whatever the server answers. */
  unsubscribe(caller: Caller, uri: string): boolean {
    this.#clients.get(caller)?.uris.delete(uri);
    const subscriptions = this.#resources.get(uri)?.subscriptions;
    subscriptions?.get(caller)?.memory.release();
    subscriptions?.delete(caller);
    if (subscriptions !== undefined && subscriptions.size > 0) return false;
    this.#resources.delete(uri);
    return true;
  }

  has(uri: string): boolean {
    return this.#resources.has(uri);
  }

  isConfirmed(uri: string): boolean {
    return this.#resources.get(uri)?.isConfirmed === true;
  }

  /** Updates of a child reach the subscribers of its parents too (MCP 2025-11-25, schema, ResourceUpdated). */
  subscribersOf(uri: string | undefined): ReadonlySet<Caller> {
    const found = new Set<Caller>();
    if (uri === undefined) return found;
    // Subscriptions are bounded. The parts of a server's URI are not.
    for (const [subscribed, { subscriptions }] of this.#resources) {
      if (!uri.startsWith(subscribed)) continue;
      const isCovered = uri.length === subscribed.length || subscribed.endsWith("/") || uri.charAt(subscribed.length) === "/";
      if (isCovered) for (const caller of subscriptions.keys()) found.add(caller);
    }
    return found;
  }

  end(caller: Caller): string[] {
    this.listeners.delete(caller);
    const own = this.#clients.get(caller);
    if (own === undefined) return [];
    this.#changeLevel(own, undefined);
    const unwatched = [...own.uris].filter((uri) => this.unsubscribe(caller, uri));
    this.#clients.delete(caller);
    return unwatched;
  }

  endSubscriptions(): void {
    for (const subscription of this.subscriptions) subscription.end();
    for (const caller of this.listeners) caller.onRestarted?.(undefined);
  }

  /** @returns the level that former servers have accepted, and the requests that restore at a new one what they have confirmed. */
  restart(): { readonly level: string | undefined; readonly requests: readonly InternalRequest[] } {
    const level = this.#clients.values().reduce((least, { accepted }) => Math.min(least, accepted.level ?? least), LEVELS.length);
    const requests: InternalRequest[] = [];
    for (const [uri, resource] of this.#resources) {
      resource.isConfirmed = false;
      if (!resource.subscriptions.values().some(({ isConfirmed }) => isConfirmed)) continue;
      requests.push({
        method: "resources/subscribe",
        params: { uri },
        isCurrent: () => this.#resources.get(uri) === resource,
        onEnded: (hasResult) => (resource.isConfirmed ||= hasResult),
      });
    }
    return { level: LEVELS[level], requests };
  }

  #of(caller: Caller): Wants {
    const known = this.#clients.get(caller);
    if (known !== undefined) return known;
    const added: Wants = { level: undefined, accepted: { level: undefined, sequence: 0 }, uris: new Set() };
    this.#clients.set(caller, added);
    return added;
  }

  #changeLevel(wants: Wants, level: number | undefined): void {
    if (wants.level !== undefined) this.#counts[wants.level] = (this.#counts[wants.level] ?? 0) - 1;
    if (level !== undefined) this.#counts[level] = (this.#counts[level] ?? 0) + 1;
    wants.level = level;
  }
}

function subscriptionBytes(uri: string): number {
  return SUBSCRIPTION_BYTES + textMemoryBytes(uri);
}

/**
 * Brings the desired state to a server with sessions: the most verbose level, the first subscription to a resource and the end of the last.
 * The client's own request is used if there is one.
 */
export class LegacyDriver {
  readonly #calls: Calls;
  readonly #state: DesiredState;
  /** A private server gets the client's requests even if they change nothing. */
  isPrivate: boolean;
  #sentLevel: string | undefined;

  constructor(calls: Calls, state: DesiredState, isPrivate: boolean) {
    [this.#calls, this.#state, this.isPrivate] = [calls, state, isPrivate];
  }

  setLevel(caller: Caller, level: string | undefined): RequestDecision | undefined {
    const state = this.#state;
    const onEnded = state.setLevel(caller, level);
    if (onEnded === undefined) return undefined;
    if (state.level !== level || (level === this.#sentLevel && !this.isPrivate)) {
      onEnded(true);
      this.#sendLevel();
      return EMPTY_RESULT;
    }
    this.#sentLevel = level;
    const isCurrent = (): boolean => {
      if (state.level !== level) return false;
      this.#sentLevel = level;
      return true;
    };
    return {
      kind: "carry",
      limits: sendIf(isCurrent),
      onEnded: (hasResult) => {
        onEnded(hasResult);
        this.#onLevelEnded(hasResult);
      },
    };
  }

  subscribe(caller: Caller, uri: string | undefined): RequestDecision | undefined {
    if (uri === undefined) return undefined;
    const subscribing = this.#state.subscribe(caller, uri);
    if (typeof subscribing === "string") return refuse(JsonRpcErrorCode.ServerError, subscribing);
    const { isCurrent, onEnded } = subscribing;
    if (this.isPrivate || !this.#state.isConfirmed(uri)) return { kind: "carry", onEnded, limits: sendIf(isCurrent) };
    onEnded(true);
    return EMPTY_RESULT;
  }

  unsubscribe(caller: Caller, uri: string | undefined): RequestDecision | undefined {
    if (uri === undefined) return undefined;
    if (!this.#state.unsubscribe(caller, uri)) return EMPTY_RESULT;
    return { kind: "carry", limits: sendIf(() => !this.#state.has(uri)) };
  }

  /** Requests that wait come after this, and may change it. */
  onReady(): void {
    const calls = this.#calls;
    const state = this.#state;
    const { level, requests } = state.restart();
    this.#sentLevel = level;
    if (level !== undefined) this.#ask({ method: "logging/setLevel", params: { level }, onEnded: this.#onLevelEnded });
    if (state.haveRootsChanged) calls.sendInternal(ROOTS_CHANGED);
    for (const request of requests) this.#ask(request);
  }

  /** @param unwatched the resources that only this client was subscribed to. */
  onEnd(unwatched: readonly string[], { memory }: Caller): void {
    this.#sendLevel();
    for (const uri of unwatched) {
      // The server may be busy, and get this later.
      const held = this.#calls.queue.isReady ? memory.hold("requests", subscriptionBytes(uri)) : undefined;
      this.#ask({ method: "resources/unsubscribe", params: { uri }, isCurrent: () => !this.#state.has(uri), memory: held });
    }
  }

  #sendLevel(): void {
    const { level } = this.#state;
    if (level === undefined || level === this.#sentLevel) return;
    this.#sentLevel = level;
    const isCurrent = (): boolean => this.#state.level === level;
    this.#ask({ method: "logging/setLevel", params: { level }, isCurrent, onEnded: this.#onLevelEnded });
  }

  /** After an error, the next request must reach the server. */
  readonly #onLevelEnded = (hasResult: boolean): void => {
    if (!hasResult) this.#sentLevel = undefined;
  };

  /** Without a server, the next one gets the state of that time. */
  #ask(request: InternalRequest): void {
    if (this.#calls.queue.isReady) this.#calls.requestInBackground(request);
  }
}

/** Pauses before a subscription is opened again that the server has ended. */
const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 5 * 60_000;

const NONE: ReadonlySet<string> = new Set();

interface Listening {
  readonly filter: SubscriptionFilter;
  accepted: ReadonlySet<string>;
  openedAtMs: number;
  call: Call | undefined;
}

/**
 * Brings the desired state to a server without sessions: one subscription has all that sessions want. If they want something else, the
 * former one ends when the server has acknowledged the new one, so no notification is lost (MCP 2026-07-28, basic/utilities/subscriptions).
 *
 * The server rejects a filter as a whole. New resources of a rejected one are tried one by one, so that each client gets its own answer.
 */
export class ModernDriver {
  readonly #calls: Calls;
  readonly #state: DesiredState;
  readonly #onReopened: (filter: SubscriptionFilter) => void;
  #handshake: UpstreamHandshake | undefined;
  #capabilities: JsonObject = {};
  #current: Listening | undefined;
  #next: Listening | undefined;
  /** Called with the answer about this URI: false if the server has rejected it. */
  readonly #waiting = new Map<(isAccepted: boolean) => void, string>();
  /** Tried again if a client subscribes to them. */
  readonly #rejectedUris = new Set<string>();
  #isCautious = false;
  #isInterrupted = false;
  #pauseMs = FIRST_PAUSE_MS;
  readonly #nextUpdate: Timer;
  readonly #overdue: Timer;

  /** @param onReopened called when a subscription is open again. */
  constructor(calls: Calls, state: DesiredState, onReopened: (filter: SubscriptionFilter) => void) {
    [this.#calls, this.#state, this.#onReopened] = [calls, state, onReopened];
    const { context } = calls;
    this.#nextUpdate = new Timer(context, () => this.update());
    this.#overdue = new Timer(context, () => {
      const next = this.#next;
      calls.endStream(next?.call, "not acknowledged in time");
      if (next !== undefined) this.#reject(next, true);
    });
  }

  setLevel(caller: Caller, level: string | undefined): RequestDecision {
    if (!isJsonObject(this.#capabilities["logging"])) return unavailable("logging/setLevel");
    const onEnded = this.#state.setLevel(caller, level);
    onEnded?.(true);
    return onEnded === undefined ? refuse(JsonRpcErrorCode.InvalidParams, `level must be a log level: ${LEVEL_NAMES}`) : EMPTY_RESULT;
  }

  /** The response follows the acknowledgement of the wider subscription, so no later update is missed. */
  subscribe(caller: Caller, uri: string | undefined): RequestDecision {
    if (!declares(this.#capabilities, "resources", "subscribe")) return unavailable("resources/subscribe");
    if (uri === undefined) return refuse(JsonRpcErrorCode.InvalidParams, "uri must be a string");
    const subscribing = this.#state.subscribe(caller, uri);
    if (typeof subscribing === "string") return refuse(JsonRpcErrorCode.ServerError, subscribing);
    const check: CallCheck = (onVerdict) => {
      const onDone = (isAccepted: boolean): void => {
        if (isAccepted) onVerdict({ resultText: "{}" });
        else onVerdict(new SidecarError("INVALID_PARAMS", "The MCP server has rejected the subscription to this resource."));
      };
      this.#rejectedUris.delete(uri);
      this.#waiting.set(onDone, uri);
      this.update();
      return () => this.#waiting.delete(onDone);
    };
    const onEnded = (hasResult: boolean): void => {
      subscribing.onEnded(hasResult);
      if (!hasResult) this.update();
    };
    return { kind: "carry", onEnded, limits: { check } };
  }

  unsubscribe(caller: Caller, uri: string | undefined): RequestDecision {
    if (uri === undefined) return refuse(JsonRpcErrorCode.InvalidParams, "uri must be a string");
    if (this.#state.has(uri) && this.#state.unsubscribe(caller, uri)) this.update();
    return EMPTY_RESULT;
  }

  onReady(handshake: UpstreamHandshake): void {
    this.#handshake = handshake;
    this.#capabilities = readCapabilities(handshake.resultText);
    this.#rejectedUris.clear();
    [this.#isCautious, this.#isInterrupted, this.#pauseMs] = [false, false, FIRST_PAUSE_MS];
    this.update();
  }

  onLost(): void {
    this.#handshake = undefined;
    this.#waiting.clear();
    this.#nextUpdate.clear();
    this.#overdue.clear();
    [this.#current, this.#next] = [undefined, undefined];
  }

  has(wireId: number): boolean {
    return wireId === this.#current?.call?.wireId || wireId === this.#next?.call?.wireId;
  }

  onNotification(wireId: number, { method, text, outline }: NotificationMessage): boolean {
    if (method === "notifications/cancelled") {
      const ended = [this.#current, this.#next].find((each) => each?.call?.wireId === wireId);
      // The call would stay open otherwise, because the server sends no response.
      this.#calls.endStream(ended?.call, "ended by the server");
      if (ended !== undefined) this.#onListenEnd(ended, true);
    } else if (method === "notifications/subscriptions/acknowledged") {
      // It repeats the URIs of the sidecar's own filter, so it may be as long as that.
      const accepted = readFilter({ text, outline }, Infinity);
      if (wireId === this.#next?.call?.wireId) this.#onAcknowledged(this.#next, "uris" in accepted ? accepted.uris : NONE);
    } else return false;
    return true;
  }

  #onAcknowledged(next: Listening, accepted: ReadonlySet<string>): void {
    this.#endCurrent("replaced by another subscription");
    next.accepted = next.filter.uris.intersection(accepted);
    next.openedAtMs = this.#calls.context.nowMs();
    this.#current = next;
    this.#next = undefined;
    if (this.#isInterrupted) this.#onReopened(next.filter);
    this.#isInterrupted = false;
    this.update();
  }

  /** Does nothing while no server is ready. */
  update(): void {
    if (this.#handshake === undefined) return;
    // Only two are open at a time. Later changes come with the next one.
    if (this.#next === undefined) {
      const filter = this.#nextFilter();
      if (filter.lists.size + filter.uris.size === 0) this.#endCurrent("nothing is subscribed");
      else if (!isSame(filter, this.#current?.filter)) this.#open(filter, this.#handshake);
    }
    this.#settle();
  }

  get #known(): ReadonlySet<string> {
    return this.#current?.filter.uris ?? NONE;
  }

  /** The sidecar itself needs changes of tools. */
  get #wanted(): SubscriptionFilter {
    const lists: typeof ALL_LISTS = this.#state.listeners.size > 0 ? ALL_LISTS : new Set(["tools"]);
    return supportedPart({ lists, uris: this.#state.uris, tasks: NONE }, this.#capabilities);
  }

  #nextFilter(): SubscriptionFilter {
    const { lists, uris, tasks } = this.#wanted;
    for (const uri of this.#rejectedUris) if (!uris.has(uri)) this.#rejectedUris.delete(uri);
    const added = [...uris.difference(this.#known).difference(this.#rejectedUris)];
    if (added.length <= 1) this.#isCautious = false;
    const tried = this.#isCautious ? added.slice(0, 1) : added;
    return { lists, tasks, uris: uris.intersection(this.#known).union(new Set(tried)) };
  }

  #open(filter: SubscriptionFilter, { requestMeta }: UpstreamHandshake): void {
    const context = this.#calls.context;
    const request = internalRequest("subscriptions/listen", { notifications: filterMembers(filter) }, requestMeta);
    const listening: Listening = { filter, accepted: NONE, openedAtMs: Infinity, call: undefined };
    this.#next = listening;
    // It may fail at once.
    listening.call = this.#calls.openStream(request, (_hasResult, outcome) => {
      if (outcome !== "unread") this.#onListenEnd(listening, !(outcome instanceof SidecarError));
    });
    this.#overdue.set(context.nowMs() + context.config.requestTimeoutMs);
  }

  /** @param isByServer false if the sidecar could not send the request. */
  #onListenEnd(ended: Listening, isByServer: boolean): void {
    if (ended === this.#current) {
      this.#current = undefined;
      this.#isInterrupted = true;
      if (this.#calls.context.nowMs() - ended.openedAtMs > MAX_PAUSE_MS) this.#pauseMs = FIRST_PAUSE_MS;
    } else if (ended !== this.#next) return;
    else if (isByServer) return this.#reject(ended);
    else this.#next = undefined;
    this.#updateLater();
  }

  #reject({ filter }: Listening, isSilent = false): void {
    this.#next = undefined;
    const added = filter.uris.difference(this.#known);
    if (added.size === 1 || isSilent) for (const uri of added) this.#rejectedUris.add(uri);
    else if (added.size > 1) this.#isCautious = true;
    this.#settle();
    // A request may fail while it is opened, so another one must not follow at once.
    if (added.size > 0) this.#updateIn(0);
    else this.#updateLater();
  }

  #endCurrent(reason: string): void {
    this.#calls.endStream(this.#current?.call, reason);
    this.#current = undefined;
  }

  #updateLater(): void {
    this.#updateIn(this.#pauseMs);
    this.#pauseMs = Math.min(MAX_PAUSE_MS, this.#pauseMs * 2);
  }

  #updateIn(delayMs: number): void {
    this.#nextUpdate.set(Math.min(this.#nextUpdate.atMs, this.#calls.context.nowMs() + delayMs));
  }

  #settle(): void {
    if (this.#waiting.size === 0) return;
    const { uris } = this.#wanted;
    for (const [onDone, uri] of this.#waiting) {
      const accepted = this.#known.has(uri) ? this.#current?.accepted.has(uri) : undefined;
      // Its client may have unsubscribed meanwhile.
      const isAccepted = !uris.has(uri) || (this.#rejectedUris.has(uri) ? false : accepted);
      // The call of one may end the wait of another.
      if (isAccepted !== undefined && this.#waiting.delete(onDone)) onDone(isAccepted);
    }
  }
}

const LEVEL_NAMES = `${LEVELS.slice(0, -1).join(", ")} or ${LEVELS.at(-1)}`;
