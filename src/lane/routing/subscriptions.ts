import type { Caller } from "../../sessions/caller.ts";

/** The maximum number of subscriptions of one session. Above it, subscribe requests are rejected. */
export const MAX_SUBSCRIPTIONS_PER_SESSION = 1024;
export const TOO_MANY_SUBSCRIPTIONS = `This session has ${MAX_SUBSCRIPTIONS_PER_SESSION} subscriptions, its limit; end some first`;

interface Subscription {
  readonly callers: Set<Caller>;
  /** True if the server has confirmed the subscription. */
  isConfirmed: boolean;
}

/** The subscriptions of a shared server's callers. The server gets only the first subscribe and the last unsubscribe of a resource. */
export class Subscriptions {
  readonly #byUri = new Map<string, Subscription>();
  readonly #byCaller = new Map<Caller, Set<string>>();

  countOf(caller: Caller): number {
    return this.#byCaller.get(caller)?.size ?? 0;
  }

  /** @returns true if the server must get the request. */
  add(caller: Caller, uri: string): boolean {
    const subscription = this.#byUri.get(uri) ?? { callers: new Set(), isConfirmed: false };
    this.#byUri.set(uri, subscription);
    subscription.callers.add(caller);
    const uris = this.#byCaller.get(caller) ?? new Set();
    this.#byCaller.set(caller, uris.add(uri));
    return !subscription.isConfirmed;
  }

  has(uri: string): boolean {
    return this.#byUri.has(uri);
  }

  confirm(uri: string): void {
    const subscription = this.#byUri.get(uri);
    if (subscription !== undefined) subscription.isConfirmed = true;
  }

  /** @returns true if it was the last subscription, and the server must get the request. */
  delete(caller: Caller, uri: string): boolean {
    const uris = this.#byCaller.get(caller);
    uris?.delete(uri);
    if (uris?.size === 0) this.#byCaller.delete(caller);
    const subscription = this.#byUri.get(uri);
    subscription?.callers.delete(caller);
    if (subscription !== undefined && subscription.callers.size > 0) return false;
    this.#byUri.delete(uri);
    return true;
  }

  /** @returns the resources that have no subscribers left. */
  deleteAll(caller: Caller): string[] {
    return [...(this.#byCaller.get(caller) ?? [])].filter((uri) => this.delete(caller, uri));
  }

  /** Marks all subscriptions as unconfirmed, for a new generation. @returns all resources. */
  restart(): string[] {
    for (const subscription of this.#byUri.values()) subscription.isConfirmed = false;
    return [...this.#byUri.keys()];
  }

  /** Returns the subscribers of the resource or of a parent in its hierarchy (MCP 2025-11-25, schema, ResourceUpdated). */
  subscribers(uri: string): ReadonlySet<Caller> {
    const found = new Set<Caller>();
    // Iterates over the subscriptions, which are bounded. The parts of a server's URI are not.
    for (const [subscribed, { callers }] of this.#byUri) {
      if (isAtOrBelow(uri, subscribed)) for (const caller of callers) found.add(caller);
    }
    return found;
  }
}

function isAtOrBelow(uri: string, above: string): boolean {
  if (!uri.startsWith(above)) return false;
  return uri.length === above.length || above.endsWith("/") || uri.charAt(above.length) === "/";
}
