import type { Counters } from "../../observability/counters.ts";
import type { Defects } from "../../observability/defects.ts";
import { SidecarError } from "../../errors.ts";
import { isModernMessage } from "../../era/checks/message-era.ts";
import { BATCH_REFUSED } from "../../protocol/client-message.ts";
import { hasBatches } from "../../protocol/versions.ts";
import { idTextOf, type Message, type RequestMessage } from "../../protocol/message.ts";
import type { SessionOpener } from "../../lane/handshake/session-opener.ts";
import type { Session } from "../../sessions/session.ts";
import { rejectUnauthorized } from "../guards/access-guard.ts";
import type { ArrivingBodies } from "./arriving-bodies.ts";
import { acceptsEventStream, acceptsJson } from "./content-negotiation.ts";
import { type OpenStream, openRequestStream } from "./event-streams.ts";
import { SESSION_FRONT } from "../front.ts";
import { sendAccepted, sendError, sendProblem } from "../json-response.ts";
import { PostBatch } from "./post-batch.ts";
import { PostExchange } from "./post-exchange.ts";
import { forwardOneWay, forwardRequest } from "./forward.ts";
import { type MessageReceiver, needsNoSession, readMessages } from "./read-messages.ts";
import { reject } from "../reject.ts";
import type { Observe } from "../request-log/observe.ts";
import type { Post } from "../route.ts";
import type { SessionLookup } from "./session-lookup.ts";
import type { StatelessPosts } from "./stateless-posts.ts";
import type { UnreadOutput } from "../output/unread-output.ts";
import type { SseConnections } from "../output/sse-connection.ts";

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
