import type { Dispatch } from "../../lane/dispatch.ts";
import type { OpenCall } from "../../lane/internal/internal-calls.ts";
import { InternalExchange, internalRequest } from "../../lane/internal/internal-exchange.ts";
import { contains, filterMembers, type SubscriptionFilter } from "./subscription-filter.ts";

/** Called with true if the server has accepted the resource, with false if it has rejected it. */
export type OnSubscribed = (isAccepted: boolean) => void;

/** The first and the longest pause before a subscription is opened again that the server has ended. */
const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 5 * 60_000;

const NONE: ReadonlySet<string> = new Set();

/** A `subscriptions/listen` at the current generation. */
interface Listening {
  readonly filter: SubscriptionFilter;
  /** The time of the server to acknowledge it. */
  readonly deadlineMs: number;
  /** The URIs of the filter that the server has accepted. */
  accepted: ReadonlySet<string>;
  /** The time of the acknowledgement. */
  openedAtMs: number;
  /** Undefined until it is sent. */
  call: OpenCall | undefined;
}

export interface LaneSubscriptionOptions {
  readonly dispatch: Pick<Dispatch, "watch"> & { readonly internal: Pick<Dispatch["internal"], "open"> };
  readonly nowMs: () => number;
  /** The time of the server to acknowledge a subscription. */
  readonly timeoutMs: number;
  /** The `_meta` of the sidecar's own requests at this generation. */
  readonly requestMeta: object | undefined;
  /** Returns all that the lane wants now. */
  readonly wanted: () => SubscriptionFilter;
  /** Called when a subscription is open again that the server had ended. Changes may have been missed. */
  readonly onReopened: (filter: SubscriptionFilter) => void;
}

/**
 * The one subscription of a lane at a generation of a server without sessions. For another filter, a new request is opened, and the former
 * one ends when the server has acknowledged the new one. So no notification is lost (MCP 2026-07-28, basic/utilities/subscriptions).
 *
 * The server rejects a filter as a whole. If several resources are new in it, they are tried one by one, so that each client gets the answer
 * about its own resource.
 */
export class LaneSubscription {
  readonly #options: LaneSubscriptionOptions;
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
  #updateAtMs = Number.POSITIVE_INFINITY;

  constructor(options: LaneSubscriptionOptions) {
    this.#options = options;
  }

  /** True for a notification of this subscription. */
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

  /** Calls this function no longer. */
  stopWaiting(onDone: OnSubscribed): void {
    this.#waiting.delete(onDone);
  }

  /** Must be called for each acknowledgement. @param accepted the URIs in it. */
  onAcknowledged(wireId: number, accepted: ReadonlySet<string>): void {
    const next = this.#next;
    if (next === undefined || wireId !== next.call?.wireId) return;
    this.#endCurrent("replaced by another subscription");
    next.accepted = next.filter.uris.intersection(accepted);
    next.openedAtMs = this.#options.nowMs();
    this.#current = next;
    this.#next = undefined;
    this.#rejected = undefined;
    if (this.#isInterrupted) this.#options.onReopened(next.filter);
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

  /** @returns the next deadline, or Infinity. */
  expire(nowMs: number): number {
    const next = this.#next;
    if (next !== undefined && next.deadlineMs <= nowMs) {
      next.call?.cancel("not acknowledged in time");
      this.#reject(next, true);
    }
    if (this.#updateAtMs <= nowMs) {
      this.#updateAtMs = Number.POSITIVE_INFINITY;
      this.update();
    }
    return Math.min(this.#next?.deadlineMs ?? Number.POSITIVE_INFINITY, this.#updateAtMs);
  }

  /** Must be called when the generation is lost. Those that wait get no answer. */
  close(): void {
    this.#waiting.clear();
    this.#updateAtMs = Number.POSITIVE_INFINITY;
    this.#current = undefined;
    this.#next = undefined;
  }

  /** The resources of the current filter. */
  get #known(): ReadonlySet<string> {
    return this.#current?.filter.uris ?? NONE;
  }

  /** Returns all that is wanted, without what the server has rejected. */
  #nextFilter(): SubscriptionFilter {
    const { lists, uris, tasks } = this.#options.wanted();
    for (const uri of this.#rejectedUris) if (!uris.has(uri)) this.#rejectedUris.delete(uri);
    const added = [...uris.difference(this.#known).difference(this.#rejectedUris)];
    if (added.length <= 1) this.#isCautious = false;
    const tried = this.#isCautious ? added.slice(0, 1) : added;
    return { lists, tasks, uris: uris.intersection(this.#known).union(new Set(tried)) };
  }

  #open(filter: SubscriptionFilter): void {
    const { dispatch, nowMs, timeoutMs, requestMeta } = this.#options;
    const request = internalRequest("subscriptions/listen", { notifications: filterMembers(filter) }, requestMeta);
    const deadlineMs = nowMs() + timeoutMs;
    const listening: Listening = { filter, deadlineMs, accepted: NONE, openedAtMs: Number.POSITIVE_INFINITY, call: undefined };
    this.#next = listening;
    let hasFailed = false;
    const exchange = new InternalExchange(
      nowMs(),
      () => (hasFailed = true),
      () => this.#onEnd(listening, !hasFailed),
    );
    // It may fail at once.
    listening.call = dispatch.internal.open(exchange, request);
    dispatch.watch(deadlineMs);
  }

  /** @param isByServer false if the sidecar could not send the request. */
  #onEnd(ended: Listening, isByServer: boolean): void {
    if (ended === this.#current) {
      this.#current = undefined;
      this.#isInterrupted = true;
      if (this.#options.nowMs() - ended.openedAtMs > MAX_PAUSE_MS) this.#pauseMs = FIRST_PAUSE_MS;
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
    const { dispatch, nowMs } = this.#options;
    this.#updateAtMs = Math.min(this.#updateAtMs, nowMs() + delayMs);
    dispatch.watch(this.#updateAtMs);
  }

  /** Calls those that wait for what is known by now. */
  #settle(): void {
    if (this.#waiting.size === 0) return;
    const { uris } = this.#options.wanted();
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

function isSame(filter: SubscriptionFilter, other: SubscriptionFilter | undefined): boolean {
  return other !== undefined && contains(filter, other) && contains(other, filter);
}
