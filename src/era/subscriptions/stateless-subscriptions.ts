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

/** The maximum number of subscriptions of one client. */
const MAX_SUBSCRIPTIONS = 256;
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

/** The open subscriptions of all clients without sessions, at servers of either era (MCP 2026-07-28, server/subscriptions). */
export class StatelessSubscriptions {
  readonly #defects: Pick<Defects, "recover" | "guard">;
  readonly #nowMs: () => number;
  readonly #streamAfterMs: number;
  readonly #open = new Map<Subscription, { readonly client: StatelessClient; end(reason: string): void }>();
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
    const filter = readFilter(request);
    if (filter instanceof SidecarError) return exchange.fail(filter);
    if (!exchange.isListening) return exchange.fail(new SidecarError("NOT_ACCEPTABLE", "Accept must allow text/event-stream."));
    const own = this.#open.values().filter((each) => each.client === client);
    if (own.toArray().length >= MAX_SUBSCRIPTIONS) return exchange.fail(tooMany());
    const subscription = new Subscription(exchange, () => {
      this.#open.get(subscription)?.end("the subscription has ended");
      this.#open.delete(subscription);
    });
    if (handshake.era === "modern" && routing !== undefined) {
      const cancel = routing.subscribe(subscription, request, memory);
      if (cancel === undefined) return exchange.fail(outOfMemory());
      this.#open.set(subscription, { client, end: cancel });
      return;
    }
    const accepted = { ...filter, uris: new Set([...filter.uris].slice(0, MAX_URIS)) };
    const filterMemory = memory.reserve("subscriptions", filterBytes(accepted));
    if (filterMemory === undefined) return exchange.fail(outOfMemory());
    const later = (run: () => void): void => void setImmediate(() => this.#defects.guard("subscription", run));
    const upstream = new LegacySubscription({ subscription, memory, filterMemory, lane, filter: accepted, later });
    this.#open.set(subscription, { client, end: () => upstream.end() });
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
  const message = `This client has ${MAX_SUBSCRIPTIONS} subscriptions, its limit; end some first.`;
  return new SidecarError("SESSION_OVERLOADED", message, { retryAfterSeconds: 1 });
}
