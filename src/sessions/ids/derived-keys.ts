import { createHmac, createSecretKey, hkdfSync, type KeyObject } from "node:crypto";

export const KEY_BYTES = 32;

/** The purpose of a key: to sign session ids, or to encrypt the `requestState` of servers. */
type KeyPurpose = "session id" | "request state";

/** Returns the key of a secret for one MCP server (RFC 5869, HKDF). All replicas of this server with this secret have the same. */
export function deriveKey(secret: string | Uint8Array, purpose: KeyPurpose, serverName: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync("sha256", secret, "", `claw-mcp-stdio ${purpose} v1 ${serverName}`, KEY_BYTES)));
}

/** Returns a name for the session key of a secret, for comparisons of replicas: 8 hexadecimal digits, which tell nothing of a long secret. */
export function keyName(secret: string, serverName: string): string {
  return createHmac("sha256", deriveKey(secret, "session id", serverName))
    .update("name")
    .digest("hex")
    .slice(0, 8);
}
