import { SidecarError } from "../../errors.ts";
import { outOfMemory } from "../../lane/failures.ts";
import type { MemoryHolder } from "../../memory/memory-budget.ts";
import type { Defects } from "../../observability/defects.ts";
import type { StatelessClient } from "../stateless-client.ts";
import type { StatelessCall } from "../stateless-request.ts";
import { LegacySubscription } from "./legacy-subscription.ts";
import { readFilter } from "./subscription-filter.ts";
import { Subscription } from "./subscription.ts";

/** The maximum number of subscriptions of one client. */
const MAX_SUBSCRIPTIONS = 256;

/** The open subscriptions of all clients without sessions, at servers of either era (MCP 2026-07-28, server/subscriptions). */
export class StatelessSubscriptions {
  readonly #defects: Pick<Defects, "recover" | "guard">;
  readonly #nowMs: () => number;
  readonly #open = new Map<Subscription, { readonly client: StatelessClient; end(reason: string): void }>();

  constructor(defects: Pick<Defects, "recover" | "guard">, nowMs: () => number) {
    this.#defects = defects;
    this.#nowMs = nowMs;
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
      this.#open.get(subscription)?.end("the client has left");
      this.#open.delete(subscription);
    });
    if (handshake.era === "modern") {
      const cancel = routing.subscribe(subscription, request, memory);
      if (cancel === undefined) return exchange.fail(outOfMemory("The request was not sent."));
      this.#open.set(subscription, { client, end: cancel });
      return;
    }
    const later = (run: () => void): void => void setImmediate(() => this.#defects.guard("subscription", run));
    const upstream = new LegacySubscription(subscription, memory, lane, filter, later);
    this.#open.set(subscription, { client, end: () => upstream.end() });
    void upstream.start(this.#nowMs()).catch((error: unknown) => {
      this.#defects.recover("subscription", error, () => subscription.end());
    });
  }

  /** Ends those of a holder gracefully; all by default. */
  end(holder?: MemoryHolder): void {
    for (const [subscription, { client }] of this.#open) {
      if (holder === undefined || client.memory.holder === holder) subscription.end();
    }
  }
}

function tooMany(): SidecarError {
  const message = `This client has ${MAX_SUBSCRIPTIONS} subscriptions, its limit; end some first.`;
  return new SidecarError("SESSION_OVERLOADED", message, { retryAfterSeconds: 1 });
}
