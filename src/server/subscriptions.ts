import type { Context } from "../context.ts";
import { applyEdits } from "../json/edit.ts";
import { findMembers, findPath } from "../json/find.ts";
import { SidecarError } from "../mcp/errors.ts";
import { MetaKey, type NotificationMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import { contains, listChanges, readFilter, type SubscriptionFilter } from "../mcp/subscription-filter.ts";
import { withSubscriptionId } from "../mcp/translate.ts";
import type { Reservation } from "../memory.ts";
import type { Reply, ReplyTarget } from "../session/reply.ts";
import type { Calls } from "./calls.ts";
import { internalReply, type OpenCall } from "./internal-calls.ts";

/** A client's `subscriptions/listen`: a stream of notifications that ends with a result (MCP 2026-07-28, basic/utilities/subscriptions). */
export class Subscription {
  readonly #reply: Reply;
  #onEnd: (() => void) | undefined;
  isEnded = false;

  /** @param onEnd called once at the end, also if the client has left. */
  constructor(reply: Reply, onEnd: () => void) {
    this.#reply = reply;
    this.#onEnd = onEnd;
    reply.onDisconnect = () => this.#finish();
  }

  /** The JSON text of the id, which all its messages have. */
  get idText(): string {
    return this.#reply.idText;
  }

  acknowledge(acceptedText: string): void {
    this.#reply.keepAlive();
    const meta = `"_meta":{${this.#idMember}}`;
    this.#emit(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{${meta},"notifications":${acceptedText}}}`);
  }

  /** Sends a notification of the server with the id of this subscription. */
  notify(text: string): void {
    this.#emit(withSubscriptionId(text, this.idText));
  }

  end(): void {
    this.respond("result", `{"resultType":"complete","_meta":{${this.#idMember}}}`);
  }

  /** Ends the stream with a response of the server. @param text the JSON text of the member. */
  respond(member: "result" | "error", text: string): void {
    if (this.isEnded) return;
    this.#reply.respond(`{"jsonrpc":"2.0","id":${this.idText},"${member}":${text}}`);
    this.#finish();
  }

  /** Begins a stream that has waited for long for its acknowledgement. */
  keepAlive(): void {
    if (!this.isEnded) this.#reply.keepAlive();
  }

  refuse(error: SidecarError): void {
    if (this.isEnded) return;
    this.#reply.fail(error);
    this.#finish();
  }

  get #idMember(): string {
    return `${JSON.stringify(MetaKey.subscriptionId)}:${this.idText}`;
  }

  #emit(text: string): void {
    if (!this.isEnded) this.#reply.emit(text);
  }

  #finish(): void {
    this.isEnded = true;
    this.#onEnd?.();
    this.#onEnd = undefined;
  }
}

const EMPTY: SubscriptionFilter = { lists: new Set(), uris: new Set(), tasks: new Set() };

/** A subscription at a server without sessions. It is opened again at each generation, until the client or the server ends it. */
export class ModernSubscription implements ReplyTarget {
  readonly #subscription: Subscription;
  readonly #context: Context;
  readonly #request: RequestMessage;
  readonly #calls: Calls;
  readonly #memory: Reservation;
  readonly #onEnd: (subscription: ModernSubscription) => void;
  #open: OpenCall | undefined;
  /** The part that the server has acknowledged; undefined before the first acknowledgement. */
  #accepted: SubscriptionFilter | undefined;

  constructor(
    context: Context,
    calls: Calls,
    subscription: Subscription,
    request: RequestMessage,
    memory: Reservation,
    onEnd: (subscription: ModernSubscription) => void,
  ) {
    this.#context = context;
    this.#calls = calls;
    this.#subscription = subscription;
    this.#request = request;
    this.#memory = memory;
    this.#onEnd = onEnd;
  }

  /** The id of its request at the current generation; undefined if there is none. */
  get wireId(): number | undefined {
    return this.#open?.wireId;
  }

  open(): void {
    this.#open = this.#calls.open(internalReply(this.#context, this), this.#request);
  }

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
  cancel(): void {
    this.#open?.cancel("the subscription has ended");
    this.#finish();
  }

  /** Ends the subscription gracefully, because the server no longer serves it. */
  end(): void {
    this.#open?.cancel("ended");
    this.#subscription.end();
    this.#finish();
  }

  finish(outcome: string | SidecarError | undefined): undefined {
    if (outcome instanceof SidecarError) {
      this.#open = undefined;
      // If the generation was lost, the next one gets the request again.
      if (outcome.code !== "UPSTREAM_EXITED") this.end();
    } else if (outcome !== undefined) this.#onResponse(outcome);
  }

  #onResponse(text: string): void {
    const [result, error] = findMembers(text, 0, ["result", "error"]).spans;
    if (error !== undefined) this.#subscription.respond("error", text.slice(error.start, error.end));
    else if (result !== undefined) {
      const resultText = text.slice(result.start, result.end);
      const id = findPath(resultText, 0, ["_meta", MetaKey.subscriptionId]);
      const edits = id === undefined ? [] : [{ ...id, text: this.#subscription.idText }];
      this.#subscription.respond("result", applyEdits(resultText, edits));
    }
    this.#finish();
  }

  #finish(): void {
    this.#open = undefined;
    this.#memory.release();
    this.#onEnd(this);
  }
}
