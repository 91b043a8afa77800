import { randomUUID } from "node:crypto";
import type { Defects } from "../../observability/defects.ts";
import type { ObservedRequest } from "../../observability/request-observer.ts";
import { idTextOf, type RequestMessage } from "../../protocol/message.ts";
import type { EventSink, EventStream } from "../../sessions/streams/event-stream.ts";
import { internalError } from "../../lane/failures.ts";
import type { MemoryAccount, MemoryHolder } from "../../memory/memory-budget.ts";
import type { SessionOpener } from "../../lane/handshake/session-opener.ts";
import { SessionStreams } from "../../sessions/streams/session-streams.ts";
import type { Principal } from "../../sessions/principal.ts";
import type { Session } from "../../sessions/session.ts";
import { ROUTES } from "../../routes.ts";
import { SESSION_FRONT } from "../front.ts";
import { SharedExchange, type SharedResponse } from "../endpoint/shared-exchange.ts";
import type { SseConnection } from "../output/sse-connection.ts";

/**
 * A client of HTTP+SSE (MCP 2024-11-05, basic/transports): the connection on which it reads all messages of the server, and its session
 * after `initialize`. This transport has no resumption: no events are kept, and the session ends with the connection.
 */
export class LegacySsePair implements EventSink, SharedResponse {
  /**
   * The id in the URL that the client posts to, with 122 random bits. It differs from the session id, which is never sent, so that it
   * cannot be used on the MCP endpoint.
   */
  readonly id = randomUUID();
  readonly openedAtMs: number;
  /** The principal that opened the stream. Only this principal may post to it. */
  readonly owner: Principal | undefined;
  /** The stream has no end, so its responses share no bytes. */
  readonly sharedBy = 0;
  readonly isListening = true;
  readonly httpStatus = 202;
  readonly #connection: SseConnection;
  readonly #memory: MemoryAccount;
  readonly #exchanges = new Set<SharedExchange>();
  /** The latest `initialize`. */
  #initialize: { readonly exchange: SharedExchange; readonly stream: EventStream } | undefined;
  #session: Session | undefined;
  #isEnding = false;

  /** @param path the path of the stream, as the client has written it. */
  constructor(connection: SseConnection, path: string, nowMs: number, owner: Principal | undefined, memory: MemoryAccount) {
    this.#connection = connection;
    this.openedAtMs = nowMs;
    this.owner = owner;
    this.#memory = memory;
    // Relative to the stream, because a proxy may have removed a prefix of the path.
    const messages = `${path.endsWith("/") ? "../" : ""}${ROUTES.legacyMessages.path.slice(1)}`;
    connection.sendWithoutId("endpoint", `${messages}?sessionId=${this.id}`);
  }

  get session(): Session | undefined {
    return this.#session;
  }

  get holder(): MemoryHolder {
    return this.#memory.holder;
  }

  /** True if there is a session, or an `initialize` in progress. */
  get isInitialized(): boolean {
    return this.#initialize !== undefined;
  }

  /** Opens a session. May be called again only if the last call did not open one. */
  initialize(
    opener: Pick<SessionOpener, "initialize">,
    request: RequestMessage,
    acceptedAtMs: number,
    observed: ObservedRequest | undefined,
    defects: Pick<Defects, "guard">,
  ): void {
    const streams = new SessionStreams(undefined);
    const stream = streams.openStandalone();
    stream.attach(this);
    const exchange = this.openExchange(idTextOf(request), acceptedAtMs, observed);
    this.#initialize = { exchange, stream };
    const open = (session: Session): void => {
      this.#session = session;
      observed?.setSession(session);
    };
    defects.guard(
      "client request",
      () => opener.initialize(exchange, request, open, { owner: this.owner, memory: this.#memory, streams }),
      () => exchange.fail(internalError(true)),
    );
  }

  /** Returns the exchange of a request. Its POST has been answered with 202, and the response is sent on the stream. */
  openExchange(idText: string, acceptedAtMs: number, observed: ObservedRequest | undefined): SharedExchange {
    const exchange = new SharedExchange(SESSION_FRONT, idText, acceptedAtMs, this, observed);
    this.#exchanges.add(exchange);
    return exchange;
  }

  emit(body: string): boolean {
    return this.#send(body);
  }

  keepAlive(): void {
    // The connection of the stream sends its own comments.
  }

  respond(body: string): void {
    this.#send(body);
  }

  onFinished(exchange: SharedExchange): void {
    this.#exchanges.delete(exchange);
    if (exchange === this.#initialize?.exchange && this.#session === undefined) {
      // Messages of the server of a failed `initialize` must not reach the next session.
      this.#initialize.stream.detach(this);
      this.#initialize = undefined;
    }
    this.#endWhenAnswered();
  }

  /** Sends a message that belongs to no request. */
  send(_eventId: string, text: string): boolean {
    return this.#send(text);
  }

  /** Ends the connection after all requests are answered. */
  end(): void {
    this.#isEnding = true;
    this.#endWhenAnswered();
  }

  /** Must be called when the connection has closed. Cancels all requests. */
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
