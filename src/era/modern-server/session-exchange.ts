import type { SidecarError } from "../../errors.ts";
import type { MemoryAccount, Reservation } from "../../memory/memory-budget.ts";
import { textMemoryBytes } from "../../memory/memory-size.ts";
import type { RequestMessage, ResponseMessage } from "../../protocol/message.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import type { AskKinds } from "../asks/ask-kinds.ts";
import { StatelessExchange, type StatelessExchangeOptions } from "../stateless-exchange.ts";

export interface SessionExchangeOptions extends StatelessExchangeOptions {
  /** The questions that the client can answer. */
  readonly declared: AskKinds;
  /** The client's request. */
  readonly request: RequestMessage;
  /** Returns the request for the server. @param params the JSON text of more members of its params. */
  readonly requestWith: (params: string) => RequestMessage;
  readonly memory: MemoryAccount;
}

/** The exchange of a session's request to a server without sessions. It keeps the request, because the server may need it several times. */
export class SessionExchange extends StatelessExchange {
  readonly declared: AskKinds;
  readonly requestWith: (params: string) => RequestMessage;
  /** The number of results with questions so far. */
  questionRounds = 0;
  /** Called once at the end, while the client still accepts messages, if it has not disconnected. */
  onEnded: (() => void) | undefined;
  readonly #kept: Reservation;
  #isOver = false;

  constructor(inner: Exchange, options: SessionExchangeOptions) {
    super(inner, options);
    this.declared = options.declared;
    this.requestWith = options.requestWith;
    this.#kept = options.memory.hold("requests", textMemoryBytes(options.request.text));
  }

  /** Sends a request to the client. @returns false if the client does not accept messages here. */
  ask(body: string): boolean {
    return this.inner.emit(body);
  }

  override respond(body: string, response?: ResponseMessage): void {
    this.#end();
    super.respond(body, response);
  }

  override fail(error: SidecarError): void {
    this.#end();
    super.fail(error);
  }

  override dismiss(): void {
    this.#end();
    super.dismiss();
  }

  override onDisconnect(listener: () => void): void {
    super.onDisconnect(() => {
      this.#end();
      listener();
    });
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#kept.release();
    this.onEnded?.();
  }
}
