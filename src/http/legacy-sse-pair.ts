import { randomUUID } from "node:crypto";
import type { Defects } from "../defects.ts";
import { idTextOf, type RequestMessage } from "../jsonrpc/message.ts";
import type { EventSink } from "../mux/event-stream.ts";
import { internalError } from "../mux/failures.ts";
import type { Exchange } from "../mux/exchange.ts";
import type { Lanes } from "../mux/lanes.ts";
import { SessionStreams } from "../mux/session-streams.ts";
import type { Principal, Session } from "../mux/session.ts";
import { ROUTES } from "../routes.ts";
import { LegacySseExchange } from "./legacy-sse-exchange.ts";
import type { SseConnection } from "./sse-connection.ts";

/**
 * One client of HTTP+SSE (MCP 2024-11-05, basic/transports): the connection on which it reads all that the server says, and its session
 * once it has one. It cannot come back: nothing is kept for it, and when the connection is gone, all of it is over.
 */
export class LegacySsePair implements EventSink {
  /** In the URL that the client posts to, 122 random bits. Not the session's: that one nobody is told, so it opens nothing elsewhere. */
  readonly id = randomUUID();
  readonly openedAtMs: number;
  /** Who opened it, and nobody else may post to it. */
  readonly owner: Principal | undefined;
  readonly #connection: SseConnection;
  readonly #exchanges = new Set<LegacySseExchange>();
  #isInitialized = false;
  #session: Session | undefined;
  #isEnding = false;

  constructor(connection: SseConnection, nowMs: number, owner: Principal | undefined) {
    this.#connection = connection;
    this.openedAtMs = nowMs;
    this.owner = owner;
    connection.sendWithoutId("endpoint", `${ROUTES.legacyMessages.path}?sessionId=${this.id}`);
  }

  get session(): Session | undefined {
    return this.#session;
  }

  /** Whether it has a session, or is getting one. */
  get isInitialized(): boolean {
    return this.#isInitialized;
  }

  /** To be called once; again where no session came of it. */
  initialize(lanes: Lanes, request: RequestMessage, acceptedAtMs: number, defects: Pick<Defects, "guard">): void {
    const streams = new SessionStreams(undefined);
    const stream = streams.openStandalone();
    stream.attach(this);
    this.#isInitialized = true;
    const exchange = this.openExchange(idTextOf(request), acceptedAtMs, () => {
      if (this.#session !== undefined) return;
      // What a server that is being given up still says is not for the next session.
      stream.detach(this);
      this.#isInitialized = false;
    });
    const open = (session: Session): void => {
      this.#session = session;
    };
    defects.guard(
      "client request",
      () => lanes.initialize(exchange, request, open, { owner: this.owner, streams }),
      () => exchange.fail(internalError(true)),
    );
  }

  openExchange(idText: string, acceptedAtMs: number, onFinished?: () => void): Exchange {
    const exchange = new LegacySseExchange(
      idText,
      acceptedAtMs,
      (text) => this.#send(text),
      () => {
        this.#exchanges.delete(exchange);
        onFinished?.();
        this.#endWhenAnswered();
      },
    );
    this.#exchanges.add(exchange);
    return exchange;
  }

  /** What belongs to no request. */
  send(_eventId: string, text: string): boolean {
    return this.#send(text);
  }

  /** Ends the connection once all requests are answered. */
  end(): void {
    this.#isEnding = true;
    this.#endWhenAnswered();
  }

  /** The connection is gone: nobody reads an answer any more. */
  disconnect(): void {
    for (const exchange of this.#exchanges) exchange.disconnect();
    this.#exchanges.clear();
  }

  #send(text: string): boolean {
    return this.#connection.sendWithoutId("message", text);
  }

  #endWhenAnswered(): void {
    if (this.#isEnding && this.#exchanges.size === 0) this.#connection.end();
  }
}
