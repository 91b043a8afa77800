import { setImmediate as nextTurn } from "node:timers/promises";
import { SidecarError } from "../../errors.ts";
import { outOfMemory } from "../../lane/failures.ts";
import type { MemoryHolder } from "../../memory/memory-budget.ts";
import { textMemoryBytes } from "../../memory/memory-size.ts";
import type { Defects } from "../../observability/defects.ts";
import type { StatelessClient } from "../stateless-client.ts";
import type { StatelessCall } from "../stateless-request.ts";
import { LegacySubscription } from "./legacy-subscription.ts";
import { readFilter, type SubscriptionFilter } from "./subscription-filter.ts";
import { Subscription } from "./subscription.ts";

/** The maximum number of subscriptions of one client, and of the resources in all of them: they may all begin, or end, in the same turn. */
const MAX_SUBSCRIPTIONS = 256;
const MAX_CLIENT_URIS = 10_000;
/** The URIs that a server with sessions is asked to watch for one subscription. A client is told which are accepted. */
const MAX_URIS = 1024;
/** The memory of a URI besides its text, and that of its text: it is in the filter, and in the subscription of the lane. */
const URI_BYTES = 256;
const URI_COPIES = 2;

export interface StatelessSubscriptionsOptions {
  readonly defects: Pick<Defects, "recover" | "guard">;
  readonly nowMs: () => number;
  /** The time after which a stream begins even without an acknowledgement. */
  readonly streamAfterMs: number;
}

interface Open {
  readonly client: StatelessClient;
  readonly uriCount: number;
  end(reason: string): void;
}

/** The open subscriptions of all clients without sessions, at servers of either era (MCP 2026-07-28, server/subscriptions). */
export class StatelessSubscriptions {
  readonly #defects: Pick<Defects, "recover" | "guard">;
  readonly #nowMs: () => number;
  readonly #streamAfterMs: number;
  readonly #open = new Map<Subscription, Open>();
  /** The end of the last start of each client. */
  readonly #starting = new WeakMap<StatelessClient, Promise<void>>();

  constructor({ defects, nowMs, streamAfterMs }: StatelessSubscriptionsOptions) {
    this.#defects = defects;
    this.#nowMs = nowMs;
    this.#streamAfterMs = streamAfterMs;
  }

  get size(): number {
    return this.#open.size;
  }

  listen({ stateless, target, client }: StatelessCall): void {
    const { request, exchange, memory } = stateless;
    const { handshake, lane, routing } = target;
    // A client at its limit costs no more than this.
    const own = this.#open.values().filter((each) => each.client === client);
    const [count, uriCount] = own.reduce(([sum, uris], each) => [sum + 1, uris + each.uriCount], [0, 0]);
    if (count >= MAX_SUBSCRIPTIONS || uriCount >= MAX_CLIENT_URIS) return exchange.fail(tooMany());
    const filter = readFilter(request);
    if (filter instanceof SidecarError) return exchange.fail(filter);
    const isLegacy = handshake.era === "legacy" || routing === undefined;
    const uris = isLegacy ? new Set([...filter.uris].slice(0, MAX_URIS)) : filter.uris;
    if (uriCount + uris.size > MAX_CLIENT_URIS) return exchange.fail(tooMany());
    if (!exchange.isListening) return exchange.fail(new SidecarError("NOT_ACCEPTABLE", "Accept must allow text/event-stream."));
    const subscription = new Subscription(exchange, () => {
      this.#open.get(subscription)?.end("the subscription has ended");
      this.#open.delete(subscription);
    });
    if (!isLegacy) {
      const cancel = routing.subscribe(subscription, request, memory);
      if (cancel === undefined) return exchange.fail(outOfMemory());
      this.#open.set(subscription, { client, uriCount: uris.size, end: cancel });
      return;
    }
    const accepted = { ...filter, uris };
    const filterMemory = memory.reserve("subscriptions", filterBytes(accepted));
    if (filterMemory === undefined) return exchange.fail(outOfMemory());
    const later = (run: () => void): void => void setImmediate(() => this.#defects.guard("subscription", run));
    const upstream = new LegacySubscription({ subscription, memory, filterMemory, lane, filter: accepted, later });
    this.#open.set(subscription, { client, uriCount: uris.size, end: () => upstream.end() });
    void this.#start(upstream, subscription, accepted.uris.size > 0 ? client : undefined);
  }

  /** The subscriptions of one client subscribe to their URIs one after another. Else it could use all places of the server. Never rejects. */
  async #start(upstream: LegacySubscription, subscription: Subscription, client: StatelessClient | undefined): Promise<void> {
    const former = client && this.#starting.get(client);
    const { promise, resolve } = Promise.withResolvers<void>();
    if (client !== undefined) this.#starting.set(client, promise);
    const timer = setTimeout(() => this.#defects.guard("subscription", () => subscription.keepAlive()), this.#streamAfterMs);
    try {
      await former;
      // If the server watches all of its resources already, a subscription begins without an answer of the server.
      await nextTurn();
      if (!subscription.isEnded) await upstream.start(this.#nowMs());
    } catch (error) {
      this.#defects.recover("subscription", error, () => subscription.end());
    } finally {
      clearTimeout(timer);
      resolve();
    }
  }

  /** Ends those of a holder gracefully; all by default. */
  end(holder?: MemoryHolder): void {
    for (const [subscription, { client }] of this.#open) {
      if (holder === undefined || client.memory.holder === holder) subscription.end();
    }
  }
}

function filterBytes({ uris }: SubscriptionFilter): number {
  return uris.values().reduce((sum, uri) => sum + URI_BYTES + URI_COPIES * textMemoryBytes(uri), URI_BYTES);
}

function tooMany(): SidecarError {
  const message = `This client would have more than ${MAX_SUBSCRIPTIONS} subscriptions, or more than ${MAX_CLIENT_URIS} resources in them; end some first. The request was not sent.`;
  return new SidecarError("SESSION_OVERLOADED", message, { retryAfterSeconds: 1 });
}
