import { setImmediate as nextTurn } from "node:timers/promises";
import { type Context, onDrain } from "../context.ts";
import { readCapabilities } from "../mcp/capabilities.ts";
import { findPath } from "../json/read.ts";
import { SidecarError } from "../mcp/errors.ts";
import { readMessage, Slot } from "../mcp/message.ts";
import { type MemoryAccount, type MemoryHolder, type Reservation, textMemoryBytes } from "../memory.ts";
import { Reply, type ReplyTarget } from "../session/reply.ts";
import { Timer } from "../timers.ts";
import { outOfMemory } from "./failures.ts";
import { internalRequest } from "./call.ts";
import type { Lane } from "./lane.ts";
import { Caller } from "../session/session.ts";
import type { StatelessRequest } from "./request-check.ts";
import { accepts, contains, filterMembers, readFilter, type SubscriptionFilter, supportedPart } from "../mcp/subscription-filter.ts";
import { withSubscriptionId } from "../mcp/translate.ts";
import { acknowledge, end, ModernSubscription } from "./subscriptions.ts";

/** All requests of a subscription at once would exceed the limits of the lane. */
const MAX_IN_FLIGHT = 16;

const MAX_PENDING = 1000;

/** A subscription at a server with sessions. To its lane it is a client of its own. */
class LegacySubscription extends Caller {
  readonly #reply: Reply;
  readonly #lane: Lane;
  #accepted: SubscriptionFilter;
  /** Collects notifications before the acknowledgement, or of this turn of the event loop. */
  readonly #pending = new Set<string>();
  readonly #pendingMemory: Reservation;
  #isAcknowledged = false;

  constructor(reply: Reply, lane: Lane, filter: SubscriptionFilter, memory: MemoryAccount) {
    super(memory);
    this.#reply = reply;
    this.#lane = lane;
    this.#pendingMemory = memory.hold("unread", 0);
    this.#accepted = supportedPart(filter, lane.calls.capabilities);
  }

  /** Fails if a request could not be sent. */
  async start(): Promise<void> {
    this.#lane.routing.onListener(this);
    const wanted = this.#accepted.uris.values();
    const uris = new Set<string>();
    const subscribeInTurn = async (): Promise<void> => {
      for (const uri of wanted) {
        if (this.#reply.isFinished) return;
        const outcome = await this.#subscribe(uri);
        // Otherwise the client would take it for a refusal of the server.
        if (outcome instanceof SidecarError && !outcome.details.sent) return this.#reply.fail(outcome);
        if (outcome === "accepted") uris.add(uri);
      }
    };
    await Promise.all(Array.from({ length: Math.min(MAX_IN_FLIGHT, this.#lane.context.config.maxSessionRequests) }, subscribeInTurn));
    if (this.#reply.isFinished) return;
    this.#accepted = { ...this.#accepted, uris };
    acknowledge(this.#reply, JSON.stringify(filterMembers(this.#accepted)));
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
    // Beyond so many different changes at once, a client would not catch up.
    if (this.#pending.size >= MAX_PENDING || this.#pending.has(text)) return;
    if (this.#pendingMemory.tryGrow(textMemoryBytes(text))) this.#pending.add(text);
  }

  #notify(): void {
    const texts = [...this.#pending];
    this.#pending.clear();
    this.#pendingMemory.resize(0);
    for (const text of texts) {
      const message = readMessage(text);
      if (message.kind !== "notification") continue;
      if (accepts(this.#accepted, message.method, message.outline.stringAt(Slot.uri)))
        this.#reply.emit(withSubscriptionId(text, this.#reply.idText));
    }
  }

  /** Ends gracefully if the restarted server cannot serve what was acknowledged. */
  override onRestarted(initializeResult: string | undefined): void {
    const supported = supportedPart(this.#accepted, readCapabilities(initializeResult ?? "{}"));
    if (initializeResult === undefined) end(this.#reply);
    else if (!this.#isAcknowledged) this.#accepted = supported;
    else if (!contains(supported, this.#accepted)) end(this.#reply);
  }

  #subscribe(uri: string): Promise<"accepted" | "refused" | SidecarError> {
    return new Promise((resolve) => {
      const { context } = this.#lane;
      const finish: ReplyTarget["finish"] = (outcome) => {
        if (outcome instanceof SidecarError) resolve(outcome);
        else if (outcome !== undefined) resolve(findPath(outcome, 0, ["result"]) === undefined ? "refused" : "accepted");
        return undefined;
      };
      this.#lane.request(this, new Reply(context, "0", context.nowMs(), { finish }), internalRequest("resources/subscribe", { uri }));
    });
  }
}

/** All subscriptions of a client may begin, or end, in the same turn. */
const MAX_SUBSCRIPTIONS = 256;
const MAX_CLIENT_URIS = 10_000;
/** Limits the URIs of one subscription at a server with sessions. A client is told which are accepted. */
const MAX_URIS = 1024;
/** The text may be in memory several times: as a request and as filters. */
const SUBSCRIPTION_BYTES = 1024;
const URI_BYTES = 256;
const TEXT_COPIES = 3;

/** The subscriptions of clients without sessions, at servers of either era (MCP 2026-07-28, server/subscriptions). */
export class StatelessSubscriptions {
  readonly #context: Context;
  readonly #open = new Map<Reply, { readonly client: Caller; readonly uriCount: number }>();
  readonly #starting = new WeakMap<Caller, Promise<void>>();

  constructor(context: Context) {
    this.#context = context;
    onDrain(context, "subscription", () => this.end());
  }

  get size(): number {
    return this.#open.size;
  }

  listen(stateless: StatelessRequest, lane: Lane): void {
    const { request, reply, client } = stateless;
    const { memory } = client;
    // A client at its limit costs no more than this.
    const own = this.#open.values().filter((each) => each.client === client);
    const [count, uriCount] = own.reduce(([sum, uris], each) => [sum + 1, uris + each.uriCount], [0, 0]);
    if (count >= MAX_SUBSCRIPTIONS || uriCount >= MAX_CLIENT_URIS) return reply.fail(tooMany());
    const filter = readFilter(request);
    if (filter instanceof SidecarError) return reply.fail(filter);
    const { calls, routing } = lane;
    const isModern = calls.lastHandshake?.era === "modern";
    const uris = isModern ? filter.uris : new Set([...filter.uris].slice(0, MAX_URIS));
    if (uriCount + uris.size > MAX_CLIENT_URIS) return reply.fail(tooMany());
    if (!reply.isListening) return reply.fail(new SidecarError("NOT_ACCEPTABLE", "Accept must allow text/event-stream."));
    const bytes = SUBSCRIPTION_BYTES + URI_BYTES * uris.size + TEXT_COPIES * textMemoryBytes(request.text);
    const held = memory.reserve("subscriptions", bytes);
    if (held === undefined) return reply.fail(outOfMemory());
    const { subscriptions } = routing.state;
    const subscription = isModern
      ? new ModernSubscription(calls, stateless)
      : new LegacySubscription(reply, lane, { ...filter, uris }, memory);
    this.#open.set(reply, { client, uriCount: uris.size });
    reply.onEnd = () => {
      if (subscription instanceof ModernSubscription) subscriptions.delete(subscription);
      subscription.cancel();
      held.release();
      this.#open.delete(reply);
    };
    if (subscription instanceof LegacySubscription) void this.#start(subscription, reply, uris.size > 0 ? client : undefined);
    else {
      subscriptions.add(subscription);
      if (calls.queue.isReady) subscription.open();
    }
  }

  /** The subscriptions of one client start one after another. Else they could use all places of the server. Never rejects. */
  async #start(subscription: LegacySubscription, reply: Reply, client: Caller | undefined): Promise<void> {
    const former = client && this.#starting.get(client);
    const { promise, resolve } = Promise.withResolvers<void>();
    if (client !== undefined) this.#starting.set(client, promise);
    const { config, defects, nowMs } = this.#context;
    // Begins the stream even without an acknowledgement.
    const timer = new Timer(this.#context, () => reply.keepAlive());
    timer.set(nowMs() + config.streamAfterMs);
    try {
      await former;
      // If the server watches all of its resources already, a subscription begins without an answer of the server.
      await nextTurn();
      if (!reply.isFinished) await subscription.start();
    } catch (error) {
      defects.recover("subscription", error, () => end(reply));
    } finally {
      timer.clear();
      resolve();
    }
  }

  end(holder?: MemoryHolder): void {
    for (const [reply, { client }] of this.#open) if (holder === undefined || client.memory.holder === holder) end(reply);
  }
}

function tooMany(): SidecarError {
  const message = `This client would have more than ${MAX_SUBSCRIPTIONS} subscriptions, or more than ${MAX_CLIENT_URIS} resources in them; end some first. The request was not sent.`;
  return new SidecarError("SESSION_OVERLOADED", message, { retryAfterSeconds: 1 });
}
