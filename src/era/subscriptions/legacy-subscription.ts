import { randomUUID } from "node:crypto";
import { SidecarError } from "../../errors.ts";
import { InternalExchange, internalRequest } from "../../lane/internal/internal-exchange.ts";
import { readCapabilities } from "../../lane/handshake/capabilities.ts";
import type { Lane } from "../../lane/lane.ts";
import type { MemoryAccount, Reservation } from "../../memory/memory-budget.ts";
import { textMemoryBytes } from "../../memory/memory-size.ts";
import { readMessage, Slot } from "../../protocol/message.ts";
import type { Caller } from "../../sessions/caller.ts";
import type { Subscription } from "./subscription.ts";
import { accepts, contains, filterText, type SubscriptionFilter, supportedPart } from "./subscription-filter.ts";

/** The number of URIs of a subscription that are subscribed at the same time. All of them at once would exceed the limits of the lane. */
const MAX_IN_FLIGHT = 16;

/** The maximum number of different notifications that wait. */
const MAX_PENDING = 1000;

export interface LegacySubscriptionOptions {
  readonly subscription: Subscription;
  readonly memory: MemoryAccount;
  /** That of the filter. It is released at the end. */
  readonly filterMemory: Reservation;
  readonly lane: Lane;
  readonly filter: SubscriptionFilter;
  /** Runs a function in the next turn of the event loop. */
  readonly later: (run: () => void) => void;
}

/** The subscription of a stateless client on a server with sessions. To its lane it is a caller of its own, which subscribes to each URI. */
export class LegacySubscription implements Caller {
  readonly id = randomUUID();
  readonly memory: MemoryAccount;
  readonly #subscription: Subscription;
  readonly #lane: Lane;
  #accepted: SubscriptionFilter;
  #callsInFlight = 0;
  /** The notifications before the acknowledgement, or those of this turn of the event loop. */
  readonly #pending = new Set<string>();
  readonly #pendingMemory: Reservation;
  readonly #filterMemory: Reservation;
  #isAcknowledged = false;
  readonly #later: (run: () => void) => void;

  constructor({ subscription, memory, filterMemory, lane, filter, later }: LegacySubscriptionOptions) {
    this.#filterMemory = filterMemory;
    this.#later = later;
    this.#subscription = subscription;
    this.memory = memory;
    this.#lane = lane;
    this.#pendingMemory = memory.hold("unread", 0);
    this.#accepted = supportedPart(filter, readCapabilities(lane.lastHandshake?.resultText ?? "{}"));
  }

  get callsInFlight(): number {
    return this.#callsInFlight;
  }

  beginCall(): void {
    this.#callsInFlight++;
  }

  endCall(): void {
    this.#callsInFlight--;
  }

  /** Subscribes at the server, then acknowledges the part that was accepted. Fails if a request could not be sent. */
  async start(nowMs: number): Promise<void> {
    this.#lane.addListener(this);
    const wanted = this.#accepted.uris.values();
    const uris = new Set<string>();
    const subscribeInTurn = async (): Promise<void> => {
      for (const uri of wanted) {
        if (this.#subscription.isEnded) return;
        const outcome = await this.#subscribe(uri, nowMs);
        // Otherwise the client would take it for a refusal of the server.
        if (outcome instanceof SidecarError && !outcome.details.sent) return this.#subscription.refuse(outcome);
        if (outcome === "accepted") uris.add(uri);
      }
    };
    await Promise.all(Array.from({ length: Math.min(MAX_IN_FLIGHT, this.#lane.limits.maxSessionRequests) }, subscribeInTurn));
    if (this.#subscription.isEnded) return;
    this.#accepted = { ...this.#accepted, uris };
    this.#subscription.acknowledge(filterText(this.#accepted));
    this.#isAcknowledged = true;
    this.#notify();
  }

  /** Ends the subscriptions at the server. */
  end(): void {
    this.#pendingMemory.release();
    this.#filterMemory.release();
    this.#lane.endCaller(this);
  }

  deliver(text: string): void {
    this.deliverOnce(text);
  }

  /** A server may announce a change many times in one turn, to many subscriptions. Each gets it once. */
  deliverOnce(text: string): void {
    // The acknowledgement comes first (MCP 2026-07-28, basic/utilities/subscriptions).
    if (this.#isAcknowledged && this.#pending.size === 0) this.#later(() => this.#notify());
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

  #subscribe(uri: string, nowMs: number): Promise<"accepted" | "refused" | SidecarError> {
    return new Promise((resolve) => {
      const onResult = (resultText: string | undefined): void => resolve(resultText === undefined ? "refused" : "accepted");
      const exchange = new InternalExchange(nowMs, (_reason, error) => resolve(error ?? "refused"), onResult);
      this.#lane.request(this, exchange, internalRequest("resources/subscribe", { uri }));
    });
  }
}
