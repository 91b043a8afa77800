import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { BATCH_REFUSED } from "../mcp/client-message.ts";
import { SidecarError } from "../mcp/errors.ts";
import { idTextOf, type Message, type RequestMessage } from "../mcp/message.ts";
import type { MemoryAccount, MemoryHolder } from "../memory.ts";
import type { Defects } from "../observe/log.ts";
import type { ObservedRequest } from "../observe/record.ts";
import { ROUTES } from "../routes.ts";
import { internalError, shuttingDown } from "../server/failures.ts";
import type { SessionOpener } from "../server/session-opener.ts";
import type { Principal, Session } from "../session/session.ts";
import type { SessionStore } from "../session/store.ts";
import { type EventSink, type EventStream, SessionStreams } from "../session/streams.ts";
import { DeadlineSweep } from "../timers.ts";
import { type MessageReceiver, readMessages } from "./body.ts";
import type { SseConnection, SseConnections } from "./event-streams.ts";
import { rejectUnauthorized } from "./guards.ts";
import type { McpRouteOptions } from "./mcp-route.ts";
import { forwardOneWay, forwardRequest } from "./post.ts";
import { SharedExchange, type SharedResponse } from "./reply.ts";
import { holderOf, type NamedRoute, type Post, sendAccepted, sendError, sendProblem, SESSION_FRONT } from "./response.ts";

/**
 * A client of HTTP+SSE (MCP 2024-11-05, basic/transports): the connection on which it reads all messages of the server, and its session
 * after `initialize`. This transport has no resumption: no events are kept, and the session ends with the connection.
 */
class LegacySsePair implements EventSink, SharedResponse {
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

interface LegacySsePairsOptions {
  readonly connections: SseConnections;
  readonly sessions: SessionStore;
  /** Above this limit, the oldest stream without a session ends, of the same client if it has one. The session store limits the streams with a session. */
  readonly maxSessions: number;
  /** Time limit for a client to send `initialize`. */
  readonly requestTimeoutMs: number;
  readonly defects: Pick<Defects, "guard">;
  readonly nowMs: () => number;
}

/** The clients of HTTP+SSE, by the id in the URL that they post to. */
export class LegacySsePairs {
  readonly #options: LegacySsePairsOptions;
  readonly #pairs = new Map<string, LegacySsePair>();
  readonly #unused: DeadlineSweep;

  constructor(options: LegacySsePairsOptions) {
    this.#options = options;
    this.#unused = new DeadlineSweep(options.nowMs, options.defects, (nowMs) => this.#endUnused(nowMs));
  }

  /** Answers with the stream of a new client. */
  open(response: ServerResponse, owner: Principal | undefined, memory: MemoryAccount): void {
    const { connections, maxSessions, requestTimeoutMs, nowMs } = this.#options;
    if (this.#pairs.size >= maxSessions) this.#end(this.#oldestWithoutSession(memory.holder));
    const [path = ""] = (response.req.url ?? "").split("?");
    const pair = new LegacySsePair(connections.open(response, memory), path, nowMs(), owner, memory);
    this.#pairs.set(pair.id, pair);
    response.once("close", () => this.#options.defects.guard("client disconnect", () => this.#onClosed(pair)));
    this.#unused.watch(pair.openedAtMs + requestTimeoutMs);
  }

  get(id: string): LegacySsePair | undefined {
    return this.#pairs.get(id);
  }

  /** Ends each connection after its requests are answered. */
  drain(): void {
    this.#unused.close();
    for (const pair of this.#pairs.values()) pair.end();
  }

  /** Ends the streams of a principal. */
  endAllOf(owner: Principal): void {
    for (const pair of this.#pairs.values()) if (pair.owner === owner) this.#end(pair);
  }

  /** Prefers a stream of this holder, so that a flood of streams ends its own. */
  #oldestWithoutSession(holder: MemoryHolder): LegacySsePair | undefined {
    let oldest: LegacySsePair | undefined;
    for (const pair of this.#pairs.values()) {
      if (pair.isInitialized) continue;
      if (pair.holder === holder) return pair;
      oldest ??= pair;
    }
    return oldest;
  }

  #end(pair: LegacySsePair | undefined): void {
    if (pair === undefined) return;
    this.#pairs.delete(pair.id);
    pair.end();
  }

  #onClosed(pair: LegacySsePair): void {
    this.#pairs.delete(pair.id);
    pair.disconnect();
    if (pair.session !== undefined) this.#options.sessions.end(pair.session);
  }

  /** Ends the streams whose clients have not sent `initialize` in time. @returns the next deadline, or Infinity. */
  #endUnused(nowMs: number): number {
    const { requestTimeoutMs } = this.#options;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const pair of this.#pairs.values()) {
      if (pair.session !== undefined) continue;
      const dueAtMs = pair.openedAtMs + requestTimeoutMs;
      if (dueAtMs > nowMs) nextMs = Math.min(nextMs, dueAtMs);
      // An `initialize` in progress has its own deadline.
      else if (pair.isInitialized) nextMs = Math.min(nextMs, nowMs + requestTimeoutMs);
      else this.#end(pair);
    }
    return nextMs;
  }
}

interface LegacySseRoutesOptions extends Omit<McpRouteOptions, "stateless"> {
  readonly pairs: LegacySsePairs;
}

/** Creates the routes of HTTP+SSE (MCP 2024-11-05, basic/transports), a deprecated transport for clients that support nothing newer. */
export function createLegacySseRoutes(options: LegacySseRoutesOptions): readonly NamedRoute[] {
  const { pairs, isDraining, memory, nowMs } = options;
  const messages = new LegacySseMessages(options);
  return [
    [
      "legacySse",
      // Ignores `Accept`: this path has only streams. Clients that try Streamable HTTP first get 405, and fall back to this GET.
      (request, response, principal) => {
        request.resume();
        if (isDraining()) sendError(response, shuttingDown("GET", false));
        else pairs.open(response, principal, memory.account(holderOf(request, principal)));
      },
    ],
    [
      "legacyMessages",
      (request, response, principal) => {
        const account = memory.account(holderOf(request, principal));
        readMessages({ request, response, principal, acceptedAtMs: nowMs(), memory: account, session: undefined }, options, messages);
      },
    ],
  ];
}

/** Handles the POST requests of HTTP+SSE clients. */
class LegacySseMessages implements MessageReceiver {
  readonly #options: LegacySseRoutesOptions;

  constructor(options: LegacySseRoutesOptions) {
    this.#options = options;
  }

  rejectLong({ request, response, principal }: Post): boolean {
    const pair = findPair(this.#options.pairs, request);
    if (pair instanceof SidecarError) sendError(response, pair);
    else if (pair.owner !== principal) rejectUnauthorized(request, response);
    else return false;
    return true;
  }

  onMessages(post: Post, messages: Message | Message[]): void {
    if (Array.isArray(messages)) return sendProblem(post.response, BATCH_REFUSED);
    const { pairs, isDraining } = this.#options;
    const { request, response, principal } = post;
    const idText = messages.kind === "request" ? idTextOf(messages) : undefined;
    // During the drain, the stream ends once the earlier requests are answered.
    if (messages.kind === "request" && isDraining()) return sendError(response, shuttingDown(messages.method, false), idText);
    const pair = findPair(pairs, request);
    if (pair instanceof SidecarError) return sendError(response, pair, idText);
    if (pair.owner !== principal) return rejectUnauthorized(request, response);
    if (messages.kind === "request" && messages.method === "initialize") this.#initialize(post, pair, messages);
    else this.#forward(post, pair, messages);
  }

  #initialize(post: Post, pair: LegacySsePair, message: RequestMessage): void {
    const { response, acceptedAtMs } = post;
    const { opener, observe, defects } = this.#options;
    if (pair.isInitialized) {
      const error = new SidecarError("INVALID_REQUEST", "This stream already has a session; open another stream for another session.");
      return sendError(response, error, idTextOf(message));
    }
    sendAccepted(response);
    pair.initialize(opener, message, acceptedAtMs, observe?.(post, message), defects);
  }

  #forward(post: Post, pair: LegacySsePair, message: Message): void {
    const { response, acceptedAtMs } = post;
    const { sessions, observe, defects, nowMs } = this.#options;
    const idText = message.kind === "request" ? idTextOf(message) : undefined;
    if (pair.session === undefined) {
      return sendError(response, sessionRequired("This stream has no session yet; call initialize first."), idText);
    }
    const session = sessions.use(pair.session.id, nowMs());
    if (session === undefined) return sendError(response, streamNotFound(), idText);
    if (message.kind === "request") {
      sendAccepted(response);
      const exchange = pair.openExchange(idTextOf(message), acceptedAtMs, observe?.(post, message, session));
      return forwardRequest(defects, session, exchange, message);
    }
    const error = forwardOneWay(session, message);
    if (error === undefined) sendAccepted(response);
    else sendError(response, error);
  }
}

function findPair(pairs: LegacySsePairs, { url = "" }: IncomingMessage): LegacySsePair | SidecarError {
  const id = new URLSearchParams(url.slice(url.indexOf("?") + 1)).get("sessionId");
  if (id === null) return sessionRequired(`The URL has no sessionId; open ${ROUTES.legacySse.path} and post to the URL that it names.`);
  return pairs.get(id) ?? streamNotFound();
}

function sessionRequired(message: string): SidecarError {
  return new SidecarError("SESSION_REQUIRED", message, {}, "sse");
}

function streamNotFound(): SidecarError {
  return new SidecarError("SESSION_NOT_FOUND", `This stream does not exist or has ended; open ${ROUTES.legacySse.path} again.`, {}, "sse");
}
