import { readMessage, type ResponseMessage, Slot } from "../protocol/message.ts";
import type { SidecarError } from "../errors.ts";
import type { Exchange } from "../sessions/exchange.ts";
import { type Rewrite, RewrittenExchange } from "../sessions/rewritten-exchange.ts";
import { isAtLeast } from "./log-requests.ts";

export interface StatelessExchangeOptions {
  readonly rewrite: Rewrite;
  /** The most bytes that `rewrite` adds to the result of a tool. */
  readonly addedBytes: number;
  /** Undefined for no log messages. */
  readonly logLevel: string | undefined;
  /** Called at the end, once or more. */
  readonly onEnd?: (exchange: StatelessExchange) => void;
}

/** The exchange of a request without a session. It ends with its connection, and gets only the log messages that the request wants. */
export class StatelessExchange extends RewrittenExchange {
  readonly addedBytes: number;
  readonly #logLevel: string | undefined;
  readonly #onEnd: ((exchange: StatelessExchange) => void) | undefined;

  constructor(inner: Exchange, { rewrite, addedBytes, logLevel, onEnd }: StatelessExchangeOptions) {
    super(inner, rewrite);
    this.addedBytes = addedBytes;
    this.#logLevel = logLevel;
    this.#onEnd = onEnd;
  }

  override emit(body: string): boolean {
    return this.#wants(body) && this.inner.emit(body);
  }

  override respond(body: string, response?: ResponseMessage): void {
    this.#onEnd?.(this);
    super.respond(body, response);
  }

  override fail(error: SidecarError): void {
    this.#onEnd?.(this);
    super.fail(error);
  }

  override dismiss(): void {
    this.#onEnd?.(this);
    super.dismiss();
  }

  override onDisconnect(listener: () => void): void {
    super.onDisconnect(() => {
      this.#onEnd?.(this);
      listener();
    });
  }

  #wants(body: string): boolean {
    if (!body.includes("notifications/message")) return true;
    const message = readMessage(body, "server");
    if (message.kind !== "notification" || message.method !== "notifications/message") return true;
    return this.#logLevel !== undefined && isAtLeast(message.outline.stringAt(Slot.level), this.#logLevel);
  }
}
