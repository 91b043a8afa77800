import type { SidecarError } from "../../errors.ts";
import type { OpenCall } from "../../lane/internal/internal-calls.ts";
import type { Dispatch } from "../../lane/dispatch.ts";
import { applyEdits } from "../../json/edit.ts";
import { findMembers, findPath } from "../../json/find.ts";
import { MetaKey } from "../../protocol/meta-key.ts";
import { type NotificationMessage, type RequestMessage, Slot } from "../../protocol/message.ts";
import type { Reservation } from "../../memory/memory-budget.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import type { Subscription } from "./subscription.ts";
import { contains, listChanges, readFilter, type SubscriptionFilter } from "./subscription-filter.ts";

const EMPTY: SubscriptionFilter = { lists: new Set(), uris: new Set(), tasks: new Set() };

/** A subscription at a server without sessions. It is opened again at each generation, until the client or the server ends it. */
export class ModernSubscription implements Exchange {
  readonly idText = "0";
  readonly acceptedAtMs: number;
  readonly sharedBy = 1;
  readonly isListening = false;
  readonly #subscription: Subscription;
  readonly #request: RequestMessage;
  readonly #dispatch: Dispatch;
  readonly #memory: Reservation;
  readonly #onEnd: (subscription: ModernSubscription) => void;
  #open: OpenCall | undefined;
  /** The part that the server has acknowledged; undefined before the first acknowledgement. */
  #accepted: SubscriptionFilter | undefined;

  constructor(options: {
    readonly subscription: Subscription;
    readonly request: RequestMessage;
    readonly dispatch: Dispatch;
    readonly memory: Reservation;
    readonly nowMs: number;
    readonly onEnd: (subscription: ModernSubscription) => void;
  }) {
    this.#subscription = options.subscription;
    this.#request = options.request;
    this.#dispatch = options.dispatch;
    this.#memory = options.memory;
    this.#onEnd = options.onEnd;
    this.acceptedAtMs = options.nowMs;
  }

  /** The id of its request at the current generation; undefined if there is none. */
  get wireId(): number | undefined {
    return this.#open?.wireId;
  }

  /** Opens the subscription at the current generation. */
  open(): void {
    this.#open = this.#dispatch.internal.open(this, this.#request);
  }

  /** Forgets the lost generation. */
  onLost(): void {
    this.#open = undefined;
  }

  onNotification({ method, text, outline }: NotificationMessage): void {
    if (method === "notifications/cancelled") return this.end();
    if (method !== "notifications/subscriptions/acknowledged") return this.#subscription.notify(text);
    const former = this.#accepted;
    const params = outline.start(Slot.params);
    const span = findMembers(text, params, ["notifications"]).spans[0];
    const read = span === undefined ? EMPTY : readFilter({ text, outline });
    this.#accepted = "lists" in read ? read : EMPTY;
    if (former === undefined) this.#subscription.acknowledge(span === undefined ? "{}" : text.slice(span.start, span.end));
    // The client relies on what was acknowledged before the restart.
    else if (contains(this.#accepted, former)) for (const change of listChanges(former.lists)) this.#subscription.notify(change);
    else this.end();
  }

  /** Ends the subscription at the server, because the client has left or the sidecar drains. */
  cancel(reason: string): void {
    this.#open?.cancel(reason);
    this.#finish();
  }

  /** Ends the subscription gracefully, because the server no longer serves it. */
  end(): void {
    this.#open?.cancel("ended");
    this.#subscription.end();
    this.#finish();
  }

  respond(body: string): void {
    const [result, error] = findMembers(body, 0, ["result", "error"]).spans;
    if (error !== undefined) this.#subscription.fail(body.slice(error.start, error.end));
    else if (result !== undefined) this.#subscription.end(withId(body.slice(result.start, result.end), this.#subscription.idText));
    this.#finish();
  }

  fail({ code }: SidecarError): void {
    this.#open = undefined;
    // If the generation was lost, the next one gets the request again.
    if (code !== "UPSTREAM_EXITED") this.end();
  }

  emit(): boolean {
    return false;
  }

  keepAlive(): void {
    // The client's own stream is kept alive.
  }

  dismiss(): void {
    // Only the sidecar cancels it.
  }

  onDisconnect(): void {
    // The subscription of the client observes its connection.
  }

  #finish(): void {
    this.#open = undefined;
    this.#memory.release();
    this.#onEnd(this);
  }
}

function withId(resultText: string, idText: string): string {
  const span = findPath(resultText, 0, ["_meta", MetaKey.subscriptionId]);
  return span === undefined ? resultText : applyEdits(resultText, [{ ...span, text: idText }]);
}
