import type { IncomingMessage, ServerResponse } from "node:http";
import { BATCH_REFUSED } from "../mcp/client-message.ts";
import { SidecarError } from "../mcp/errors.ts";
import { idTextOf, type Message, type NotificationMessage, type RequestMessage, type ResponseMessage } from "../mcp/message.ts";
import { checkModernRequest, isModernMessage } from "../server/request-check.ts";
import { hasBatches, isModernVersion, LEGACY_PROTOCOL_VERSIONS } from "../mcp/versions.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import type { Counters } from "../observe/counters.ts";
import type { Defects } from "../observe/log.ts";
import type { ObservedRequest } from "../observe/record.ts";
import { internalError, responseOutOfMemory, sessionNotFound } from "../server/failures.ts";
import type { KnownSession, SessionOpener } from "../server/session-opener.ts";
import type { StatelessRequests } from "../server/stateless-requests.ts";
import { type Exchange, type Principal, Session } from "../session/session.ts";
import type { SessionStore } from "../session/store.ts";
import { type ArrivingBodies, type MessageReceiver, needsNoSession, readMessages } from "./body.ts";
import { openRequestStream, openStatelessStream, type OpenStream, type SseConnections } from "./event-streams.ts";
import { rejectUnauthorized } from "./guards.ts";
import { PostExchange, SharedExchange, type SharedResponse } from "./reply.ts";
import {
  acceptsEventStream,
  acceptsJson,
  type Front,
  MODERN_FRONT,
  modernErrorBody,
  type Observe,
  permitsEventStream,
  type Post,
  reject,
  sendAccepted,
  sendError,
  sendProblem,
  sendRejection,
  SESSION_FRONT,
} from "./response.ts";
import type { UnreadOutput } from "./unread-output.ts";

/** A response up to this length is always kept: the error in its place would need the same. In UTF-16 units. */
const SMALL_LENGTH = 4096;
/** A kept text is copied into bytes when it is sent. */
const COPIES = 2;

/**
 * A batch of revision 2025-03-26: several requests in one POST, each with its own exchange. The responses are sent as one array, or as
 * one event each if a stream has begun. Until then they count as unread output of the client.
 */
class PostBatch implements SharedResponse {
  readonly httpStatus = 200;
  readonly #front: Front;
  readonly #whole: PostExchange;
  readonly #memory: MemoryAccount;
  /** The exchanges with the methods of their requests. */
  readonly #methods = new Map<SharedExchange, string>();
  #responses: string[] = [];
  #kept: Reservation | undefined;
  #open = 0;

  /** @param whole the exchange of the POST. @param memory the memory of the client. */
  constructor(front: Front, whole: PostExchange, memory: MemoryAccount) {
    this.#front = front;
    this.#whole = whole;
    this.#memory = memory;
    whole.onDisconnect(() => {
      this.#takeAll();
      for (const exchange of this.#methods.keys()) exchange.disconnect();
    });
  }

  /** Must be called for all requests of the batch before the first of them is forwarded. */
  add(request: RequestMessage, observed?: ObservedRequest): Exchange {
    const exchange = new SharedExchange(this.#front, idTextOf(request), this.#whole.acceptedAtMs, this, observed);
    this.#methods.set(exchange, request.method);
    this.#open++;
    return exchange;
  }

  get sharedBy(): number {
    return this.#methods.size;
  }

  get isListening(): boolean {
    return this.#whole.isListening;
  }

  emit(body: string): boolean {
    const isEmitted = this.#whole.emit(body);
    this.#flush();
    return isEmitted;
  }

  keepAlive(): void {
    this.#whole.keepAlive();
    this.#flush();
  }

  respond(body: string, exchange: SharedExchange): void {
    const hasRoom = this.#whole.isStream || this.#reserve(body);
    // A stream passes each response on at once.
    if (!hasRoom) this.#whole.keepAlive();
    const isLost = !hasRoom && !this.#whole.isStream;
    this.#responses.push(isLost ? this.#front.errorBody(responseOutOfMemory(this.#methods.get(exchange) ?? ""), exchange.idText) : body);
  }

  onFinished(): void {
    this.#open--;
    try {
      this.#flush();
      if (this.#open > 0) return;
      const responses = this.#takeAll();
      if (responses.length > 0) this.#whole.respondAll(responses);
      else this.#whole.dismiss();
    } catch (error) {
      // After a defect, the whole batch fails, since this exchange has already finished.
      this.#whole.fail(internalError(true));
      throw error;
    }
  }

  /** Reserves the memory of a response that is kept. @returns false if there is no room. */
  #reserve(body: string): boolean {
    const bytes = textMemoryBytes(body) * COPIES;
    this.#kept ??= this.#memory.hold("unread", 0);
    if (body.length > SMALL_LENGTH) return this.#kept.tryGrow(bytes);
    this.#kept.resize(this.#kept.bytes + bytes);
    return true;
  }

  /** Sends the kept responses if a stream has begun. */
  #flush(): void {
    if (this.#whole.isStream) for (const each of this.#takeAll()) this.#whole.emit(each);
  }

  #takeAll(): string[] {
    const responses = this.#responses;
    this.#responses = [];
    this.#kept?.release();
    this.#kept = undefined;
    return responses;
  }
}

interface StatelessPostsOptions {
  readonly requests: Pick<StatelessRequests, "handle">;
  readonly connections: SseConnections;
  readonly unread: Pick<UnreadOutput, "count">;
  /** Undefined if nothing observes requests. */
  readonly observe: Observe | undefined;
  readonly defects: Defects;
}

/** Handles POST requests of the revisions without sessions (MCP 2026-07-28, basic/transports). */
export class StatelessPosts {
  readonly #options: StatelessPostsOptions;

  constructor(options: StatelessPostsOptions) {
    this.#options = options;
  }

  /** True if a body belongs to a revision without sessions, at least in part. */
  isFor({ request }: Post, messages: Message | readonly Message[]): boolean {
    const version = request.headers["mcp-protocol-version"]?.toString();
    if (Array.isArray(messages)) return isModernVersion(version) || messages.some((each: Message) => isModernMessage(each, version));
    return isModernMessage(messages as Message, version);
  }

  /** True if a body that has not arrived yet is read without a session. */
  isLong({ request }: Post): boolean {
    return isModernVersion(request.headers["mcp-protocol-version"]?.toString());
  }

  handle(post: Post, messages: Message | readonly Message[]): void {
    const { request, response, principal, memory, acceptedAtMs } = post;
    const { requests, connections, unread, observe, defects } = this.#options;
    if (Array.isArray(messages)) return this.#refuse(post, invalidRequest("A batch is not part of this revision"));
    const message = messages as Message;
    if (message.kind === "response") return this.#refuse(post, invalidRequest("A server of this revision asks no requests"));
    // It has no effect. A cancellation in particular could name the request of another client.
    if (message.kind === "notification") return sendAccepted(response);
    if (principal?.isRevoked === true) return rejectUnauthorized(request, response);
    const idText = idTextOf(message);
    const envelope = checkModernRequest(message, request.headers);
    if (envelope instanceof SidecarError) return this.#refuse(post, envelope, idText);
    const accepts = message.method === "subscriptions/listen" ? permitsEventStream : acceptsEventStream;
    const openStream = accepts(request) ? () => openStatelessStream(connections, response, memory) : undefined;
    const observed = observe?.(post, message);
    if (observed !== undefined) observed.revision = request.headers["mcp-protocol-version"]?.toString();
    const client = { front: MODERN_FRONT, response, memory, observed };
    const exchange = new PostExchange({ ...client, unread, defects, idText, acceptedAtMs, openStream });
    requests.handle({ request: message, envelope, headers: request.headers, exchange, memory, owner: principal });
  }

  #refuse({ response }: Post, error: SidecarError, idText?: string): void {
    sendRejection(response, error, modernErrorBody(error, idText));
  }
}

function invalidRequest(problem: string): SidecarError {
  return new SidecarError("INVALID_REQUEST", `${problem}. Send one request.`);
}

/** Passes a request to the lane of its session. A defect fails only this request of a batch. */
export function forwardRequest(defects: Pick<Defects, "recover">, session: Session, exchange: Exchange, request: RequestMessage): void {
  try {
    session.lane.request(session, exchange, request);
  } catch (error) {
    defects.recover("client request", error, () => exchange.fail(internalError(true)));
  }
}

/** Passes a notification, or a response to a server request, to the lane of its session. @returns an error if it is not accepted. */
export function forwardOneWay(session: Session, message: NotificationMessage | ResponseMessage): SidecarError | undefined {
  return message.kind === "notification" ? session.lane.notify(session, message) : session.lane.answer(session, message);
}

export interface SessionLookupOptions {
  readonly opener: Pick<SessionOpener, "recognize" | "takeUp" | "forget">;
  readonly sessions: SessionStore;
  readonly nowMs: () => number;
}

type Lookup = Pick<Post, "request" | "principal" | "session">;

/**
 * The sessions that requests name in `Mcp-Session-Id` (MCP 2025-11-25, basic/transports, session management). A session that another
 * principal has opened is not found, and the request does not count as its use.
 */
export class SessionLookup {
  readonly #options: SessionLookupOptions;

  constructor(options: SessionLookupOptions) {
    this.#options = options;
  }

  /** Returns the open session that a request names; undefined if it names none. */
  findOpen({ headers }: IncomingMessage, principal: Principal | undefined): Session | undefined {
    const session = this.#options.sessions.get(String(headers["mcp-session-id"]));
    return session?.owner === principal ? session : undefined;
  }

  /** Returns the error if a request names no session that could be found. */
  refusal(post: Lookup): SidecarError | undefined {
    const found = this.#look(post);
    return found instanceof SidecarError ? found : undefined;
  }

  /** Ends the session of a request. @returns the error if there is none. */
  end(post: Lookup): SidecarError | undefined {
    const found = this.#look(post);
    if (found instanceof SidecarError) return found;
    if (found instanceof Session) this.#options.sessions.end(found);
    else this.#options.opener.forget(found);
    return undefined;
  }

  #look({ request, principal, session: atArrival }: Lookup): Session | KnownSession | SidecarError {
    const { "mcp-session-id": id, "mcp-protocol-version": protocolVersion } = request.headers;
    if (typeof id !== "string") return new SidecarError("SESSION_REQUIRED", "The Mcp-Session-Id header is missing; call initialize first.");
    const session = atArrival?.hasEnded === false ? atArrival : this.findOpen(request, principal);
    const found = session ?? this.#options.opener.recognize(id, principal);
    if (found === undefined) return sessionNotFound();
    session?.touch(this.#options.nowMs());
    if (protocolVersion === undefined || LEGACY_PROTOCOL_VERSIONS.includes(String(protocolVersion))) return found;
    return new SidecarError("UNSUPPORTED_PROTOCOL_VERSION", `The protocol version ${JSON.stringify(protocolVersion)} is not supported.`, {
      supported: LEGACY_PROTOCOL_VERSIONS,
    });
  }

  /**
   * Finds the session of a request. A session of another replica is taken up.
   *
   * @param messages those of the request; undefined for a GET. Responses and notifications alone do not start a server.
   * @param onFound called with the session or the error, nearly always at once. Not called if the client disconnects before.
   */
  find(post: Post, messages: Message | readonly Message[] | undefined, onFound: (session: Session | SidecarError) => void): void {
    const found = this.#look(post);
    if (found instanceof Session) {
      // Another request may have taken it up while this one arrived.
      if (found !== post.session) this.#use(found, post.response);
      onFound(found);
    } else if (found instanceof SidecarError) onFound(found);
    else this.#takeUp(found, post, Array.isArray(messages) ? messages : messages === undefined ? [] : [messages as Message], onFound);
  }

  #takeUp(
    known: KnownSession,
    { response, memory, acceptedAtMs }: Post,
    messages: readonly Message[],
    onFound: (session: Session | SidecarError) => void,
  ): void {
    const onDisconnect = (listener: () => void): void => void response.on("close", listener);
    const startsServer = messages.length === 0 || messages.some(({ kind }) => kind === "request");
    const waitingText = (): string => messages.map(({ text }) => text).join("");
    this.#options.opener.takeUp(known, { memory, exchange: { acceptedAtMs, onDisconnect }, startsServer, waitingText }, (taken) => {
      if (taken instanceof Session) this.#use(taken, response);
      onFound(taken);
    });
  }

  /** Returns the open session of a request. It is kept from eviction: while the request arrives, and until its response is read. */
  use(request: IncomingMessage, response: ServerResponse, principal: Principal | undefined): Session | undefined {
    const session = this.findOpen(request, principal);
    if (session !== undefined) this.#use(session, response);
    return session;
  }

  #use(session: Session, response: ServerResponse): void {
    // The client of a long notification may have left. Nothing would end its use.
    if (response.destroyed) return;
    session.beginRequest();
    response.on("close", () => session.endRequest(this.#options.nowMs()));
  }
}

export interface PostRouteOptions {
  readonly opener: Pick<SessionOpener, "initialize">;
  readonly lookup: SessionLookup;
  readonly connections: SseConnections;
  readonly unread: Pick<UnreadOutput, "count">;
  readonly maxBodyBytes: number;
  readonly bodies: ArrivingBodies;
  /** Undefined if requests without a session are not served. */
  readonly stateless: StatelessPosts | undefined;
  /** Undefined if nothing observes requests. */
  readonly observe: Observe | undefined;
  readonly counters: Pick<Counters, "countRefusal">;
  readonly defects: Defects;
  readonly nowMs: () => number;
}

function modernOff(): SidecarError {
  const message =
    "Requests without a session are not served here (CLAW_MCP_STDIO_MODERN, CLAW_MCP_STDIO_ISOLATION); call initialize first.";
  return new SidecarError("SESSION_REQUIRED", message);
}

/** Handles POST requests on the MCP endpoint. Each request has one message of a client, or a batch. */
export class PostRoute implements MessageReceiver {
  readonly #options: PostRouteOptions;

  constructor(options: PostRouteOptions) {
    this.#options = options;
  }

  handle(post: Post): void {
    const { request, response } = post;
    if (acceptsJson(request)) readMessages(post, this.#options, this);
    else reject(request, response, new SidecarError("NOT_ACCEPTABLE", "Accept must allow application/json."));
  }

  rejectLong(post: Post, beginning: Buffer): boolean {
    const { request, response } = post;
    if (this.#options.stateless?.isLong(post) === true) return false;
    if (request.headers["mcp-session-id"] === undefined && needsNoSession(request, beginning)) return false;
    const refusal = this.#options.lookup.refusal(post);
    if (refusal === undefined) return false;
    sendError(response, refusal);
    return true;
  }

  onMessages(post: Post, messages: Message | Message[]): void {
    // A client that left while its long body was read would never cancel its requests. A notification needs no response.
    if (post.response.destroyed && (Array.isArray(messages) || messages.kind === "request")) return;
    const { stateless } = this.#options;
    if (stateless?.isFor(post, messages) === true) stateless.handle(post, messages);
    else this.#onSessionMessages(post, messages);
  }

  #onSessionMessages(post: Post, messages: Message | Message[]): void {
    if (Array.isArray(messages)) this.#onBatch(post, messages);
    else if (messages.kind === "request" && messages.method === "initialize") this.#initialize(post, messages);
    else this.#onMessage(post, messages);
  }

  #onMessage(post: Post, message: Message): void {
    this.#options.lookup.find(post, message, (session) => {
      if (session instanceof SidecarError) this.#rejectMessage(post, message, session);
      else if (message.kind === "request") {
        forwardRequest(this.#options.defects, session, this.#openExchange(post, session, message), message);
      } else {
        const error = forwardOneWay(session, message);
        if (error === undefined) sendAccepted(post.response);
        else sendError(post.response, error);
      }
    });
  }

  #rejectMessage({ request, response }: Post, message: Message, error: SidecarError): void {
    // Such a notification concerns a request of another replica, or state that a new server gets at its start.
    if (message.kind === "notification" && error.code === "OTHER_REPLICA") return sendAccepted(response);
    const isOff = this.#options.stateless === undefined && error.code === "SESSION_REQUIRED";
    const shown = isOff && isModernMessage(message, request.headers["mcp-protocol-version"]?.toString()) ? modernOff() : error;
    sendError(response, shown, message.kind === "request" ? idTextOf(message) : undefined);
  }

  #initialize(post: Post, message: RequestMessage): void {
    const { opener, lookup, unread, observe, defects, nowMs } = this.#options;
    const { request, response, principal: owner, acceptedAtMs, memory } = post;
    // The token may have been removed while the body arrived.
    if (owner?.isRevoked === true) return rejectUnauthorized(request, response);
    const idText = idTextOf(message);
    // The id of a session that is not open here is ignored.
    const session = lookup.findOpen(request, owner);
    if (session !== undefined) {
      session.touch(nowMs());
      const error = new SidecarError("INVALID_REQUEST", "This session is already initialized; call initialize without Mcp-Session-Id.");
      return sendError(response, error, idText);
    }
    const observed = observe?.(post, message);
    const exchange = new PostExchange({ front: SESSION_FRONT, response, memory, unread, defects, idText, acceptedAtMs, observed });
    const onOpen = (opened: Session): void => {
      exchange.setHeaders({ "Mcp-Session-Id": opened.id });
      observed?.setSession(opened);
    };
    opener.initialize(exchange, message, onOpen, { owner, memory });
  }

  #onBatch(post: Post, messages: readonly Message[]): void {
    this.#options.lookup.find(post, messages, (session) => {
      const { response } = post;
      if (session instanceof SidecarError && session.code !== "SESSION_REQUIRED") sendError(response, session);
      else if (session instanceof SidecarError || !hasBatches(session.protocolVersion)) sendProblem(response, BATCH_REFUSED);
      else this.#forwardBatch(post, session, messages);
    });
  }

  #forwardBatch(post: Post, session: Session, messages: readonly Message[]): void {
    const { response } = post;
    const batch = new PostBatch(SESSION_FRONT, this.#openExchange(post, session, undefined), session.memory);
    const { observe } = this.#options;
    const exchanges = messages.map((each) => (each.kind === "request" ? batch.add(each, observe?.(post, each, session)) : undefined));
    // If a notification or response is not accepted, the later requests of the batch fail with its error.
    // The HTTP response reports the error if the batch has no requests.
    // A response to a server elsewhere concerns only itself.
    let error: SidecarError | undefined;
    let elsewhere: SidecarError | undefined;
    for (const [index, each] of messages.entries()) {
      const exchange = exchanges[index];
      if (each.kind !== "request") {
        const failure = error ?? forwardOneWay(session, each);
        if (failure?.code === "OTHER_REPLICA") elsewhere = failure;
        else error = failure;
      } else if (exchange !== undefined && error !== undefined) session.lane.refuse(exchange, error);
      else if (exchange !== undefined) forwardRequest(this.#options.defects, session, exchange, each);
    }
    if (exchanges.some((exchange) => exchange !== undefined)) return;
    const failure = error ?? elsewhere;
    if (failure === undefined) sendAccepted(response);
    else sendError(response, failure);
  }

  /** @param message undefined for a batch. */
  #openExchange(post: Post, session: Session, message: RequestMessage | undefined): PostExchange {
    const { request, response, acceptedAtMs } = post;
    const { connections, unread, observe, defects } = this.#options;
    const idText = message && idTextOf(message);
    // It must not refer to the message: that would keep its text in memory until the response.
    const openStream = (): OpenStream => openRequestStream(connections, response, session, idText);
    return new PostExchange({
      front: SESSION_FRONT,
      response,
      memory: session.memory,
      unread,
      defects,
      idText,
      acceptedAtMs,
      openStream: acceptsEventStream(request) ? openStream : undefined,
      observed: message && observe?.(post, message, session),
    });
  }
}
