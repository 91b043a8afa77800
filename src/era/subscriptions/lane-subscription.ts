import type { Dispatch } from "../../lane/dispatch.ts";
import type { OpenCall } from "../../lane/internal/internal-calls.ts";
import { InternalExchange, internalRequest } from "../../lane/internal/internal-exchange.ts";
import { filterMembers, filterText, type SubscriptionFilter } from "./subscription-filter.ts";

/** Called with the URIs that the server has accepted; none if it has refused or ended the subscription. */
export type OnSubscribed = (accepted: ReadonlySet<string>) => void;

const NONE: ReadonlySet<string> = new Set();

/** A `subscriptions/listen` at the current generation. */
interface Listening {
  readonly filterText: string;
  /** The URIs that the server has accepted. */
  accepted: ReadonlySet<string>;
  /** Undefined until it is sent. */
  call: OpenCall | undefined;
  readonly waiting: Set<OnSubscribed>;
}

export interface LaneSubscriptionOptions {
  readonly dispatch: Dispatch;
  readonly nowMs: () => number;
  /** The `_meta` of the sidecar's own requests at this generation. */
  readonly requestMeta: object | undefined;
  /** Returns all that the lane wants now. */
  readonly wanted: () => SubscriptionFilter;
}

/**
 * The one subscription of a lane at a generation of a server without sessions. For another filter, a new request is opened, and the former
 * one ends when the server has acknowledged the new one. So no notification is lost (MCP 2026-07-28, basic/utilities/subscriptions).
 */
export class LaneSubscription {
  readonly #options: LaneSubscriptionOptions;
  #current: Listening | undefined;
  /** The request that replaces the current one. */
  #next: Listening | undefined;
  /** Those that wait for a request that is not sent yet. */
  readonly #waiting = new Set<OnSubscribed>();
  /** The filter that the server has refused. It is not sent again. */
  #refusedText: string | undefined;

  constructor(options: LaneSubscriptionOptions) {
    this.#options = options;
  }

  /** True for a notification of this subscription. */
  has(wireId: number): boolean {
    return wireId === this.#current?.call?.wireId || wireId === this.#next?.call?.wireId;
  }

  /**
   * Subscribes to all that is wanted now.
   *
   * @param onDone called when the server has acknowledged or refused that.
   */
  update(onDone?: OnSubscribed): void {
    if (onDone !== undefined) this.#waiting.add(onDone);
    // Only two are open at a time. What is wanted meanwhile comes with the one after them.
    if (this.#next !== undefined) return;
    let wanted = this.#options.wanted();
    // One URI that the server refuses must not cost the changes of lists.
    if (this.#current === undefined && filterText(wanted) === this.#refusedText) wanted = { ...wanted, uris: NONE };
    const text = filterText(wanted);
    const waiting = this.#takeWaiting();
    if (text === (this.#current?.filterText ?? "{}") || text === this.#refusedText) {
      for (const done of waiting) done(this.#current?.accepted ?? NONE);
    } else if (text === "{}") {
      this.#current?.call?.cancel("nothing is subscribed");
      this.#current = undefined;
      for (const done of waiting) done(NONE);
    } else this.#open(wanted, text, waiting);
  }

  /** Calls this function no longer. A server may never acknowledge. */
  stopWaiting(onDone: OnSubscribed): void {
    this.#waiting.delete(onDone);
    this.#next?.waiting.delete(onDone);
  }

  /** Must be called for each acknowledgement. @param accepted the URIs in it. */
  onAcknowledged(wireId: number, accepted: ReadonlySet<string>): void {
    if (wireId !== this.#next?.call?.wireId) return;
    const next = this.#next;
    this.#current?.call?.cancel("replaced by another subscription");
    this.#current = next;
    this.#next = undefined;
    next.accepted = accepted;
    this.#refusedText = undefined;
    for (const done of next.waiting) done(accepted);
    // More may be wanted by now.
    this.update();
  }

  /** Must be called when the server cancels the subscription with this id. */
  onEnded(wireId: number): void {
    const ended = [this.#current, this.#next].find((each) => each?.call?.wireId === wireId);
    // The call would stay open otherwise, because the server sends no response.
    ended?.call?.cancel("ended by the server");
    this.#forget(ended);
  }

  #takeWaiting(): Set<OnSubscribed> {
    const waiting = new Set(this.#waiting);
    this.#waiting.clear();
    return waiting;
  }

  #forget(ended: Listening | undefined): void {
    if (ended === undefined) return;
    if (this.#current === ended) this.#current = undefined;
    if (this.#next === ended) this.#giveUpNext();
  }

  /** Ends a request that the server has refused. Those that wait leave, so the next filter is without their URIs. */
  #giveUpNext(): void {
    const waiting = [...(this.#next?.waiting ?? []), ...this.#takeWaiting()];
    this.#refusedText = this.#next?.filterText;
    this.#next = undefined;
    for (const done of waiting) done(NONE);
    if (this.#current === undefined) this.update();
  }

  #open(filter: SubscriptionFilter, text: string, waiting: Set<OnSubscribed>): void {
    const { dispatch, nowMs, requestMeta } = this.#options;
    const request = internalRequest("subscriptions/listen", { notifications: filterMembers(filter) }, requestMeta);
    const listening: Listening = { filterText: text, accepted: NONE, waiting, call: undefined };
    const onEnd = (): void => this.#forget(listening);
    this.#next = listening;
    // It may fail at once.
    listening.call = dispatch.internal.open(new InternalExchange(nowMs(), () => undefined, onEnd), request);
  }
}
