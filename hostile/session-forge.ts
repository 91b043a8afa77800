// Session ids that a replica, or a client that knows its own token, can sign.

import { createHmac, hash, randomBytes } from "node:crypto";
import { encodeClaims, NONCE_BYTES, type SessionClaims } from "../src/sessions/ids/session-claims.ts";
import { deriveKey } from "../src/sessions/ids/derived-keys.ts";

export interface Signer {
  /** SESSION_KEY, or the token if the sidecar has none. */
  readonly secret: string;
  /** The token of the client that the id is for. */
  readonly token: string;
}

/** The default of SERVER_NAME. */
const SERVER_NAME = "mcp";

/** Returns an id like one of a replica. Claims may be replaced by others. */
export function issueId(signer: Signer, claims: Partial<SessionClaims> = {}): string {
  const issuedAtS = Math.floor(Date.now() / 1000);
  const usual = { protocolVersion: "2025-11-25", issuedAtS, capabilitiesText: "{}", clientInfoText: '{"name":"a","version":"1"}' };
  return signId(signer, encodeClaims({ ...usual, ...claims }, randomBytes(NONCE_BYTES)));
}

/** Returns an id with any bytes as claims, and the right signature. */
export function signId({ secret, token }: Signer, claims: Uint8Array): string {
  const fingerprint = hash("sha256", `claw-mcp-stdio principal ${token}`, "base64url");
  const mac = createHmac("sha256", deriveKey(secret, "session id", SERVER_NAME))
    .update(`${fingerprint}.`)
    .update(claims)
    .digest();
  return Buffer.concat([claims, mac]).toString("base64url");
}
