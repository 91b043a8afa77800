import { readMessage, Slot } from "../protocol/message.ts";
import type { Exchange } from "../sessions/exchange.ts";
import { type Rewrite, RewrittenExchange } from "../sessions/rewritten-exchange.ts";
import { isAtLeast } from "../protocol/log-level.ts";

export interface StatelessExchangeOptions {
  readonly rewrite: Rewrite;
  /** The most bytes that `rewrite` adds to the result of a tool. */
  readonly addedBytes: number;
  /** Undefined for no log messages. */
  readonly logLevel: string | undefined;
}

/** An exchange that gets only the log messages that its request wants. */
export class StatelessExchange extends RewrittenExchange {
  readonly addedBytes: number;
  readonly #logLevel: string | undefined;

  constructor(inner: Exchange, { rewrite, addedBytes, logLevel }: StatelessExchangeOptions) {
    super(inner, rewrite);
    this.addedBytes = addedBytes;
    this.#logLevel = logLevel;
  }

  override get logLevel(): string | undefined {
    return this.#logLevel;
  }

  override emit(body: string): boolean {
    return this.#wants(body) && this.inner.emit(body);
  }

  #wants(body: string): boolean {
    const message = readMessage(body, "server");
    if (message.kind !== "notification" || message.method !== "notifications/message") return true;
    return this.#logLevel !== undefined && isAtLeast(message.outline.stringAt(Slot.level), this.#logLevel);
  }
}
