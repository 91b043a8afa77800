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
import { allowHeader, ROUTES } from "../routes.ts";
import { setSession } from "../observe/record.ts";
import type { HeldRequest } from "../server/calls.ts";
import { sessionNotFound, shuttingDown } from "../server/failures.ts";
import { checkModernRequest } from "../server/request-check.ts";
import type { SessionOpener } from "../server/session-opener.ts";
import { type KnownSession, Session } from "../session/session.ts";
import type { StatelessRequests } from "../server/stateless-requests.ts";
import type { SessionStore } from "../session/store.ts";
import { ArrivingPosts, type MessageReceiver, Post } from "./body.ts";
import { openGetStream, SseConnections } from "./event-streams.ts";
import { rejectUnauthorized } from "./guards.ts";
import { PostResponse } from "./reply.ts";
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
  // A person has opened the URL in a browser. Only pages accept HTML.
  if (headers.accept?.includes("text/html") === true) {
    const message = `This URL is for MCP clients, not for browsers; ${ROUTES.ready.path} shows if the MCP server is ready.`;
    return new SidecarError("SESSION_REQUIRED", message, {}, "browser");
  }
  // The status is 405: clients that try HTTP+SSE first, as mcp-remote with `sse-first`, go on to Streamable HTTP only after 404 or 405.
  const message = "GET opens an event stream of a session, but the Mcp-Session-Id header is missing; call initialize first.";
  return new SidecarError("METHOD_NOT_ALLOWED", message);
}

/**
 * POST, GET and DELETE of Streamable HTTP (MCP 2025-11-25, basic/transports), and POST without a session (MCP 2026-07-28, basic/transports).
 * A session that another principal has opened is not found, and the request does not count as its use.
 */
export class McpEndpoint implements MessageReceiver {
  readonly connections: SseConnections;
  readonly arriving: ArrivingPosts;
  readonly #context: Context;
  readonly #opener: SessionOpener;
  readonly #sessions: SessionStore;
  readonly #stateless: StatelessRequests | undefined;

  constructor(context: Context, opener: SessionOpener, sessions: SessionStore, stateless: StatelessRequests | undefined) {
    this.#context = context;
    [this.#opener, this.#sessions, this.#stateless] = [opener, sessions, stateless];
    this.connections = new SseConnections(context);
    this.arriving = new ArrivingPosts(context);
  }

  readonly route: Route = (request, response, principal) => {
    const { method } = request;
    const post = new Post(this.#context, request, response, principal);
    const session = method === "DELETE" ? undefined : this.#sessions.get(post.sessionId, principal);
    // It is kept from eviction: while the request arrives, and until its response is read.
    if (session !== undefined) post.use(session);
    if (method === "POST" && post.accepted.json) return post.read(this, this.arriving);
    if (method === "POST") return reject(response, new SidecarError("NOT_ACCEPTABLE", "Accept must allow application/json."));
    request.resume();
    if (method === "GET") this.#openStream(post);
    else this.#endSession(post);
  };

  rejectLong(post: Post, beginning: Buffer): boolean {
    const { version, sessionId } = post;
    const needsNoSession = isModernVersion(version) && (this.#stateless !== undefined || sessionId === undefined);
    if (needsNoSession || (sessionId === undefined && isInitialize(beginning))) return false;
    const found = this.#look(post);
    if (!(found instanceof SidecarError)) return false;
    sendError(post.response, found);
    return true;
  }

  onMessages(post: Post, messages: Message | Message[]): void {
    const { response, version } = post;
    const isBatch = Array.isArray(messages);
    // A client that left while its long body was read would never cancel its requests. A notification needs no response.
    if (response.destroyed && (isBatch || messages.kind === "request")) return;
    if (this.#stateless !== undefined) {
      const isModern = isBatch
        ? isModernVersion(version) || messages.some((each) => isModernMessage(each, version))
        : isModernMessage(messages, version);
      if (isModern) return this.#onStateless(this.#stateless, post, messages);
    }
    if (!isBatch && messages.kind === "request" && messages.method === "initialize") return this.#initialize(post, messages);
    const found = this.#look(post);
    const waits = found instanceof Session && found.isMoving && [messages].flat().some(({ kind }) => kind === "request");
    if ((found instanceof Session && !waits) || found instanceof SidecarError) this.#onFound(post, messages, found);
    else this.#takeUp(post, [messages].flat(), found, (taken) => this.#onFound(post, messages, taken));
  }

  #openStream(post: Post): void {
    const { request, response } = post;
    const found = this.#look(post);
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
    else this.#takeUp(post, [], found, open);
  }

  #endSession(post: Post): void {
    const found = this.#look(post);
    if (found instanceof SidecarError) return sendError(post.response, found);
    this.#opener.end(found);
    post.response.writeHead(204).end();
  }

  /** Also begins the use of the session. It may be one of another replica. */
  #look(post: Post): Session | KnownSession | SidecarError {
    const { version, principal, sessionId: id, session: atArrival } = post;
    if (id === undefined) return new SidecarError("SESSION_REQUIRED", "The Mcp-Session-Id header is missing; call initialize first.");
    // Another request may have taken it up while this one arrived.
    const session = atArrival?.hasEnded === false ? atArrival : this.#sessions.get(id, principal);
    const found = session ?? this.#opener.recognize(id, principal);
    if (found === undefined) return sessionNotFound();
    if (session !== undefined) post.use(session);
    if (version === undefined || LEGACY_PROTOCOL_VERSIONS.includes(version)) return found;
    return new SidecarError("UNSUPPORTED_PROTOCOL_VERSION", `The protocol version ${JSON.stringify(version)} is not supported.`, {
      supported: LEGACY_PROTOCOL_VERSIONS,
    });
  }

  /** Unless the client disconnects before. */
  #takeUp(post: Post, messages: Message[], known: Session | KnownSession, onTaken: (session: Session | SidecarError) => void): void {
    const { acceptedAtMs } = post;
    const held: HeldRequest["reply"] = { acceptedAtMs, onDisconnect: undefined };
    post.onClosed = () => held.onDisconnect?.();
    this.#opener.takeUp(known, this.#context.memory.account(post.holder), held, messages, (taken) => {
      if (taken instanceof Session) post.use(taken);
      onTaken(taken);
    });
  }

  #onFound(post: Post, messages: Message | Message[], session: Session | SidecarError): void {
    if (Array.isArray(messages)) {
      if (session instanceof SidecarError && session.code !== "SESSION_REQUIRED") sendError(post.response, session);
      else if (session instanceof SidecarError || !hasBatches(session.protocolVersion)) sendProblem(post.response, BATCH_REFUSED);
      else this.#forwardBatch(post, session, messages);
    } else if (session instanceof SidecarError) this.#rejectMessage(post, messages, session);
    else if (messages.kind === "request") {
      const reply = new PostResponse(this.connections, post, "legacy", post.accepted.events, session).openReply(messages);
      session.lane.request(session, reply, messages);
    } else answerOneWay(post.response, forwardOneWay(session, messages));
  }

  #rejectMessage({ response, version }: Post, message: Message, error: SidecarError): void {
    // Such a notification concerns a request of another replica, or state that a new server gets at its start.
    if (message.kind === "notification" && error.code === "OTHER_REPLICA") return sendAccepted(response);
    const isOff = this.#stateless === undefined && error.code === "SESSION_REQUIRED" && isModernMessage(message, version);
    const settings = "CLAW_MCP_STDIO_MODERN, CLAW_MCP_STDIO_ISOLATION";
    const shown = isOff
      ? new SidecarError("SESSION_REQUIRED", `Requests without a session are not served here (${settings}); call initialize first.`)
      : error;
    sendError(response, shown, message.kind === "request" ? message.idText : undefined);
  }

  #initialize(post: Post, message: RequestMessage): void {
    const { response, principal: owner, holder } = post;
    // The token may have been removed while the body arrived.
    if (owner?.isRevoked === true) return rejectUnauthorized(response);
    const idText = message.idText;
    // The id of a session that is not open here is ignored.
    const session = this.#sessions.get(post.sessionId, owner);
    if (session !== undefined) {
      session.touch(this.#context.nowMs());
      const error = new SidecarError("INVALID_REQUEST", "This session is already initialized; call initialize without Mcp-Session-Id.");
      return sendError(response, error, idText);
    }
    const target = new PostResponse(this.connections, post, "legacy", false);
    const reply = target.openReply(message);
    const onOpen = (opened: Session | KnownSession): void => {
      target.headers = { "Mcp-Session-Id": opened.id };
      setSession(reply.record, opened);
    };
    const streams = this.#opener.createStreams(this.#context.memory.account(holder));
    this.#opener.initialize(reply, message, streams, owner, onOpen);
  }

  #forwardBatch(post: Post, session: Session, messages: readonly Message[]): void {
    const whole = new PostResponse(this.connections, post, "legacy", post.accepted.events, session);
    const replies = messages.map((each) => (each.kind === "request" ? whole.openPart(each) : undefined));
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
    if (replies.every((reply) => reply === undefined)) answerOneWay(post.response, error ?? elsewhere);
  }

  #onStateless(stateless: StatelessRequests, post: Post, messages: Message | Message[]): void {
    const { request, response, principal, holder } = post;
    const refuse = (error: SidecarError, idText?: string): void => sendRejection(response, error, errorBody(error, idText, "modern"));
    if (Array.isArray(messages)) return refuse(invalidRequest("A batch is not part of this revision"));
    if (messages.kind === "response") return refuse(invalidRequest("A server of this revision asks no requests"));
    // It has no effect. A cancellation in particular could name the request of another client.
    if (messages.kind === "notification") return sendAccepted(response);
    if (principal?.isRevoked === true) return rejectUnauthorized(response);
    const idText = messages.idText;
    const envelope = checkModernRequest(messages, request.headers);
    if (envelope instanceof SidecarError) return refuse(envelope, idText);
    const acceptsStream = messages.method === "subscriptions/listen" ? permitsEventStream(request) : post.accepted.events;
    const reply = new PostResponse(this.connections, post, "modern", acceptsStream).openReply(messages);
    if (reply.record !== undefined) reply.record.revision = post.version;
    const memory = this.#context.memory.account(holder);
    stateless.handle({ request: messages, envelope, headers: request.headers, reply, memory, owner: principal });
  }
}

function invalidRequest(problem: string): SidecarError {
  return new SidecarError("INVALID_REQUEST", `${problem}. Send one request.`);
}

/** @returns an error if it is not accepted. */
export function forwardOneWay(session: Session, message: NotificationMessage | ResponseMessage): SidecarError | undefined {
  return message.kind === "notification" ? session.lane.notify(session, message) : session.lane.answer(session, message);
}

/** @param error that of the messages, if they are not accepted. */
export function answerOneWay(response: ServerResponse, error: SidecarError | undefined): void {
  if (error === undefined) sendAccepted(response);
  else sendError(response, error);
}
