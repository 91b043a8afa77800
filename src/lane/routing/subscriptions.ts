import type { Session } from "../../sessions/session.ts";

/** The maximum number of subscriptions of one session. Above it, subscribe requests are rejected. */
export const MAX_SUBSCRIPTIONS_PER_SESSION = 1024;
export const TOO_MANY_SUBSCRIPTIONS = `This session has ${MAX_SUBSCRIPTIONS_PER_SESSION} subscriptions, its limit; end some first`;

interface Subscription {
  readonly sessions: Set<Session>;
  /** True if the server has confirmed the subscription. */
  isConfirmed: boolean;
}

/** The subscriptions of a shared server's sessions. The server gets only the first subscribe and the last unsubscribe of a resource. */
export class Subscriptions {
  readonly #byUri = new Map<string, Subscription>();
  readonly #bySession = new Map<Session, Set<string>>();

  countOf(session: Session): number {
    return this.#bySession.get(session)?.size ?? 0;
  }

  /** @returns true if the server must get the request. */
  add(session: Session, uri: string): boolean {
    const subscription = this.#byUri.get(uri) ?? { sessions: new Set(), isConfirmed: false };
    this.#byUri.set(uri, subscription);
    subscription.sessions.add(session);
    const uris = this.#bySession.get(session) ?? new Set();
    this.#bySession.set(session, uris.add(uri));
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
  delete(session: Session, uri: string): boolean {
    const uris = this.#bySession.get(session);
    uris?.delete(uri);
    if (uris?.size === 0) this.#bySession.delete(session);
    const subscription = this.#byUri.get(uri);
    subscription?.sessions.delete(session);
    if (subscription !== undefined && subscription.sessions.size > 0) return false;
    this.#byUri.delete(uri);
    return true;
  }

  /** @returns the resources that have no subscribers left. */
  deleteAll(session: Session): string[] {
    return [...(this.#bySession.get(session) ?? [])].filter((uri) => this.delete(session, uri));
  }

  /** Marks all subscriptions as unconfirmed, for a new generation. @returns all resources. */
  restart(): string[] {
    for (const subscription of this.#byUri.values()) subscription.isConfirmed = false;
    return [...this.#byUri.keys()];
  }

  /** Returns the subscribers of the resource or of a parent in its hierarchy (MCP 2025-11-25, schema, ResourceUpdated). */
  subscribers(uri: string): ReadonlySet<Session> {
    const found = new Set<Session>();
    // Iterates over the subscriptions, which are bounded. The parts of a server's URI are not.
    for (const [subscribed, { sessions }] of this.#byUri) {
      if (isAtOrBelow(uri, subscribed)) for (const session of sessions) found.add(session);
    }
    return found;
  }
}

function isAtOrBelow(uri: string, above: string): boolean {
  if (!uri.startsWith(above)) return false;
  return uri.length === above.length || above.endsWith("/") || uri.charAt(above.length) === "/";
}
