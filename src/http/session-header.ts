import type { IncomingMessage } from "node:http";
import { SidecarError } from "../errors.ts";
import { LEGACY_PROTOCOL_VERSIONS } from "../jsonrpc/protocol-versions.ts";
import type { SessionStore } from "../mux/session-store.ts";
import type { Session } from "../mux/session.ts";

/** The session that a request names, or why it has none (MCP 2025-11-25, basic/transports, sessions and protocol version). */
export function findSession(sessions: SessionStore, request: IncomingMessage, nowMs: number): Session | SidecarError {
  const { "mcp-session-id": sessionId, "mcp-protocol-version": protocolVersion } = request.headers;
  if (typeof sessionId !== "string")
    return new SidecarError("SESSION_REQUIRED", "The Mcp-Session-Id header is missing; call initialize first.");
  const session = sessions.use(sessionId, nowMs);
  if (session === undefined)
    return new SidecarError("SESSION_NOT_FOUND", "This session does not exist or has ended; call initialize again.");
  if (protocolVersion === undefined || protocolVersion === session.protocolVersion) return session;
  if (LEGACY_PROTOCOL_VERSIONS.includes(String(protocolVersion))) return session;
  return new SidecarError("UNSUPPORTED_PROTOCOL_VERSION", `The protocol version ${JSON.stringify(protocolVersion)} is not supported.`, {
    supported: LEGACY_PROTOCOL_VERSIONS,
  });
}
