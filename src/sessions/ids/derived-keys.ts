import { createHmac, createSecretKey, hkdfSync, type KeyObject } from "node:crypto";

export const KEY_BYTES = 32;

/** The keys that are made of one secret, one for each purpose. */
export interface DerivedKeys {
  /** Signs session ids. */
  readonly sessionId: KeyObject;
  /** Encrypts the `requestState` of servers. */
  readonly requestState: KeyObject;
}

/** Returns the keys of a secret for one MCP server (RFC 5869, HKDF). All replicas of this server with this secret have the same. */
export function deriveKeys(secret: string | Uint8Array, serverName: string): DerivedKeys {
  const derive = (purpose: string): KeyObject =>
    createSecretKey(Buffer.from(hkdfSync("sha256", secret, "", `claw-mcp-stdio ${purpose} v1 ${serverName}`, KEY_BYTES)));
  return { sessionId: derive("session id"), requestState: derive("request state") };
}

/** Returns a name for the session key of a secret, for comparisons of replicas: 8 hexadecimal digits, which tell nothing of a long secret. */
export function keyName(secret: string, serverName: string): string {
  return createHmac("sha256", deriveKeys(secret, serverName).sessionId).update("name").digest("hex").slice(0, 8);
}
