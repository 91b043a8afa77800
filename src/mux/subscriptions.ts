import type { Session } from "./session.ts";

/** What one session may subscribe to; beyond it, subscribing is refused. */
export const MAX_SUBSCRIPTIONS_PER_SESSION = 1024;
export const TOO_MANY_SUBSCRIPTIONS = `This session has ${MAX_SUBSCRIPTIONS_PER_SESSION} subscriptions; end some first`;

interface Subscription {
  readonly sessions: Set<Session>;
  /** The server has said that it is subscribed. */
  isConfirmed: boolean;
}

/** Who of a shared server's sessions is subscribed to which resource: the server hears of the first and the last one only. */
export class Subscriptions {
  readonly #byUri = new Map<string, Subscription>();
  readonly #bySession = new Map<Session, Set<string>>();

  countOf(session: Session): number {
    return this.#bySession.get(session)?.size ?? 0;
  }

  /** @returns whether the server has to be asked. */
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

  /** @returns whether it was the last one, and the server has to be told. */
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

  /** @returns the resources that nobody is subscribed to any more. */
  deleteAll(session: Session): string[] {
    return [...(this.#bySession.get(session) ?? [])].filter((uri) => this.delete(session, uri));
  }

  /** @returns all resources; none counts as confirmed any more, since the server is a new one. */
  restart(): string[] {
    for (const subscription of this.#byUri.values()) subscription.isConfirmed = false;
    return [...this.#byUri.keys()];
  }

  /** The sessions that are subscribed to the resource or to one above it in the hierarchy (MCP 2025-11-25, schema, ResourceUpdated). */
  subscribers(uri: string): ReadonlySet<Session> {
    const found = new Set<Session>();
    // Over the subscriptions, which are bounded, and not over the parts of the URI, which a server may make as many as it likes.
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
