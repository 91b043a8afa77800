import type { IncomingMessage, ServerResponse } from "node:http";
import { SidecarError } from "../errors.ts";
import { isBatch, readClientBatch } from "../jsonrpc/client-batch.ts";
import { type ClientMessage, idTextOf, readClientMessage } from "../jsonrpc/client-message.ts";
import { hasBatches } from "../jsonrpc/protocol-versions.ts";
import type { RequestMessage } from "../jsonrpc/message.ts";
import type { Principal, Session } from "../mux/session.ts";
import { refuseUnauthorized } from "./access-guard.ts";
import { acceptsEventStream, acceptsJson } from "./content-negotiation.ts";
import { type OpenStream, openRequestStream } from "./event-streams.ts";
import { sendAccepted, sendError, sendProblem } from "./json-response.ts";
import type { McpRouteOptions } from "./mcp-route.ts";
import { PostBatch } from "./post-batch.ts";
import { PostExchange } from "./post-exchange.ts";
import { readBody } from "./read-body.ts";
import { refuse } from "./refuse.ts";
import { findSession, refuseSession } from "./session-header.ts";

const BATCH_REFUSED = "a batch (JSON array) is not accepted; send one message per request";

/** A POST while it is handled: where its answer goes, and what its time limits count from. */
export interface Post {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly principal: Principal | undefined;
  readonly acceptedAtMs: number;
}

/** POST on the endpoint: one message of a client, or a batch of them. */
export function createPostRoute({ lanes, sessions, connections, maxBodyBytes, nowMs }: Omit<McpRouteOptions, "isDraining">) {
  return (post: Post): void => {
    const { request, response } = post;
    if (!acceptsJson(request)) return refuse(request, response, new SidecarError("NOT_ACCEPTABLE", "Accept must allow application/json."));
    readBody(request, maxBodyBytes, (body) => {
      if (body instanceof SidecarError) return refuse(request, response, body);
      if (isBatch(body)) return carryBatch(post, body);
      const message = readClientMessage(body);
      if ("code" in message) sendProblem(response, message);
      else carry(post, message);
    });
  };

  function carry(post: Post, clientMessage: ClientMessage): void {
    const { request, response, principal } = post;
    const { message } = clientMessage;
    if (message.kind === "request" && message.method === "initialize") return initialize(post, clientMessage, message);
    const session = findSession(sessions, request, principal, nowMs());
    if (session instanceof SidecarError) {
      refuseSession(request, response, session, message.kind === "request" ? idTextOf(clientMessage) : undefined);
    } else if (message.kind === "request") {
      const exchange = openExchange(post, session, idTextOf(clientMessage));
      session.lane.request(session, exchange, clientMessage, message.method);
    } else {
      const error = take(session, clientMessage);
      if (error === undefined) sendAccepted(response);
      else sendError(response, error);
    }
  }

  function initialize(post: Post, clientMessage: ClientMessage, message: RequestMessage): void {
    const { request, response, principal: owner, acceptedAtMs } = post;
    // The token may have been taken back while the body arrived.
    if (owner?.isRevoked === true) return refuseUnauthorized(request, response);
    const idText = idTextOf(clientMessage);
    const { "mcp-session-id": sessionId } = request.headers;
    // An id that is not alive any more says only where the client comes from.
    const session = typeof sessionId === "string" ? sessions.get(sessionId) : undefined;
    if (session !== undefined && session.owner !== owner) return refuseUnauthorized(request, response);
    if (session !== undefined) {
      sessions.use(session.id, nowMs());
      const error = new SidecarError("INVALID_REQUEST", "This session is initialized already; call initialize without Mcp-Session-Id.");
      return sendError(response, error, idText);
    }
    const exchange = new PostExchange(response, idText, acceptedAtMs);
    lanes.initialize(exchange, clientMessage, message, ({ id }) => exchange.setHeaders({ "Mcp-Session-Id": id }), { owner });
  }

  function carryBatch(post: Post, body: string): void {
    const { request, response, principal } = post;
    const messages = readClientBatch(body);
    if (!Array.isArray(messages)) return sendProblem(response, messages);
    const session = findSession(sessions, request, principal, nowMs());
    if (session instanceof SidecarError && session.code !== "SESSION_REQUIRED") return refuseSession(request, response, session);
    if (session instanceof SidecarError || !hasBatches(session.protocolVersion)) {
      return sendProblem(response, { code: "INVALID_REQUEST", reason: BATCH_REFUSED, idText: undefined });
    }
    const batch = new PostBatch(openExchange(post, session, ""));
    const exchanges = messages.map((each) => (each.message.kind === "request" ? batch.add(idTextOf(each)) : undefined));
    // What cannot be taken stops the rest: a client can only be told of it in the answers to its requests, or by all of the answer.
    let error: SidecarError | undefined;
    for (const [index, each] of messages.entries()) {
      const exchange = exchanges[index];
      if (exchange === undefined) error ??= take(session, each);
      else if (error !== undefined) session.lane.refuse(exchange, error);
      else if (each.message.kind === "request") session.lane.request(session, exchange, each, each.message.method);
    }
    if (exchanges.some((exchange) => exchange !== undefined)) return;
    if (error === undefined) sendAccepted(response);
    else sendError(response, error);
  }

  /** Takes a notification, or an answer to a request of the server. @returns why it cannot be taken, if it cannot. */
  function take(session: Session, clientMessage: ClientMessage): SidecarError | undefined {
    const { message } = clientMessage;
    return message.kind === "notification"
      ? session.lane.notify(session, clientMessage, message.method)
      : session.lane.answer(clientMessage);
  }

  function openExchange({ request, response, acceptedAtMs }: Post, session: Session, idText: string): PostExchange {
    const openStream = (): OpenStream => openRequestStream(connections, response, session);
    return new PostExchange(response, idText, acceptedAtMs, acceptsEventStream(request) ? openStream : undefined);
  }
}
