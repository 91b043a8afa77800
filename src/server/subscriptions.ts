import type { Context } from "../context.ts";
import { applyEdits } from "../json/edit.ts";
import { findMembers, findPath } from "../json/find.ts";
import { SidecarError } from "../mcp/errors.ts";
import { MetaKey, type NotificationMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import { contains, listChanges, readFilter, type SubscriptionFilter } from "../mcp/subscription-filter.ts";
import { withSubscriptionId } from "../mcp/translate.ts";
import type { MemoryHolder } from "../memory.ts";
import type { Reply, ReplyTarget } from "../session/reply.ts";
import type { Call } from "./call.ts";
import type { Calls } from "./calls.ts";
import { internalReply } from "./internal-calls.ts";
import type { StatelessRequest } from "./stateless-client.ts";

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

/** A subscription at a server without sessions. Each run of it gets the request again, until the client or the server ends it. */
export class ModernSubscription implements ReplyTarget {
  readonly #holder: MemoryHolder;
  readonly #subscription: Subscription;
  readonly #context: Context;
  readonly #calls: Calls;
  readonly #request: RequestMessage;
  #call: Call | undefined;
  /** The part that the server has acknowledged; undefined before the first acknowledgement. */
  #accepted: SubscriptionFilter | undefined;

  constructor(subscription: Subscription, context: Context, calls: Calls, { request, memory }: StatelessRequest) {
    [this.#subscription, this.#context, this.#calls] = [subscription, context, calls];
    [this.#request, this.#holder] = [request, memory.holder];
  }

  /** The id of its request at the current server; undefined if there is none. */
  get wireId(): number | undefined {
    return this.#call?.wireId;
  }

  open(): void {
    this.#calls.noteClient(this.#holder);
    this.#call = this.#calls.open(internalReply(this.#context, this), this.#request);
  }

  onLost(): void {
    this.#call = undefined;
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

  /** Ends the subscription gracefully, because the server no longer serves it. */
  end(): void {
    this.#subscription.end();
  }

  /** Ends the request at the server, because the subscription has ended. */
  cancel(): void {
    this.#calls.endOpen(this.#call, "the subscription has ended");
    this.#call = undefined;
  }

  finish(outcome: string | SidecarError | undefined): undefined {
    // If the server was lost, the next one gets the request again.
    if (outcome instanceof SidecarError && outcome.code === "UPSTREAM_EXITED") this.#call = undefined;
    else if (outcome instanceof SidecarError) this.end();
    else if (outcome !== undefined) this.#onResponse(outcome);
  }

  #onResponse(text: string): void {
    const [result, error] = findMembers(text, 0, ["result", "error"]).spans;
    if (error !== undefined) return this.#subscription.respond("error", text.slice(error.start, error.end));
    if (result === undefined) return this.end();
    const resultText = text.slice(result.start, result.end);
    const id = findPath(resultText, 0, ["_meta", MetaKey.subscriptionId]);
    const edits = id === undefined ? [] : [{ ...id, text: this.#subscription.idText }];
    this.#subscription.respond("result", applyEdits(resultText, edits));
  }
}
