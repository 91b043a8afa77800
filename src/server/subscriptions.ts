import { applyEdits } from "../json/edit.ts";
import { findPath } from "../json/read.ts";
import { SidecarError } from "../mcp/errors.ts";
import { MetaKey, type NotificationMessage, type RequestMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { contains, listChanges, readFilter, type SubscriptionFilter } from "../mcp/subscription-filter.ts";
import { withSubscriptionId } from "../mcp/translate.ts";
import type { MemoryHolder } from "../memory.ts";
import type { Reply } from "../session/reply.ts";
import type { Call, Outcome } from "./call.ts";
import type { Calls } from "./calls.ts";
import type { StatelessRequest } from "./request-check.ts";

// A client's `subscriptions/listen` has a stream of notifications with its id, which ends with a result (MCP 2026-07-28, basic/utilities/subscriptions).

function metaOf({ idText }: Reply): string {
  return `"_meta":{${JSON.stringify(MetaKey.subscriptionId)}:${idText}}`;
}

export function acknowledge(reply: Reply, acceptedText: string): void {
  reply.keepAlive();
  const params = `{${metaOf(reply)},"notifications":${acceptedText}}`;
  reply.emit(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":${params}}`);
}

export function end(reply: Reply): void {
  reply.answer("result", `{"resultType":"complete",${metaOf(reply)}}`);
}

const EMPTY: SubscriptionFilter = { lists: new Set(), uris: new Set(), tasks: new Set() };

/** Each run of a server without sessions gets the request again, until the client or the server ends it. */
export class ModernSubscription {
  readonly #holder: MemoryHolder;
  readonly #reply: Reply;
  readonly #calls: Calls;
  readonly #request: RequestMessage;
  #call: Call | undefined;
  #accepted: SubscriptionFilter | undefined;

  constructor(calls: Calls, { reply, request, client }: StatelessRequest) {
    [this.#calls, this.#reply, this.#request, this.#holder] = [calls, reply, request, client.memory.holder];
  }

  get wireId(): number | undefined {
    return this.#call?.wireId;
  }

  open(): void {
    this.#calls.sent.noteClient(this.#holder);
    this.#call = this.#calls.openStream(this.#request, (_hasResult, outcome) => this.#onEnded(outcome));
  }

  onNotification({ method, text, outline }: NotificationMessage): void {
    if (method === "notifications/cancelled") return this.end();
    if (method !== "notifications/subscriptions/acknowledged") return this.#notify(text);
    const former = this.#accepted;
    const span = findPath(text, outline.start(Slot.params), ["notifications"]);
    const read = span === undefined ? EMPTY : readFilter({ text, outline });
    this.#accepted = "lists" in read ? read : EMPTY;
    if (former === undefined) acknowledge(this.#reply, span === undefined ? "{}" : text.slice(span.start, span.end));
    // The client relies on what was acknowledged before the restart.
    else if (contains(this.#accepted, former)) for (const change of listChanges(former.lists)) this.#notify(change);
    else this.end();
  }

  end(): void {
    end(this.#reply);
  }

  cancel(): void {
    this.#calls.endStream(this.#call, "the subscription has ended");
  }

  #onEnded(outcome: Outcome): void {
    if (outcome instanceof SidecarError) {
      // If the server was lost, the next one gets the request again.
      if (outcome.code !== "UPSTREAM_EXITED") this.end();
    } else if (typeof outcome !== "string" && "outline" in outcome) this.#onResponse(outcome);
  }

  #onResponse({ isError, outline }: ResponseMessage): void {
    if (isError) return this.#reply.answer("error", outline.textAt(Slot.error) ?? "");
    const resultText = outline.textAt(Slot.result) ?? "";
    const id = findPath(resultText, 0, ["_meta", MetaKey.subscriptionId]);
    const edits = id === undefined ? [] : [{ ...id, text: this.#reply.idText }];
    this.#reply.answer("result", applyEdits(resultText, edits));
  }

  #notify(text: string): void {
    this.#reply.emit(withSubscriptionId(text, this.#reply.idText));
  }
}
