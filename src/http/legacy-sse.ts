import { randomUUID } from "node:crypto";
import { type Context, onDrain } from "../context.ts";
import { BATCH_REFUSED } from "../mcp/client-message.ts";
import { SidecarError } from "../mcp/errors.ts";
import { type Message, type RequestMessage } from "../mcp/message.ts";
import type { MemoryAccount } from "../memory.ts";
import { beginRecord, setSession } from "../observe/record.ts";
import { ROUTES } from "../routes.ts";
import { internalError, shuttingDown } from "../server/failures.ts";
import type { SessionOpener } from "../server/session-opener.ts";
import { type KnownSession, type Principal, Session } from "../session/session.ts";
import { Reply, type ReplyTarget } from "../session/reply.ts";
import type { SessionStore } from "../session/store.ts";
import { type EventSink, type EventStream, SessionStreams } from "../session/streams.ts";
import { Timer } from "../timers.ts";
import type { SseConnection } from "./event-streams.ts";
import { Exchange, type MessageReceiver } from "./exchange.ts";
import { rejectUnauthorized } from "./guards.ts";
import { answerOneWay, forwardOneWay, type McpEndpoint } from "./post.ts";
import { errorBody, type Route, sendAccepted, sendError, sendProblem } from "./response.ts";

/** A connection on which a client reads all messages, and its session, which ends with it: nothing is kept for replay. */
class LegacySsePair implements EventSink, ReplyTarget {
  /** Part of the URL that the client posts to (122 random bits). The session id is never sent, so the endpoint cannot be used with it. */
  readonly id = randomUUID();
  readonly owner: Principal | undefined;
  readonly isListening = true;
  readonly memory: MemoryAccount;
  /** Undefined until `initialize` is answered. */
  session: Session | undefined;
  readonly #context: Context;
  readonly #connection: SseConnection;
  readonly #replies = new Set<Reply>();
  #initialize: { readonly reply: Reply; readonly stream: EventStream } | undefined;
  #isEnding = false;

  constructor(context: Context, connection: SseConnection, { request, principal }: Exchange, memory: MemoryAccount) {
    [this.#context, this.#connection, this.owner, this.memory] = [context, connection, principal, memory];
    const [path = ""] = (request.url ?? "").split("?");
    // Relative to the stream: a proxy may have removed a prefix of the path.
    const messages = `${path.endsWith("/") ? "../" : ""}${ROUTES.legacyMessages.path.slice(1)}`;
    connection.send(undefined, `${messages}?sessionId=${this.id}`, "endpoint");
  }

  /** True if there is a session, or an `initialize` in progress. */
  get isInitialized(): boolean {
    return this.#initialize !== undefined;
  }

  /** May be called again only if the last call did not open a session. */
  initialize(opener: SessionOpener, request: RequestMessage, exchange: Exchange): void {
    const streams = new SessionStreams(this.memory);
    const stream = streams.openStandalone();
    stream.attach(this);
    const reply = this.openReply(request, exchange);
    this.#initialize = { reply, stream };
    const open = (session: Session | KnownSession): void => {
      if (session instanceof Session) this.session = session;
      setSession(reply.record, session);
    };
    this.#context.defects.guard(
      "client request",
      () => opener.initialize(reply, request, streams, this.owner, open),
      () => reply.fail(internalError(true)),
    );
  }

  /** Its POST has been answered with 202. */
  openReply(request: RequestMessage, exchange: Exchange): Reply {
    const reply = new Reply(this.#context, request.idText, exchange.acceptedAtMs, this);
    reply.record = beginRecord(request, exchange.holder, exchange.acceptedAtMs, this.session);
    reply.record.httpStatus = 202;
    this.#replies.add(reply);
    return reply;
  }

  emit(body: string): boolean {
    return this.#connection.send(undefined, body);
  }

  finish(outcome: string | SidecarError | undefined, reply: Reply): string | undefined {
    const body = outcome instanceof SidecarError ? errorBody(outcome, reply.idText) : outcome;
    if (body !== undefined) this.emit(body);
    this.#replies.delete(reply);
    if (reply === this.#initialize?.reply && this.session === undefined) {
      // Messages of a failed `initialize` must not reach the next session.
      this.#initialize.stream.detach(this);
      this.#initialize = undefined;
    }
    this.#endWhenAnswered();
    return body;
  }

  send(_eventId: string | undefined, text: string): boolean {
    return this.emit(text);
  }

  /** Ends the connection after all requests are answered. */
  end(): void {
    this.#isEnding = true;
    this.#endWhenAnswered();
  }

  disconnect(): void {
    for (const reply of this.#replies) reply.disconnect();
    this.#replies.clear();
  }

  #endWhenAnswered(): void {
    if (this.#isEnding && this.#replies.size === 0) this.#connection.end();
  }
}

/** HTTP+SSE (MCP 2024-11-05, basic/transports), deprecated, for clients that support nothing newer. */
export class LegacySse implements MessageReceiver {
  readonly #context: Context;
  readonly #opener: SessionOpener;
  readonly #sessions: SessionStore;
  readonly #endpoint: McpEndpoint;
  readonly #pairs = new Map<string, LegacySsePair>();

  constructor(context: Context, opener: SessionOpener, sessions: SessionStore, endpoint: McpEndpoint) {
    [this.#context, this.#opener, this.#sessions, this.#endpoint] = [context, opener, sessions, endpoint];
    onDrain(context, "http+sse", () => this.#pairs.values().forEach((pair) => context.defects.guard("http+sse", () => pair.end())));
  }

  readonly routes: Readonly<Record<"legacySse" | "legacyMessages", Route>> = {
    // `Accept` is ignored: this path has only streams. Clients that try Streamable HTTP first get 405, and fall back to this GET.
    legacySse: (request, response, principal) => {
      if (this.#context.draining.aborted) sendError(response, shuttingDown());
      else this.#open(new Exchange(this.#endpoint.connections, request, response, principal));
    },
    legacyMessages: (request, response, principal) => {
      new Exchange(this.#endpoint.connections, request, response, principal).read(this, this.#endpoint.arriving);
    },
  };

  endAllOf(owner: Principal): void {
    for (const pair of this.#pairs.values()) if (pair.owner === owner) this.#end(pair);
  }

  rejectLong(exchange: Exchange): boolean {
    return this.#findPair(exchange, undefined) === undefined;
  }

  onMessages(exchange: Exchange, messages: Message | Message[]): void {
    if (Array.isArray(messages)) return sendProblem(exchange.response, BATCH_REFUSED);
    const idText = messages.kind === "request" ? messages.idText : undefined;
    // During the drain, the stream ends once the earlier requests are answered.
    if (messages.kind === "request" && this.#context.draining.aborted) return sendError(exchange.response, shuttingDown(), idText);
    const pair = this.#findPair(exchange, idText);
    if (pair !== undefined) this.#onMessage(exchange, pair, messages, idText);
  }

  #open(exchange: Exchange): void {
    const { config, nowMs } = this.#context;
    const { memory } = exchange;
    // The session store limits the streams with a session.
    if (this.#pairs.size >= config.maxSessions) {
      const [...unused] = this.#pairs.values().filter(({ isInitialized }) => !isInitialized);
      // A flood of streams ends its own.
      const oldest = unused.find((pair) => pair.memory.holder === memory.holder) ?? unused[0];
      if (oldest !== undefined) this.#end(oldest);
    }
    const connection = this.#endpoint.connections.open(exchange.response, memory);
    const pair = new LegacySsePair(this.#context, connection, exchange, memory);
    this.#pairs.set(pair.id, pair);
    const unused = new Timer(this.#context, (atMs) => {
      if (!pair.isInitialized) this.#end(pair);
      // An `initialize` in progress has its own deadline.
      else if (pair.session === undefined) unused.set(atMs + config.requestTimeoutMs);
    });
    unused.set(nowMs() + config.requestTimeoutMs);
    connection.onClosed = () => {
      unused.clear();
      this.#pairs.delete(pair.id);
      pair.disconnect();
      if (pair.session !== undefined) this.#sessions.end(pair.session);
    };
  }

  #end(pair: LegacySsePair): void {
    this.#pairs.delete(pair.id);
    pair.end();
  }

  #onMessage(exchange: Exchange, pair: LegacySsePair, message: Message, idText: string | undefined): void {
    const { response } = exchange;
    const { session } = pair;
    if (message.kind === "request" && message.method === "initialize") {
      if (pair.isInitialized) {
        const error = new SidecarError("INVALID_REQUEST", "This stream already has a session; open another stream for another session.");
        return sendError(response, error, idText);
      }
      sendAccepted(response);
      return pair.initialize(this.#opener, message, exchange);
    }
    if (session === undefined)
      return sendError(response, sessionRequired("This stream has no session yet; call initialize first."), idText);
    if (session.hasEnded) return sendError(response, streamNotFound(), idText);
    session.touch(this.#context.nowMs());
    if (message.kind !== "request") return answerOneWay(response, forwardOneWay(session, message));
    sendAccepted(response);
    session.lane.request(session, pair.openReply(message, exchange), message);
  }

  /** @returns undefined if the request is answered with an error. */
  #findPair({ request, response, principal }: Exchange, idText: string | undefined): LegacySsePair | undefined {
    const { url = "" } = request;
    const id = new URLSearchParams(url.slice(url.indexOf("?") + 1)).get("sessionId");
    const pair = this.#pairs.get(id ?? "");
    if (pair !== undefined && pair.owner === principal) return pair;
    const noId = `The URL has no sessionId; open ${ROUTES.legacySse.path} and post to the URL that it names.`;
    if (pair !== undefined) rejectUnauthorized(response);
    else sendError(response, id === null ? sessionRequired(noId) : streamNotFound(), idText);
    return undefined;
  }
}

function sessionRequired(message: string): SidecarError {
  return new SidecarError("SESSION_REQUIRED", message, {}, "sse");
}

function streamNotFound(): SidecarError {
  return new SidecarError("SESSION_NOT_FOUND", `This stream does not exist or has ended; open ${ROUTES.legacySse.path} again.`, {}, "sse");
}
