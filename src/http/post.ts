import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "../context.ts";
import { JsonScanner, Shape } from "../json/read.ts";
import { BATCH_REFUSED } from "../mcp/client-message.ts";
import { SidecarError } from "../mcp/errors.ts";
import {
  hasBatches,
  isModernMessage,
  isModernVersion,
  LEGACY_PROTOCOL_VERSIONS,
  type Message,
  type NotificationMessage,
  type RequestMessage,
  type ResponseMessage,
} from "../mcp/message.ts";
import type { MemoryHolder } from "../memory.ts";
import { setSession } from "../observe/record.ts";
import { allowHeader, ROUTES } from "../routes.ts";
import { sessionNotFound, shuttingDown } from "../server/failures.ts";
import { checkModernRequest } from "../server/request-check.ts";
import type { SessionOpener } from "../server/session-opener.ts";
import { type KnownSession, Session } from "../session/session.ts";
import type { StatelessRequests } from "../server/stateless-requests.ts";
import type { SessionStore } from "../session/store.ts";
import { openGetStream, SseConnections } from "./event-streams.ts";
import { Exchange, type MessageReceiver } from "./exchange.ts";
import { rejectUnauthorized } from "./guards.ts";
import { errorBody, permitsEventStream, reject, type Route, sendAccepted, sendError, sendProblem, sendRejection } from "./response.ts";

const { methods } = ROUTES.endpoint;
const ALLOW_WITHOUT_SESSION = { Allow: allowHeader(methods.filter((method) => method !== "GET")) };

const METHOD = new Shape({ method: {} });

function isInitialize(beginning: Buffer): boolean {
  const scanner = new JsonScanner(beginning.toString("utf8"), METHOD);
  scanner.advance();
  return scanner.outline.stringAt(METHOD.slotOf("method")) === "initialize";
}

function noStream({ headers }: IncomingMessage): SidecarError {
  if (headers.accept?.includes("text/html") === true) {
    const message = `This URL is for MCP clients, not for browsers; ${ROUTES.ready.path} shows if the MCP server is ready.`;
    return new SidecarError("SESSION_REQUIRED", message, {}, "browser");
  }
  // The status is 405: clients that try HTTP+SSE first, as mcp-remote with `sse-first`, go on to Streamable HTTP only after 404 or 405.
  const message = "GET opens an event stream of a session, but the Mcp-Session-Id header is missing; call initialize first.";
  return new SidecarError("METHOD_NOT_ALLOWED", message);
}

/**
 * Streamable HTTP with sessions (MCP 2025-11-25, basic/transports) and without (MCP 2026-07-28, basic/transports). A session that another
 * principal has opened is not found, and is not touched.
 */
export class McpEndpoint implements MessageReceiver {
  readonly connections: SseConnections;
  /** The oldest first. They make room if memory is short. */
  readonly arriving = new Set<Exchange>();
  readonly #context: Context;
  readonly #opener: SessionOpener;
  readonly #sessions: SessionStore;
  readonly #stateless: StatelessRequests | undefined;

  constructor(context: Context, opener: SessionOpener, sessions: SessionStore, stateless: StatelessRequests | undefined) {
    this.#context = context;
    [this.#opener, this.#sessions, this.#stateless] = [opener, sessions, stateless];
    this.connections = new SseConnections(context);
    context.memory.onShortage("share", (holder) => this.#rejectArriving(holder));
  }

  *#rejectArriving(holder: MemoryHolder): Generator<void> {
    for (const exchange of this.arriving) if (exchange.holder === holder) yield exchange.rejectArriving();
  }

  readonly route: Route = (request, response, principal) => {
    const { method } = request;
    const exchange = new Exchange(this.connections, request, response, principal);
    const session = method === "DELETE" ? undefined : this.#sessions.get(exchange.sessionId, principal);
    if (session !== undefined) exchange.use(session);
    if (method === "POST" && exchange.acceptsJson) return exchange.read(this, this.arriving);
    if (method === "POST") return reject(response, new SidecarError("NOT_ACCEPTABLE", "Accept must allow application/json."));
    request.resume();
    if (method === "GET") this.#openStream(exchange);
    else this.#endSession(exchange);
  };

  rejectLong(exchange: Exchange, beginning: Buffer): boolean {
    const { version, sessionId } = exchange;
    const needsNoSession = isModernVersion(version) && (this.#stateless !== undefined || sessionId === undefined);
    if (needsNoSession || (sessionId === undefined && isInitialize(beginning))) return false;
    const found = this.#look(exchange);
    if (!(found instanceof SidecarError)) return false;
    sendError(exchange.response, found);
    return true;
  }

  onMessages(exchange: Exchange, messages: Message | Message[]): void {
    const { response, version } = exchange;
    const isBatch = Array.isArray(messages);
    // A client that left while its long body was read would never cancel its requests. A notification needs no response.
    if (response.destroyed && (isBatch || messages.kind === "request")) return;
    if (this.#stateless !== undefined) {
      const isModern = isBatch
        ? isModernVersion(version) || messages.some((each) => isModernMessage(each, version))
        : isModernMessage(messages, version);
      if (isModern) return this.#onStateless(this.#stateless, exchange, messages);
    }
    if (!isBatch && messages.kind === "request" && messages.method === "initialize") return this.#initialize(exchange, messages);
    const found = this.#look(exchange);
    const waits = found instanceof Session && found.isMoving && [messages].flat().some(({ kind }) => kind === "request");
    if ((found instanceof Session && !waits) || found instanceof SidecarError) this.#onFound(exchange, messages, found);
    else this.#takeUp(exchange, [messages].flat(), found, (taken) => this.#onFound(exchange, messages, taken));
  }

  #openStream(exchange: Exchange): void {
    const { request, response } = exchange;
    const found = this.#look(exchange);
    if (found instanceof SidecarError && found.code === "SESSION_REQUIRED") {
      const error = noStream(request);
      return sendError(response, error, undefined, error.code === "METHOD_NOT_ALLOWED" ? ALLOW_WITHOUT_SESSION : undefined);
    }
    if (found instanceof SidecarError) return sendError(response, found);
    const open = (session: Session | SidecarError): void => {
      // The drain may have begun while the request waited.
      if (this.#context.draining.aborted) sendError(response, shuttingDown());
      else if (session instanceof SidecarError) sendError(response, session);
      else openGetStream(this.connections, response, session);
    };
    if (found instanceof Session && !found.isMoving) open(found);
    else this.#takeUp(exchange, [], found, open);
  }

  #endSession(exchange: Exchange): void {
    const found = this.#look(exchange);
    if (found instanceof SidecarError) return sendError(exchange.response, found);
    this.#opener.end(found);
    exchange.response.writeHead(204).end();
  }

  /** Finds the session, which may be one of another replica, and begins its use. */
  #look(exchange: Exchange): Session | KnownSession | SidecarError {
    const { version, principal, sessionId: id, session: atArrival } = exchange;
    if (id === undefined) return new SidecarError("SESSION_REQUIRED", "The Mcp-Session-Id header is missing; call initialize first.");
    // Another request may have taken it up while this one arrived.
    const session = atArrival?.hasEnded === false ? atArrival : this.#sessions.get(id, principal);
    const found = session ?? this.#opener.recognize(id, principal);
    if (found === undefined) return sessionNotFound();
    if (session !== undefined) exchange.use(session);
    if (version === undefined || LEGACY_PROTOCOL_VERSIONS.includes(version)) return found;
    return new SidecarError("UNSUPPORTED_PROTOCOL_VERSION", `The protocol version ${JSON.stringify(version)} is not supported.`, {
      supported: LEGACY_PROTOCOL_VERSIONS,
    });
  }

  /** Without `onTaken` if the client disconnects first. */
  #takeUp(
    exchange: Exchange,
    messages: Message[],
    known: Session | KnownSession,
    onTaken: (session: Session | SidecarError) => void,
  ): void {
    this.#opener.takeUp(known, this.#context.memory.account(exchange.holder), exchange, messages, (taken) => {
      exchange.onDisconnect = undefined;
      if (taken instanceof Session) exchange.use(taken);
      onTaken(taken);
    });
  }

  #onFound(exchange: Exchange, messages: Message | Message[], session: Session | SidecarError): void {
    if (Array.isArray(messages)) {
      if (session instanceof SidecarError && session.code !== "SESSION_REQUIRED") sendError(exchange.response, session);
      else if (session instanceof SidecarError || !hasBatches(session.protocolVersion)) sendProblem(exchange.response, BATCH_REFUSED);
      else this.#forwardBatch(exchange, session, messages);
    } else if (session instanceof SidecarError) this.#rejectMessage(exchange, messages, session);
    else if (messages.kind === "request") session.lane.request(session, exchange.openReply(messages), messages);
    else answerOneWay(exchange.response, forwardOneWay(session, messages));
  }

  #rejectMessage({ response, version }: Exchange, message: Message, error: SidecarError): void {
    // Such a notification concerns a request of another replica, or state that a new server gets at its start.
    if (message.kind === "notification" && error.code === "OTHER_REPLICA") return sendAccepted(response);
    const isOff = this.#stateless === undefined && error.code === "SESSION_REQUIRED" && isModernMessage(message, version);
    const settings = "CLAW_MCP_STDIO_MODERN, CLAW_MCP_STDIO_ISOLATION";
    const shown = isOff
      ? new SidecarError("SESSION_REQUIRED", `Requests without a session are not served here (${settings}); call initialize first.`)
      : error;
    sendError(response, shown, message.kind === "request" ? message.idText : undefined);
  }

  #initialize(exchange: Exchange, message: RequestMessage): void {
    const { response, principal: owner } = exchange;
    // The token may have been removed while the body arrived.
    if (owner?.isRevoked === true) return rejectUnauthorized(response);
    const idText = message.idText;
    // The id of a session that is not open here is ignored.
    const session = this.#sessions.get(exchange.sessionId, owner);
    if (session !== undefined) {
      session.touch(this.#context.nowMs());
      const error = new SidecarError("INVALID_REQUEST", "This session is already initialized; call initialize without Mcp-Session-Id.");
      return sendError(response, error, idText);
    }
    // The session that its id named may have ended while the body arrived.
    exchange.use(undefined);
    // A stream would begin before its header can name the new session.
    exchange.acceptsStream = false;
    const reply = exchange.openReply(message);
    const onOpen = (opened: Session | KnownSession): void => {
      exchange.headers = { "Mcp-Session-Id": opened.id };
      setSession(reply.record, opened);
    };
    const streams = this.#opener.createStreams(exchange.memory);
    this.#opener.initialize(reply, message, streams, owner, onOpen);
  }

  #forwardBatch(exchange: Exchange, session: Session, messages: readonly Message[]): void {
    const replies = messages.map((each) => (each.kind === "request" ? exchange.openReply(each, true) : undefined));
    // If a notification or response is not accepted, the later requests of the batch fail with its error.
    // The HTTP response reports the error if the batch has no requests.
    // A response to a server elsewhere concerns only itself.
    let error: SidecarError | undefined;
    let elsewhere: SidecarError | undefined;
    for (const [index, each] of messages.entries()) {
      const reply = replies[index];
      if (each.kind !== "request") {
        const failure = error ?? forwardOneWay(session, each);
        if (failure?.code === "OTHER_REPLICA") elsewhere = failure;
        else error = failure;
      } else if (reply !== undefined && error !== undefined) reply.refuse(error);
      else if (reply !== undefined) session.lane.request(session, reply, each);
    }
    if (replies.every((reply) => reply === undefined)) answerOneWay(exchange.response, error ?? elsewhere);
  }

  #onStateless(stateless: StatelessRequests, exchange: Exchange, messages: Message | Message[]): void {
    const { request, response, principal } = exchange;
    const refuse = (error: SidecarError, idText?: string): void => sendRejection(response, error, errorBody(error, idText, "modern"));
    if (Array.isArray(messages)) return refuse(invalidRequest("A batch is not part of this revision"));
    if (messages.kind === "response") return refuse(invalidRequest("In this revision, servers send no requests"));
    // A cancellation in particular could name the request of another client.
    if (messages.kind === "notification") return sendAccepted(response);
    if (principal?.isRevoked === true) return rejectUnauthorized(response);
    const idText = messages.idText;
    const envelope = checkModernRequest(messages, request.headers);
    if (envelope instanceof SidecarError) return refuse(envelope, idText);
    // The session of its id, if any, is not used.
    exchange.use(undefined);
    exchange.era = "modern";
    if (messages.method === "subscriptions/listen") exchange.acceptsStream = permitsEventStream(request);
    const reply = exchange.openReply(messages);
    if (reply.record !== undefined) reply.record.revision = exchange.version;
    const client = stateless.clientOf(exchange.memory);
    stateless.handle({ request: messages, envelope, headers: request.headers, reply, client, owner: principal });
  }
}

function invalidRequest(problem: string): SidecarError {
  return new SidecarError("INVALID_REQUEST", `${problem}. Send one request.`);
}

/** @returns an error if it is not accepted. */
export function forwardOneWay(session: Session, message: NotificationMessage | ResponseMessage): SidecarError | undefined {
  return message.kind === "notification" ? session.lane.notify(session, message) : session.lane.answer(session, message);
}

export function answerOneWay(response: ServerResponse, error: SidecarError | undefined): void {
  if (error === undefined) sendAccepted(response);
  else sendError(response, error);
}
