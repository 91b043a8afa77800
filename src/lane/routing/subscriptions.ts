import type { InternalRequest } from "../internal/internal-requests.ts";
import { textMemoryBytes } from "../../memory/memory-size.ts";
import type { Reservation } from "../../memory/memory-budget.ts";
import type { Caller } from "../../sessions/caller.ts";

/** The maximum number of subscriptions of one session. Above it, subscribe requests are rejected. */
const MAX_SUBSCRIPTIONS_PER_SESSION = 1024;
const TOO_MANY = `This client has ${MAX_SUBSCRIPTIONS_PER_SESSION} subscriptions, its limit; end some first`;
const NO_MEMORY = "The sidecar has no memory left for another subscription; end some first";
/** The memory of a subscription besides its URI. */
const SUBSCRIPTION_BYTES = 512;

/** One caller's subscription to a resource. */
interface Subscription {
  /** True if one of its subscribe requests had a result. */
  isConfirmed: boolean;
  /** The number of its subscribe requests in flight. */
  requestsInFlight: number;
  readonly memory: Reservation;
}

interface Resource {
  readonly subscriptions: Map<Caller, Subscription>;
  /** True if the current generation has confirmed a subscription. */
  isConfirmed: boolean;
}

interface SubscribeRequest {
  /** Returns false if the caller has unsubscribed since. */
  readonly isCurrent: () => boolean;
  /** Must be called at the end of the request. `hasResult` is false for an error. */
  readonly onSettled: (hasResult: boolean) => void;
}

/** The subscriptions of a server's callers. They are restored on each new generation. */
export class Subscriptions {
  readonly #byUri = new Map<string, Resource>();
  readonly #byCaller = new Map<Caller, Set<string>>();

  /** Adds a subscription, which stays if any of its requests has a result. @returns the reason if it is rejected. */
  subscribe(caller: Caller, uri: string): SubscribeRequest | string {
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
    const onSettled = (hasResult: boolean): void => {
      subscription.requestsInFlight--;
      if (!isCurrent()) return;
      if (hasResult) subscription.isConfirmed = resource.isConfirmed = true;
      else if (!subscription.isConfirmed && subscription.requestsInFlight === 0) this.delete(caller, uri);
    };
    return { isCurrent, onSettled };
  }

  /** The resources that any caller is subscribed to, or is subscribing to. */
  get uris(): ReadonlySet<string> {
    return new Set(this.#byUri.keys());
  }

  /** The callers that are subscribed to anything, or are subscribing. */
  get callers(): Iterable<Caller> {
    return this.#byCaller.keys();
  }

  /** True if any caller is subscribed, or is subscribing. */
  has(uri: string): boolean {
    return this.#byUri.has(uri);
  }

  /** True if the server has confirmed a subscription. */
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
        onSettled: (hasResult) => (resource.isConfirmed ||= hasResult),
      });
    }
    return requests;
  }

  /** Returns the subscribers of the resource or of a parent in its hierarchy (MCP 2025-11-25, schema, ResourceUpdated). */
  subscribers(uri: string): ReadonlySet<Caller> {
    const found = new Set<Caller>();
    // Iterates over the subscriptions, which are bounded. The parts of a server's URI are not.
    for (const [subscribed, { subscriptions }] of this.#byUri) {
      if (isAtOrBelow(uri, subscribed)) for (const caller of subscriptions.keys()) found.add(caller);
    }
    return found;
  }
}

/** Returns the memory of a subscription to a resource, or of a request about one. */
export function subscriptionBytes(uri: string): number {
  return SUBSCRIPTION_BYTES + textMemoryBytes(uri);
}

function isAtOrBelow(uri: string, above: string): boolean {
  if (!uri.startsWith(above)) return false;
  return uri.length === above.length || above.endsWith("/") || uri.charAt(above.length) === "/";
}
