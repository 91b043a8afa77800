import type { IncomingMessage, ServerResponse } from "node:http";
import { SidecarError } from "../errors.ts";
import { type ClientMessage, readClientMessage } from "../jsonrpc/client-message.ts";
import { LEGACY_PROTOCOL_VERSIONS } from "../jsonrpc/protocol-versions.ts";
import type { Lane } from "../mux/lane.ts";
import type { Session, SessionStore } from "../mux/session-store.ts";
import { challenge, createTokenCheck } from "./access-guard.ts";
import { acceptsJson, hasJsonBody } from "./content-negotiation.ts";
import { sendAccepted, sendError } from "./json-response.ts";
import { PostExchange } from "./post-exchange.ts";
import { readBody } from "./read-body.ts";

/** How long the body of a refused request may take to arrive before its connection is closed. */
const LINGER_MS = 2000;

export interface McpRouteOptions {
  readonly lane: Lane;
  readonly sessions: SessionStore;
  readonly authToken: string | undefined;
  readonly maxBodyBytes: number;
  readonly nowMs: () => number;
}

export type Route = (request: IncomingMessage, response: ServerResponse) => void;

/** The endpoint of MCP Streamable HTTP (MCP 2025-11-25, basic/transports). Streams are not offered: GET answers 405. */
export function createMcpRoute({ lane, sessions, authToken, maxBodyBytes, nowMs }: McpRouteOptions): Route {
  const isAuthorized = createTokenCheck(authToken);

  return (request, response) => {
    const acceptedAtMs = nowMs();
    const { authorization } = request.headers;
    if (isAuthorized !== undefined && !isAuthorized(authorization)) {
      const error = new SidecarError("UNAUTHORIZED", "This endpoint needs a valid bearer token.");
      refuse(request, response, error, { "WWW-Authenticate": challenge(authorization) });
    } else if (request.method === "POST") post(request, response, acceptedAtMs);
    else if (request.method === "DELETE") endSession(request, response);
    else {
      const error = new SidecarError("METHOD_NOT_ALLOWED", `This endpoint does not offer ${request.method}; use POST or DELETE.`);
      refuse(request, response, error, { Allow: "POST, DELETE" });
    }
  };

  function post(request: IncomingMessage, response: ServerResponse, acceptedAtMs: number): void {
    if (!hasJsonBody(request)) {
      return refuse(
        request,
        response,
        new SidecarError("UNSUPPORTED_MEDIA_TYPE", "The body must be application/json in UTF-8, uncompressed."),
      );
    }
    if (!acceptsJson(request)) return refuse(request, response, new SidecarError("NOT_ACCEPTABLE", "Accept must allow application/json."));
    readBody(request, maxBodyBytes, (body) => {
      if (body instanceof SidecarError) return refuse(request, response, body);
      const message = readClientMessage(body);
      if ("code" in message) return sendError(response, new SidecarError(message.code, `${message.reason}.`), message.idText);
      carry(request, response, message, acceptedAtMs);
    });
  }

  function carry(request: IncomingMessage, response: ServerResponse, clientMessage: ClientMessage, acceptedAtMs: number): void {
    const { message, text, idSpan } = clientMessage;
    const idText = idSpan === undefined ? undefined : text.slice(idSpan.start, idSpan.end);
    if (message.kind === "request" && message.method === "initialize") {
      const exchange = new PostExchange(response, idText ?? "", acceptedAtMs);
      lane.initialize(exchange, message, (protocolVersion) => {
        exchange.setHeaders({ "Mcp-Session-Id": sessions.create(protocolVersion).id });
      });
      return;
    }
    const session = findSession(request);
    if (session instanceof SidecarError) return sendError(response, session, message.kind === "request" ? idText : undefined);
    if (message.kind === "request") {
      lane.request(session, new PostExchange(response, idText ?? "", acceptedAtMs), clientMessage, message.method);
      return;
    }
    // The shared lane asks its clients nothing, so a response answers nothing: taken, and dropped.
    const error = message.kind === "notification" ? lane.notify(session, clientMessage, message.method) : undefined;
    if (error === undefined) sendAccepted(response);
    else sendError(response, error);
  }

  function endSession(request: IncomingMessage, response: ServerResponse): void {
    request.resume();
    const session = findSession(request);
    if (session instanceof SidecarError) return sendError(response, session);
    sessions.end(session.id);
    lane.endSession(session);
    response.writeHead(204).end();
  }

  function findSession(request: IncomingMessage): Session | SidecarError {
    const { "mcp-session-id": sessionId, "mcp-protocol-version": protocolVersion } = request.headers;
    if (typeof sessionId !== "string")
      return new SidecarError("SESSION_REQUIRED", "The Mcp-Session-Id header is missing; call initialize first.");
    const session = sessions.use(sessionId);
    if (session === undefined)
      return new SidecarError("SESSION_NOT_FOUND", "This session does not exist or has ended; call initialize again.");
    if (protocolVersion !== undefined && !LEGACY_PROTOCOL_VERSIONS.includes(String(protocolVersion))) {
      return new SidecarError("UNSUPPORTED_PROTOCOL_VERSION", `The protocol version ${JSON.stringify(protocolVersion)} is not supported.`, {
        supported: LEGACY_PROTOCOL_VERSIONS,
      });
    }
    return session;
  }
}

/** Answers a request whose body may not have arrived yet. The rest is read and thrown away, or the client would never see the answer. */
function refuse(request: IncomingMessage, response: ServerResponse, error: SidecarError, headers?: Readonly<Record<string, string>>): void {
  sendError(response, error, undefined, headers);
  if (request.complete) return;
  request.resume();
  const timer = setTimeout(() => request.destroy(), LINGER_MS);
  request.once("close", () => clearTimeout(timer));
}
