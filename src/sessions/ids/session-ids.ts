import { createHmac, type KeyObject, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import type { Principal } from "../principal.ts";
import { EndedSessions } from "./ended-sessions.ts";
import { decodeClaims, encodeClaims, NONCE_BYTES, type SessionClaims } from "./session-claims.ts";
import type { SessionKeys } from "./session-keys.ts";

/** Clients and proxies keep ids up to this length. */
const MAX_ID_LENGTH = 512;
const MAC_BYTES = 32;
/** The clock of another replica may be ahead by this much. */
const MAX_SKEW_MS = 5 * 60_000;

/** A client, as far as a replica can be told about it. */
export interface ClientClaims extends Omit<SessionClaims, "issuedAtS"> {
  /** True if a server gets the capabilities. Without room for them, the id is valid for this process only. */
  readonly needsCapabilities: boolean;
}

export interface SessionIdsOptions {
  readonly keys: SessionKeys;
  /** Older ids are rejected. */
  readonly maxAgeMs: number;
  /** Returns the time since 1970. */
  readonly timeMs?: () => number;
}

/**
 * The ids of sessions. An id has the claims about its session, and a signature (HMAC-SHA-256) over these and the principal. Each process with
 * the same key can check it. A client can sign ids only if the key is derived from its token, and only for itself. An id consists of visible
 * ASCII characters (MCP 2025-11-25, basic/transports, session management).
 */
export class SessionIds {
  readonly #options: SessionIdsOptions;
  readonly #timeMs: () => number;
  readonly #ended = new EndedSessions();

  constructor(options: SessionIdsOptions) {
    this.#options = options;
    this.#timeMs = options.timeMs ?? Date.now;
  }

  issue({ needsCapabilities, ...client }: ClientClaims, owner: Principal | undefined): string {
    const [key] = this.#options.keys.of(owner);
    const withoutInfo = { ...client, clientInfoText: "" };
    const candidates = needsCapabilities ? [client, withoutInfo] : [client, withoutInfo, { ...withoutInfo, capabilitiesText: "" }];
    for (const claims of candidates) {
      if (claims.capabilitiesText.length + claims.clientInfoText.length > MAX_ID_LENGTH) continue;
      const bytes = encodeClaims({ ...claims, issuedAtS: Math.floor(this.#timeMs() / 1000) }, randomBytes(NONCE_BYTES));
      if (key === undefined || base64Length(bytes.length + MAC_BYTES) > MAX_ID_LENGTH) continue;
      return Buffer.concat([bytes, sign(key, bytes, owner)]).toString("base64url");
    }
    return randomUUID();
  }

  /** Returns the claims of an id that a process with the same key has issued to this principal; undefined if it is not valid. */
  open(id: string, owner: Principal | undefined): SessionClaims | undefined {
    const bytes = this.#verify(id, owner);
    const claims = bytes && decodeClaims(bytes);
    if (claims === undefined || this.#ended.has(id, owner)) return undefined;
    const ageMs = this.#timeMs() - claims.issuedAtS * 1000;
    return ageMs <= this.#options.maxAgeMs && ageMs >= -MAX_SKEW_MS ? claims : undefined;
  }

  /** True if the owner of an id can sign any other. */
  canSign(owner: Principal | undefined): boolean {
    return this.#options.keys.isKnownTo(owner);
  }

  /** Makes an id invalid for this process. Does nothing for a random id. */
  end(id: string, owner: Principal | undefined): void {
    if (this.#verify(id, owner) !== undefined) this.#ended.add(id, owner);
  }

  /** @returns the bytes of the claims; undefined if the signature is not valid. */
  #verify(id: string, owner: Principal | undefined): Buffer | undefined {
    if (id.length > MAX_ID_LENGTH) return undefined;
    const bytes = Buffer.from(id, "base64url");
    // The decoder ignores some characters and the last bits, but two spellings must not be the same session.
    if (bytes.length <= MAC_BYTES || bytes.toString("base64url") !== id) return undefined;
    const [claims, mac] = [bytes.subarray(0, -MAC_BYTES), bytes.subarray(-MAC_BYTES)];
    const isSigned = this.#options.keys.of(owner).some((key) => timingSafeEqual(sign(key, claims, owner), mac));
    return isSigned ? claims : undefined;
  }
}

function sign(key: KeyObject, claims: Buffer, owner: Principal | undefined): Buffer {
  // The end of the first part is certain, since a fingerprint contains no dot.
  return createHmac("sha256", key)
    .update(`${owner?.fingerprint ?? ""}.`)
    .update(claims)
    .digest();
}

function base64Length(byteLength: number): number {
  return Math.ceil((byteLength * 4) / 3);
}
