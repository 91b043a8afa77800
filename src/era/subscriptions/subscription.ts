import type { SidecarError } from "../../errors.ts";
import { applyEdits, setMembers } from "../../json/edit.ts";
import { findMembers } from "../../json/find.ts";
import { MetaKey } from "../../protocol/meta-key.ts";
import type { Exchange } from "../../sessions/exchange.ts";

/** A client's `subscriptions/listen`: a stream of notifications that ends with a result (MCP 2026-07-28, basic/utilities/subscriptions). */
export class Subscription {
  readonly #exchange: Exchange;
  #onEnd: (() => void) | undefined;
  #isEnded = false;

  /** @param onEnd called once at the end, also if the client has left. */
  constructor(exchange: Exchange, onEnd: () => void) {
    this.#exchange = exchange;
    this.#onEnd = onEnd;
    exchange.onDisconnect(() => this.#finish());
  }

  /** The JSON text of the id, which all its messages have. */
  get idText(): string {
    return this.#exchange.idText;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  acknowledge(filterText: string): void {
    this.#exchange.keepAlive();
    const meta = `"_meta":{${this.#idMember}}`;
    this.#emit(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{${meta},"notifications":${filterText}}}`);
  }

  /** Sends a notification of the server with the id of this subscription. */
  notify(text: string): void {
    this.#emit(withSubscriptionId(text, this.idText));
  }

  /** Ends the stream gracefully. */
  end(resultText = `{"resultType":"complete","_meta":{${this.#idMember}}}`): void {
    if (this.#isEnded) return;
    this.#exchange.respond(`{"jsonrpc":"2.0","id":${this.idText},"result":${resultText}}`);
    this.#finish();
  }

  /** Begins a stream that has waited for long for its acknowledgement. */
  keepAlive(): void {
    if (!this.#isEnded) this.#exchange.keepAlive();
  }

  /** Ends with an error of the sidecar. */
  refuse(error: SidecarError): void {
    if (this.#isEnded) return;
    this.#exchange.fail(error);
    this.#finish();
  }

  /** Ends the stream with an error of the server. @param errorText the JSON text of the error object. */
  fail(errorText: string): void {
    if (this.#isEnded) return;
    this.#exchange.respond(`{"jsonrpc":"2.0","id":${this.idText},"error":${errorText}}`);
    this.#finish();
  }

  get #idMember(): string {
    return `${JSON.stringify(MetaKey.subscriptionId)}:${this.idText}`;
  }

  #emit(text: string): void {
    if (!this.#isEnded) this.#exchange.emit(text);
  }

  #finish(): void {
    this.#isEnded = true;
    this.#onEnd?.();
    this.#onEnd = undefined;
  }
}

/** Returns a notification with this subscription id in the `_meta` of its params. */
function withSubscriptionId(text: string, idText: string): string {
  const params = findMembers(text, 0, ["params"]).spans[0];
  const meta = params === undefined ? undefined : findMembers(text, params.start, ["_meta"]).spans[0];
  if (meta !== undefined && text[meta.start] === "{") {
    return applyEdits(text, setMembers(text, meta.start, [[MetaKey.subscriptionId, idText]]));
  }
  const metaText = `{${JSON.stringify(MetaKey.subscriptionId)}:${idText}}`;
  if (params === undefined) return applyEdits(text, setMembers(text, 0, [["params", `{"_meta":${metaText}}`]]));
  return applyEdits(text, setMembers(text, params.start, [["_meta", metaText]]));
}
