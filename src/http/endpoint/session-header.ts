import type { IncomingMessage, ServerResponse } from "node:http";
import { SidecarError } from "../../errors.ts";
import { LEGACY_PROTOCOL_VERSIONS } from "../../protocol/versions.ts";
import type { SessionStore } from "../../sessions/session-store.ts";
import type { Principal, Session } from "../../sessions/session.ts";
import { rejectUnauthorized } from "../guards/access-guard.ts";
import { sendError } from "../json-response.ts";

/**
 * Returns the session that a request names, or an error for `rejectSession` (MCP 2025-11-25, basic/transports, sessions and protocol
 * version). A request with another principal's token does not count as use of the session.
 */
export function findSession(
  sessions: SessionStore,
  request: IncomingMessage,
  principal: Principal | undefined,
  nowMs: number,
): Session | SidecarError {
  const { "mcp-session-id": sessionId, "mcp-protocol-version": protocolVersion } = request.headers;
  if (typeof sessionId !== "string")
    return new SidecarError("SESSION_REQUIRED", "The Mcp-Session-Id header is missing; call initialize first.");
  const session = sessions.get(sessionId);
  if (session === undefined)
    return new SidecarError("SESSION_NOT_FOUND", "This session does not exist or has ended; call initialize again.");
  if (session.owner !== principal) return new SidecarError("UNAUTHORIZED", "The session belongs to another token.");
  session.touch(nowMs);
  if (protocolVersion === undefined || protocolVersion === session.protocolVersion) return session;
  if (LEGACY_PROTOCOL_VERSIONS.includes(String(protocolVersion))) return session;
  return new SidecarError("UNSUPPORTED_PROTOCOL_VERSION", `The protocol version ${JSON.stringify(protocolVersion)} is not supported.`, {
    supported: LEGACY_PROTOCOL_VERSIONS,
  });
}

/** Keeps the session that a request names from eviction: while the request arrives, and until its response is read. */
export function markInUse(
  sessions: SessionStore,
  { headers }: IncomingMessage,
  response: ServerResponse,
  principal: Principal | undefined,
  nowMs: () => number,
): void {
  const session = sessions.get(String(headers["mcp-session-id"]));
  if (session === undefined || session.owner !== principal) return;
  session.beginRequest();
  response.on("close", () => session.endRequest(nowMs()));
}

/** Rejects a request without a session. A token of another principal gets the same response as an invalid token. */
export function rejectSession(request: IncomingMessage, response: ServerResponse, error: SidecarError, idText?: string): void {
  if (error.code === "UNAUTHORIZED") rejectUnauthorized(request, response);
  else sendError(response, error, idText);
}
