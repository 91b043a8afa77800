import type { UpstreamHandshake } from "../../../src/upstream/port.ts";

/** Returns the handshake of a server with sessions. */
export function legacyHandshake(resultText = "{}", protocolVersion = "2025-11-25", generation = 1): UpstreamHandshake {
  return { generation, era: "legacy", resultText, protocolVersion, pingMethod: "ping", requestMeta: undefined };
}
