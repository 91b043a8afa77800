import type { Context } from "../context.ts";
import { applyEdits } from "../json/edit.ts";
import { findMembers, findPath } from "../json/find.ts";
import { SidecarError } from "../mcp/errors.ts";
import { MetaKey, type NotificationMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import { contains, filterMembers, isSame, listChanges, readFilter, type SubscriptionFilter } from "../mcp/subscription-filter.ts";
import { withSubscriptionId } from "../mcp/translate.ts";
import type { Reservation } from "../memory.ts";
import type { Reply, ReplyTarget } from "../session/reply.ts";
import { Timer } from "../timers.ts";
import type { Calls } from "./calls.ts";
import { internalReply, internalRequest, resultTo, type OpenCall } from "./internal-calls.ts";
import type { Lane } from "./lane.ts";

/** Called with true if the server has accepted the resource, with false if it has rejected it. */
type OnSubscribed = (isAccepted: boolean) => void;

/** The first and the longest pause before a subscription is opened again that the server has ended. */
const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 5 * 60_000;

const NONE: ReadonlySet<string> = new Set();

/** A `subscriptions/listen` at the current generation. */
interface Listening {
  readonly filter: SubscriptionFilter;
  /** The URIs of the filter that the server has accepted. */
  accepted: ReadonlySet<string>;
  /** The time of the acknowledgement. */
  openedAtMs: number;
  /** Undefined until it is sent. */
  call: OpenCall | undefined;
}

/**
 * The one subscription of a lane at a generation of a server without sessions. For another filter, a new request is opened, and the former
 * one ends when the server has acknowledged the new one. So no notification is lost (MCP 2026-07-28, basic/utilities/subscriptions).
 *
 * The server rejects a filter as a whole. If several resources are new in it, they are tried one by one, so that each client gets the answer
 * about its own resource.
 */
export class LaneSubscription {
  readonly #lane: Lane;
  readonly #requestMeta: object | undefined;
  readonly #wanted: () => SubscriptionFilter;
  readonly #onReopened: (filter: SubscriptionFilter) => void;
  #current: Listening | undefined;
  /** The request that replaces the current one. */
  #next: Listening | undefined;
  /** Those that wait for the server's answer about a resource. */
  readonly #waiting = new Map<OnSubscribed, string>();
  /** The wanted resources that the server has rejected. They are tried again if a client subscribes to them. */
  readonly #rejectedUris = new Set<string>();
  /** A rejected filter without a new resource. It is not sent again. */
  #rejected: SubscriptionFilter | undefined;
  /** True while new resources are tried one by one. */
  #isCautious = false;
  /** True from the end of an open subscription until it is open again. */
  #isInterrupted = false;
  #pauseMs = FIRST_PAUSE_MS;
  /** The time of the next `update`. */
  readonly #nextUpdate: Timer;
  /** The end of the time in which the server must acknowledge the next request. */
  readonly #overdue: Timer;

  /**
   * @param requestMeta the `_meta` of the sidecar's own requests at this generation.
   * @param wanted returns all that the lane wants now.
   * @param onReopened called when a subscription is open again that the server had ended. Changes may have been missed.
   */
  constructor(
    lane: Lane,
    requestMeta: object | undefined,
    wanted: () => SubscriptionFilter,
    onReopened: (filter: SubscriptionFilter) => void,
  ) {
    this.#lane = lane;
    this.#requestMeta = requestMeta;
    this.#wanted = wanted;
    this.#onReopened = onReopened;
    const { timers } = lane.context;
    this.#nextUpdate = new Timer(timers, () => this.update());
    this.#overdue = new Timer(timers, () => {
      const next = this.#next;
      next?.call?.cancel("not acknowledged in time");
      if (next !== undefined) this.#reject(next, true);
    });
  }

  has(wireId: number): boolean {
    return wireId === this.#current?.call?.wireId || wireId === this.#next?.call?.wireId;
  }

  /** Must be called when the lane wants another filter. */
  update(): void {
    // Only two are open at a time. Later changes come with the next one.
    if (this.#next === undefined) {
      const filter = this.#nextFilter();
      const isKnown = isSame(filter, this.#current?.filter) || isSame(filter, this.#rejected);
      if (filter.lists.size + filter.uris.size === 0) this.#endCurrent("nothing is subscribed");
      else if (!isKnown) this.#open(filter);
    }
    this.#settle();
  }

  /** Subscribes to a resource, which the lane must want by now. @param onDone called once, unless the generation is lost before. */
  subscribe(uri: string, onDone: OnSubscribed): void {
    this.#rejectedUris.delete(uri);
    this.#waiting.set(onDone, uri);
    this.update();
  }

  stopWaiting(onDone: OnSubscribed): void {
    this.#waiting.delete(onDone);
  }

  /** Must be called for each acknowledgement. @param accepted the URIs in it. */
  onAcknowledged(wireId: number, accepted: ReadonlySet<string>): void {
    const next = this.#next;
    if (next === undefined || wireId !== next.call?.wireId) return;
    this.#endCurrent("replaced by another subscription");
    next.accepted = next.filter.uris.intersection(accepted);
    next.openedAtMs = this.#lane.context.nowMs();
    this.#current = next;
    this.#next = undefined;
    this.#rejected = undefined;
    if (this.#isInterrupted) this.#onReopened(next.filter);
    this.#isInterrupted = false;
    this.update();
  }

  /** Must be called when the server cancels the subscription with this id. */
  onCancelled(wireId: number): void {
    const ended = [this.#current, this.#next].find((each) => each?.call?.wireId === wireId);
    // The call would stay open otherwise, because the server sends no response.
    ended?.call?.cancel("ended by the server");
    if (ended !== undefined) this.#onEnd(ended, true);
  }

  /** Must be called when the generation is lost. Those that wait get no answer. */
  close(): void {
    this.#waiting.clear();
    this.#nextUpdate.clear();
    this.#overdue.clear();
    this.#current = undefined;
    this.#next = undefined;
  }

  get #known(): ReadonlySet<string> {
    return this.#current?.filter.uris ?? NONE;
  }

  /** Returns all that is wanted, without what the server has rejected. */
  #nextFilter(): SubscriptionFilter {
    const { lists, uris, tasks } = this.#wanted();
    for (const uri of this.#rejectedUris) if (!uris.has(uri)) this.#rejectedUris.delete(uri);
    const added = [...uris.difference(this.#known).difference(this.#rejectedUris)];
    if (added.length <= 1) this.#isCautious = false;
    const tried = this.#isCautious ? added.slice(0, 1) : added;
    return { lists, tasks, uris: uris.intersection(this.#known).union(new Set(tried)) };
  }

  #open(filter: SubscriptionFilter): void {
    const nowMs = this.#lane.context.nowMs();
    const request = internalRequest("subscriptions/listen", { notifications: filterMembers(filter) }, this.#requestMeta);
    const listening: Listening = { filter, accepted: NONE, openedAtMs: Number.POSITIVE_INFINITY, call: undefined };
    this.#next = listening;
    let hasFailed = false;
    const target = resultTo(
      () => this.#onEnd(listening, !hasFailed),
      () => (hasFailed = true),
    );
    // It may fail at once.
    listening.call = this.#lane.calls.open(internalReply(this.#lane.context, target), request);
    this.#overdue.set(nowMs + this.#lane.context.config.requestTimeoutMs);
  }

  /** @param isByServer false if the sidecar could not send the request. */
  #onEnd(ended: Listening, isByServer: boolean): void {
    if (ended === this.#current) {
      this.#current = undefined;
      this.#isInterrupted = true;
      if (this.#lane.context.nowMs() - ended.openedAtMs > MAX_PAUSE_MS) this.#pauseMs = FIRST_PAUSE_MS;
    } else if (ended !== this.#next) return;
    else if (isByServer) return this.#reject(ended);
    else this.#next = undefined;
    this.#updateIn(this.#pauseMs);
    this.#pauseMs = Math.min(MAX_PAUSE_MS, this.#pauseMs * 2);
  }

  /** @param isSilent true if the server has not answered. */
  #reject({ filter }: Listening, isSilent = false): void {
    this.#next = undefined;
    const added = filter.uris.difference(this.#known);
    if (added.size === 0) this.#rejected = filter;
    else if (added.size === 1 || isSilent) for (const uri of added) this.#rejectedUris.add(uri);
    else this.#isCautious = true;
    this.#settle();
    // A request may fail while it is opened, so another one must not follow at once.
    this.#updateIn(0);
  }

  #endCurrent(reason: string): void {
    this.#current?.call?.cancel(reason);
    this.#current = undefined;
  }

  #updateIn(delayMs: number): void {
    this.#nextUpdate.set(Math.min(this.#nextUpdate.atMs, this.#lane.context.nowMs() + delayMs));
  }

  /** Calls those that wait for what is known by now. */
  #settle(): void {
    if (this.#waiting.size === 0) return;
    const { uris } = this.#wanted();
    for (const [onDone, uri] of this.#waiting) {
      const isAccepted = this.#verdict(uri, uris);
      // The call of one may end the wait of another.
      if (isAccepted !== undefined && this.#waiting.delete(onDone)) onDone(isAccepted);
    }
  }

  #verdict(uri: string, wanted: ReadonlySet<string>): boolean | undefined {
    // Its client has unsubscribed meanwhile.
    if (!wanted.has(uri)) return true;
    if (this.#rejectedUris.has(uri)) return false;
    return this.#known.has(uri) ? this.#current?.accepted.has(uri) : undefined;
  }
}

/** A client's `subscriptions/listen`: a stream of notifications that ends with a result (MCP 2026-07-28, basic/utilities/subscriptions). */
export class Subscription {
  readonly #reply: Reply;
  #onEnd: (() => void) | undefined;
  isEnded = false;

  /** @param onEnd called once at the end, also if the client has left. */
  constructor(reply: Reply, onEnd: () => void) {
    this.#reply = reply;
    this.#onEnd = onEnd;
    reply.onDisconnect = () => this.#finish();
  }

  /** The JSON text of the id, which all its messages have. */
  get idText(): string {
    return this.#reply.idText;
  }

  acknowledge(acceptedText: string): void {
    this.#reply.keepAlive();
    const meta = `"_meta":{${this.#idMember}}`;
    this.#emit(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{${meta},"notifications":${acceptedText}}}`);
  }

  /** Sends a notification of the server with the id of this subscription. */
  notify(text: string): void {
    this.#emit(withSubscriptionId(text, this.idText));
  }

  end(): void {
    this.respond("result", `{"resultType":"complete","_meta":{${this.#idMember}}}`);
  }

  /** Ends the stream with a response of the server. @param text the JSON text of the member. */
  respond(member: "result" | "error", text: string): void {
    if (this.isEnded) return;
    this.#reply.respond(`{"jsonrpc":"2.0","id":${this.idText},"${member}":${text}}`);
    this.#finish();
  }

  /** Begins a stream that has waited for long for its acknowledgement. */
  keepAlive(): void {
    if (!this.isEnded) this.#reply.keepAlive();
  }

  refuse(error: SidecarError): void {
    if (this.isEnded) return;
    this.#reply.fail(error);
    this.#finish();
  }

  get #idMember(): string {
    return `${JSON.stringify(MetaKey.subscriptionId)}:${this.idText}`;
  }

  #emit(text: string): void {
    if (!this.isEnded) this.#reply.emit(text);
  }

  #finish(): void {
    this.isEnded = true;
    this.#onEnd?.();
    this.#onEnd = undefined;
  }
}

const EMPTY: SubscriptionFilter = { lists: new Set(), uris: new Set(), tasks: new Set() };

/** A subscription at a server without sessions. It is opened again at each generation, until the client or the server ends it. */
export class ModernSubscription implements ReplyTarget {
  readonly #subscription: Subscription;
  readonly #context: Context;
  readonly #request: RequestMessage;
  readonly #calls: Calls;
  readonly #memory: Reservation;
  readonly #onEnd: (subscription: ModernSubscription) => void;
  #open: OpenCall | undefined;
  /** The part that the server has acknowledged; undefined before the first acknowledgement. */
  #accepted: SubscriptionFilter | undefined;

  constructor(
    context: Context,
    calls: Calls,
    subscription: Subscription,
    request: RequestMessage,
    memory: Reservation,
    onEnd: (subscription: ModernSubscription) => void,
  ) {
    this.#context = context;
    this.#calls = calls;
    this.#subscription = subscription;
    this.#request = request;
    this.#memory = memory;
    this.#onEnd = onEnd;
  }

  /** The id of its request at the current generation; undefined if there is none. */
  get wireId(): number | undefined {
    return this.#open?.wireId;
  }

  open(): void {
    this.#open = this.#calls.open(internalReply(this.#context, this), this.#request);
  }

  onLost(): void {
    this.#open = undefined;
  }

  onNotification({ method, text, outline }: NotificationMessage): void {
    if (method === "notifications/cancelled") return this.end();
    if (method !== "notifications/subscriptions/acknowledged") return this.#subscription.notify(text);
    const former = this.#accepted;
    const params = outline.start(Slot.params);
    const span = findMembers(text, params, ["notifications"]).spans[0];
    const read = span === undefined ? EMPTY : readFilter({ text, outline });
    this.#accepted = "lists" in read ? read : EMPTY;
    if (former === undefined) this.#subscription.acknowledge(span === undefined ? "{}" : text.slice(span.start, span.end));
    // The client relies on what was acknowledged before the restart.
    else if (contains(this.#accepted, former)) for (const change of listChanges(former.lists)) this.#subscription.notify(change);
    else this.end();
  }

  /** Ends the subscription at the server, because the client has left or the sidecar drains. */
  cancel(): void {
    this.#open?.cancel("the subscription has ended");
    this.#finish();
  }

  /** Ends the subscription gracefully, because the server no longer serves it. */
  end(): void {
    this.#open?.cancel("ended");
    this.#subscription.end();
    this.#finish();
  }

  finish(outcome: string | SidecarError | undefined): undefined {
    if (outcome instanceof SidecarError) {
      this.#open = undefined;
      // If the generation was lost, the next one gets the request again.
      if (outcome.code !== "UPSTREAM_EXITED") this.end();
    } else if (outcome !== undefined) this.#onResponse(outcome);
  }

  #onResponse(text: string): void {
    const [result, error] = findMembers(text, 0, ["result", "error"]).spans;
    if (error !== undefined) this.#subscription.respond("error", text.slice(error.start, error.end));
    else if (result !== undefined) {
      const resultText = text.slice(result.start, result.end);
      const id = findPath(resultText, 0, ["_meta", MetaKey.subscriptionId]);
      const edits = id === undefined ? [] : [{ ...id, text: this.#subscription.idText }];
      this.#subscription.respond("result", applyEdits(resultText, edits));
    }
    this.#finish();
  }

  #finish(): void {
    this.#open = undefined;
    this.#memory.release();
    this.#onEnd(this);
  }
}
