import { SidecarError } from "../errors.ts";
import type { Exchange } from "./exchange.ts";

/** An exchange whose response is rewritten on its way to the client. Everything else is unchanged. */
export class RewrittenExchange implements Exchange {
  readonly idText: string;
  readonly acceptedAtMs: number;
  protected readonly inner: Exchange;
  readonly #rewrite: (body: string) => string | SidecarError;

  /** @param rewrite is given a JSON-RPC response as the client would read it. @returns the text that the client gets in its place. */
  constructor(inner: Exchange, rewrite: (body: string) => string | SidecarError) {
    this.inner = inner;
    this.idText = inner.idText;
    this.acceptedAtMs = inner.acceptedAtMs;
    this.#rewrite = rewrite;
  }

  get isListening(): boolean {
    return this.inner.isListening;
  }

  get sharedBy(): number {
    return this.inner.sharedBy;
  }

  emit(body: string): boolean {
    return this.inner.emit(body);
  }

  keepAlive(): void {
    this.inner.keepAlive();
  }

  respond(body: string): void {
    const rewritten = this.#rewrite(body);
    if (rewritten instanceof SidecarError) this.fail(rewritten);
    else this.inner.respond(rewritten);
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
