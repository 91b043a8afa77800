import { createHmac, createSecretKey, hkdfSync, type KeyObject, randomBytes, timingSafeEqual } from "node:crypto";
import type { Config } from "../config/load.ts";
import type { Context } from "../context.ts";
import { isLegacyVersion } from "../mcp/message.ts";
import type { Principal } from "./session.ts";

const KEY_BYTES = 32;

/**
 * The key of a secret for one MCP server (RFC 5869, HKDF), the same in all replicas.
 *
 * @param purpose to sign session ids, or to encrypt the `requestState` of servers.
 */
export function deriveKey(secret: string | Uint8Array, purpose: "session id" | "request state", serverName: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync("sha256", secret, "", `claw-mcp-stdio ${purpose} v1 ${serverName}`, KEY_BYTES)));
}

/** Names the session key of a secret, to compare replicas: 8 hexadecimal digits, which tell nothing of a long secret. */
export function keyName(secret: string, serverName: string): string {
  return createHmac("sha256", deriveKey(secret, "session id", serverName))
    .update("name")
    .digest("hex")
    .slice(0, 8);
}

const MAX_ENDED = 16_384;
/** The end of an id is its signature, which no other id has. */
const NAME_LENGTH = 22;

/** A principal that ends many pushes only its own out of the memory. */
class EndedSessions {
  /** The oldest first, by principal. */
  readonly #byOwner = new Map<Principal | undefined, Set<string>>();

  add(id: string, owner: Principal | undefined): void {
    const own = this.#byOwner.get(owner) ?? new Set();
    this.#byOwner.set(owner, own.add(nameOf(id)));
    let size = 0;
    let largest = own;
    for (const [principal, ended] of this.#byOwner) {
      // The ids of a removed token are not valid any more.
      if (principal?.isRevoked === true) this.#byOwner.delete(principal);
      else size += ended.size;
      if (ended.size > largest.size) largest = ended;
    }
    const [oldest] = largest;
    if (size > MAX_ENDED && oldest !== undefined) largest.delete(oldest);
  }

  has(id: string, owner: Principal | undefined): boolean {
    return this.#byOwner.get(owner)?.has(nameOf(id)) === true;
  }
}

/** A copy, so that the id itself is not kept. */
function nameOf(id: string): string {
  return Buffer.from(id.slice(-NAME_LENGTH), "latin1").toString("latin1");
}

/** What a replica must know of a session of another one. */
export interface SessionClaims {
  /** The revision in the response to `initialize`. */
  readonly protocolVersion: string;
  readonly issuedAtS: number;
  /** JSON text; empty if the client has declared none. */
  readonly capabilitiesText: string;
  /** JSON text; empty if it has none, or if there was no room for it. */
  readonly clientInfoText: string;
}

const UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A sidecar rejects the ids of other versions. */
const FORMAT = 1;
export const NONCE_BYTES = 12;
/** The format, the revision as a number, the time, the nonce, and the length of the capabilities. */
const HEAD_BYTES = 1 + 4 + 4 + NONCE_BYTES + 2;

/** The nonce makes the id of each session unique. */
export function encodeClaims(claims: SessionClaims, nonce: Uint8Array): Buffer {
  const [capabilities, clientInfo] = [Buffer.from(claims.capabilitiesText), Buffer.from(claims.clientInfoText)];
  const bytes = Buffer.alloc(HEAD_BYTES + capabilities.length + clientInfo.length);
  bytes.writeUInt8(FORMAT, 0);
  bytes.writeUInt32BE(Number(claims.protocolVersion.replaceAll("-", "")), 1);
  bytes.writeUInt32BE(claims.issuedAtS, 5);
  bytes.set(nonce, 9);
  bytes.writeUInt16BE(capabilities.length, HEAD_BYTES - 2);
  bytes.set(capabilities, HEAD_BYTES);
  bytes.set(clientInfo, HEAD_BYTES + capabilities.length);
  return bytes;
}

function decodeClaims(bytes: Buffer): SessionClaims | undefined {
  if (bytes.length < HEAD_BYTES || bytes.readUInt8(0) !== FORMAT) return undefined;
  const protocolVersion = String(bytes.readUInt32BE(1)).replace(/^(\d{4})(\d\d)(\d\d)$/, "$1-$2-$3");
  const infoStart = HEAD_BYTES + bytes.readUInt16BE(HEAD_BYTES - 2);
  if (!isLegacyVersion(protocolVersion) || infoStart > bytes.length) return undefined;
  try {
    return {
      protocolVersion,
      issuedAtS: bytes.readUInt32BE(5),
      capabilitiesText: UTF_8.decode(bytes.subarray(HEAD_BYTES, infoStart)),
      clientInfoText: UTF_8.decode(bytes.subarray(infoStart)),
    };
  } catch {
    // A client that knows the key may sign any bytes.
    return undefined;
  }
}

/** The first key signs or encrypts, and all are accepted. There is at least one. */
export class SessionKeys {
  /**
   * For the `requestState` of servers: those of SESSION_KEY, else a random one. With a key from a token, its client could read and change
   * the state.
   */
  readonly requestState: readonly KeyObject[];
  readonly #configured: readonly KeyObject[];
  readonly #random: readonly KeyObject[];

  constructor(texts: readonly string[], serverName: string) {
    this.#configured = texts.map((text) => deriveKey(text, "session id", serverName));
    const randomSecret = randomBytes(KEY_BYTES);
    this.#random = [deriveKey(randomSecret, "session id", serverName)];
    this.requestState = (texts.length > 0 ? texts : [randomSecret]).map((secret) => deriveKey(secret, "request state", serverName));
  }

  /**
   * For session ids: those of SESSION_KEY, else the one that is derived from the token. A principal with a short token, or none, has a
   * random key, which no other process knows.
   */
  of(principal: Principal | undefined): readonly KeyObject[] {
    if (this.#configured.length > 0) return this.#configured;
    return principal?.sessionKey === undefined ? this.#random : [principal.sessionKey];
  }

  /** Then it can sign any session id of its own. */
  isKnownTo(principal: Principal | undefined): boolean {
    return this.#configured.length === 0 && principal?.sessionKey !== undefined;
  }
}

/** Clients and proxies keep ids up to this length. */
const MAX_ID_LENGTH = 512;
/** In base64url, four characters have three bytes. */
const MAX_ID_BYTES = (MAX_ID_LENGTH / 4) * 3;
const MAC_BYTES = 32;
/** Another replica's clock may be ahead. */
const MAX_SKEW_MS = 5 * 60_000;

export interface ClientClaims extends Omit<SessionClaims, "issuedAtS"> {
  /** True if a server gets the capabilities. Without room for them, the id is valid for this process only. */
  readonly needsCapabilities: boolean;
}

/**
 * An id has the claims about its session, and a signature (HMAC-SHA-256) over these and the principal. Each process with the same key can
 * check it. A client can sign ids only if the key is derived from its token, and only for itself. Ids are visible ASCII (MCP 2025-11-25,
 * basic/transports, session management).
 */
export class SessionIds {
  readonly keys: SessionKeys;
  readonly #config: Config;
  readonly #timeMs: () => number;
  readonly #ended = new EndedSessions();

  constructor({ config }: Context, keys: SessionKeys, timeMs: () => number = Date.now) {
    [this.#config, this.keys, this.#timeMs] = [config, keys, timeMs];
  }

  /** Any process with the same key can open it. Undefined if the claims are too long. */
  issue({ needsCapabilities, ...client }: ClientClaims, owner: Principal | undefined): string | undefined {
    const [key] = this.keys.of(owner);
    const withoutInfo = { ...client, clientInfoText: "" };
    const candidates = needsCapabilities ? [client, withoutInfo] : [client, withoutInfo, { ...withoutInfo, capabilitiesText: "" }];
    for (const claims of candidates) {
      // A server may have answered with any revision.
      if (!isLegacyVersion(claims.protocolVersion)) break;
      if (claims.capabilitiesText.length + claims.clientInfoText.length > MAX_ID_LENGTH) continue;
      const bytes = encodeClaims({ ...claims, issuedAtS: Math.floor(this.#timeMs() / 1000) }, randomBytes(NONCE_BYTES));
      if (key === undefined || bytes.length + MAC_BYTES > MAX_ID_BYTES) continue;
      return Buffer.concat([bytes, sign(key, bytes, owner)]).toString("base64url");
    }
    return undefined;
  }

  open(id: string, owner: Principal | undefined): SessionClaims | undefined {
    const bytes = this.#verify(id, owner);
    const claims = bytes && decodeClaims(bytes);
    if (claims === undefined || this.#ended.has(id, owner)) return undefined;
    const ageMs = this.#timeMs() - claims.issuedAtS * 1000;
    return ageMs <= this.#config.sessionMaxAgeMs && ageMs >= -MAX_SKEW_MS ? claims : undefined;
  }

  /** Invalid from now on at this process. Does nothing for a random id. */
  end(id: string, owner: Principal | undefined): void {
    if (this.#verify(id, owner) !== undefined) this.#ended.add(id, owner);
  }

  #verify(id: string, owner: Principal | undefined): Buffer | undefined {
    if (id.length > MAX_ID_LENGTH) return undefined;
    const bytes = Buffer.from(id, "base64url");
    // The decoder ignores some characters and the last bits, but two spellings must not be the same session.
    if (bytes.length <= MAC_BYTES || bytes.toString("base64url") !== id) return undefined;
    const [claims, mac] = [bytes.subarray(0, -MAC_BYTES), bytes.subarray(-MAC_BYTES)];
    const isSigned = this.keys.of(owner).some((key) => timingSafeEqual(sign(key, claims, owner), mac));
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
