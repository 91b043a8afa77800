import { setImmediate as nextTurn } from "node:timers/promises";
import { type Context, onDrain } from "../context.ts";
import { readCapabilities } from "../mcp/capabilities.ts";
import { SidecarError } from "../mcp/errors.ts";
import { readMessage, Slot } from "../mcp/message.ts";
import { type MemoryAccount, type MemoryHolder, type Reservation, textMemoryBytes } from "../memory.ts";
import { Timer } from "../timers.ts";
import { outOfMemory } from "./failures.ts";
import { internalReply, internalRequest, resultTo } from "./internal-calls.ts";
import type { Lane } from "./lane.ts";
import { StatelessClient, type StatelessRequest } from "./stateless-client.ts";
import { accepts, contains, filterMembers, readFilter, type SubscriptionFilter, supportedPart } from "../mcp/subscription-filter.ts";
import { ModernSubscription, Subscription } from "./subscriptions.ts";

/** The number of URIs of a subscription that are subscribed at the same time. All of them at once would exceed the limits of the lane. */
const MAX_IN_FLIGHT = 16;

/** The maximum number of different notifications that wait. */
const MAX_PENDING = 1000;

/** The subscription of a stateless client on a server with sessions. To its lane it is a client of its own, which subscribes to each URI. */
class LegacySubscription extends StatelessClient {
  readonly #subscription: Subscription;
  readonly #lane: Lane;
  #accepted: SubscriptionFilter;
  /** The notifications before the acknowledgement, or those of this turn of the event loop. */
  readonly #pending = new Set<string>();
  readonly #pendingMemory: Reservation;
  #isAcknowledged = false;

  constructor(subscription: Subscription, lane: Lane, filter: SubscriptionFilter, memory: MemoryAccount) {
    super(memory);
    this.#subscription = subscription;
    this.#lane = lane;
    this.#pendingMemory = memory.hold("unread", 0);
    this.#accepted = supportedPart(filter, readCapabilities(lane.calls.lastHandshake?.resultText ?? "{}"));
  }

  /** Subscribes at the server, then acknowledges the part that was accepted. Fails if a request could not be sent. */
  async start(): Promise<void> {
    this.#lane.routing.onListener(this);
    const wanted = this.#accepted.uris.values();
    const uris = new Set<string>();
    const subscribeInTurn = async (): Promise<void> => {
      for (const uri of wanted) {
        if (this.#subscription.isEnded) return;
        const outcome = await this.#subscribe(uri);
        // Otherwise the client would take it for a refusal of the server.
        if (outcome instanceof SidecarError && !outcome.details.sent) return this.#subscription.refuse(outcome);
        if (outcome === "accepted") uris.add(uri);
      }
    };
    await Promise.all(Array.from({ length: Math.min(MAX_IN_FLIGHT, this.#lane.context.config.maxSessionRequests) }, subscribeInTurn));
    if (this.#subscription.isEnded) return;
    this.#accepted = { ...this.#accepted, uris };
    this.#subscription.acknowledge(JSON.stringify(filterMembers(this.#accepted)));
    this.#isAcknowledged = true;
    this.#notify();
  }

  cancel(): void {
    this.#pendingMemory.release();
    this.#lane.endCaller(this);
  }

  override deliver(text: string): void {
    this.deliverOnce(text);
  }

  /** A server may announce a change many times in one turn, to many subscriptions. Each gets it once. */
  override deliverOnce(text: string): void {
    // The acknowledgement comes first (MCP 2026-07-28, basic/utilities/subscriptions).
    if (this.#isAcknowledged && this.#pending.size === 0) {
      setImmediate(() => this.#lane.context.defects.guard("subscription", () => this.#notify()));
    }
    // A server may announce any number of different changes at once. Beyond these, a client would not catch up.
    if (this.#pending.size >= MAX_PENDING || this.#pending.has(text)) return;
    if (this.#pendingMemory.tryGrow(textMemoryBytes(text))) this.#pending.add(text);
  }

  #notify(): void {
    const texts = [...this.#pending];
    this.#pending.clear();
    this.#pendingMemory.resize(0);
    for (const text of texts) {
      const message = readMessage(text, "server");
      if (message.kind !== "notification") continue;
      if (accepts(this.#accepted, message.method, message.outline.stringAt(Slot.uri))) this.#subscription.notify(text);
    }
  }

  /** Ends gracefully if the restarted server cannot serve what was acknowledged. */
  onRestarted(initializeResult: string | undefined): void {
    const supported = supportedPart(this.#accepted, readCapabilities(initializeResult ?? "{}"));
    if (initializeResult === undefined) this.#subscription.end();
    else if (!this.#isAcknowledged) this.#accepted = supported;
    else if (!contains(supported, this.#accepted)) this.#subscription.end();
  }

  #subscribe(uri: string): Promise<"accepted" | "refused" | SidecarError> {
    return new Promise((resolve) => {
      const onResult = (resultText: string | undefined): void => resolve(resultText === undefined ? "refused" : "accepted");
      const target = resultTo(onResult, (_reason, error) => resolve(error ?? "refused"));
      this.#lane.request(this, internalReply(this.#lane.context, target), internalRequest("resources/subscribe", { uri }));
    });
  }
}

/** The maximum number of subscriptions of one client, and of the resources in all of them: they may all begin, or end, in the same turn. */
const MAX_SUBSCRIPTIONS = 256;
const MAX_CLIENT_URIS = 10_000;
/** The URIs that a server with sessions is asked to watch for one subscription. A client is told which are accepted. */
const MAX_URIS = 1024;
/** The memory of a subscription, and of each URI, besides the text; and how often the text may be in memory: as a request and as filters. */
const SUBSCRIPTION_BYTES = 1024;
const URI_BYTES = 256;
const TEXT_COPIES = 3;

/** The open subscriptions of all clients without sessions, at servers of either era (MCP 2026-07-28, server/subscriptions). */
export class StatelessSubscriptions {
  readonly #context: Context;
  readonly #open = new Map<Subscription, { readonly client: StatelessClient; readonly uriCount: number }>();
  /** The end of the last start of each client. */
  readonly #starting = new WeakMap<StatelessClient, Promise<void>>();

  constructor(context: Context) {
    this.#context = context;
    onDrain(context, "subscription", () => this.end());
  }

  get size(): number {
    return this.#open.size;
  }

  listen(stateless: StatelessRequest, client: StatelessClient, lane: Lane): void {
    const { request, reply, memory } = stateless;
    // A client at its limit costs no more than this.
    const own = this.#open.values().filter((each) => each.client === client);
    const [count, uriCount] = own.reduce(([sum, uris], each) => [sum + 1, uris + each.uriCount], [0, 0]);
    if (count >= MAX_SUBSCRIPTIONS || uriCount >= MAX_CLIENT_URIS) return reply.fail(tooMany());
    const filter = readFilter(request);
    if (filter instanceof SidecarError) return reply.fail(filter);
    const { calls, context, routing } = lane;
    const isModern = calls.lastHandshake?.era === "modern";
    const uris = isModern ? filter.uris : new Set([...filter.uris].slice(0, MAX_URIS));
    if (uriCount + uris.size > MAX_CLIENT_URIS) return reply.fail(tooMany());
    if (!reply.isListening) return reply.fail(new SidecarError("NOT_ACCEPTABLE", "Accept must allow text/event-stream."));
    const bytes = SUBSCRIPTION_BYTES + URI_BYTES * uris.size + TEXT_COPIES * textMemoryBytes(request.text);
    const held = memory.reserve("subscriptions", bytes);
    if (held === undefined) return reply.fail(outOfMemory());
    const { subscriptions } = routing.state;
    const subscription = new Subscription(reply, () => {
      if (atServer instanceof ModernSubscription) subscriptions.delete(atServer);
      atServer.cancel();
      held.release();
      this.#open.delete(subscription);
    });
    const atServer = isModern
      ? new ModernSubscription(subscription, context, calls, stateless)
      : new LegacySubscription(subscription, lane, { ...filter, uris }, memory);
    this.#open.set(subscription, { client, uriCount: uris.size });
    if (atServer instanceof LegacySubscription) void this.#start(atServer, subscription, uris.size > 0 ? client : undefined);
    else {
      subscriptions.add(atServer);
      if (calls.queue.isReady) atServer.open();
    }
  }

  /** The subscriptions of one client subscribe to their URIs one after another. Else it could use all places of the server. Never rejects. */
  async #start(upstream: LegacySubscription, subscription: Subscription, client: StatelessClient | undefined): Promise<void> {
    const former = client && this.#starting.get(client);
    const { promise, resolve } = Promise.withResolvers<void>();
    if (client !== undefined) this.#starting.set(client, promise);
    const { config, defects, nowMs, timers } = this.#context;
    // Begins the stream even without an acknowledgement.
    const timer = new Timer(timers, () => subscription.keepAlive());
    timer.set(nowMs() + config.streamAfterMs);
    try {
      await former;
      // If the server watches all of its resources already, a subscription begins without an answer of the server.
      await nextTurn();
      if (!subscription.isEnded) await upstream.start();
    } catch (error) {
      defects.recover("subscription", error, () => subscription.end());
    } finally {
      timer.clear();
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

function tooMany(): SidecarError {
  const message = `This client would have more than ${MAX_SUBSCRIPTIONS} subscriptions, or more than ${MAX_CLIENT_URIS} resources in them; end some first. The request was not sent.`;
  return new SidecarError("SESSION_OVERLOADED", message, { retryAfterSeconds: 1 });
}
