import { SidecarError } from "../errors.ts";
import type { ResponseMessage } from "../protocol/message.ts";
import type { Exchange } from "./exchange.ts";

/**
 * Rewrites a response.
 *
 * @param body a JSON-RPC response as the client would read it.
 * @param response the server's message, if the body differs from it in the id only.
 * @returns the text or the error that the client gets in its place.
 */
export type Rewrite = (body: string, response?: ResponseMessage) => string | SidecarError;

/** An exchange whose response is rewritten on its way to the client. Everything else is unchanged. */
export class RewrittenExchange implements Exchange {
  protected readonly inner: Exchange;
  readonly #rewrite: Rewrite;

  constructor(inner: Exchange, rewrite: Rewrite) {
    this.inner = inner;
    this.#rewrite = rewrite;
  }

  get idText(): string {
    return this.inner.idText;
  }

  get acceptedAtMs(): number {
    return this.inner.acceptedAtMs;
  }

  get asking(): Exchange["asking"] {
    return this.inner.asking;
  }

  get isListening(): boolean {
    return this.inner.isListening;
  }

  get sharedBy(): number {
    return this.inner.sharedBy;
  }

  get logLevel(): string | undefined {
    return this.inner.logLevel;
  }

  get observed(): Exchange["observed"] {
    return this.inner.observed;
  }

  emit(body: string): boolean {
    return this.inner.emit(body);
  }

  keepAlive(): void {
    this.inner.keepAlive();
  }

  respond(body: string, response?: ResponseMessage): void {
    const rewritten = this.#rewrite(body, response);
    if (rewritten instanceof SidecarError) this.fail(rewritten);
    else this.inner.respond(rewritten, rewritten === body ? response : undefined);
  }

  fail(error: SidecarError): void {
    this.inner.fail(error);
  }

  dismiss(): void {
    this.inner.dismiss();
  }

  onDisconnect(listener: () => void): void {
    this.inner.onDisconnect(listener);
  }
}
