import { isLegacyVersion } from "../../protocol/versions.ts";

/** All that a replica must know of a session of another one. */
export interface SessionClaims {
  /** The revision in the response to `initialize`. */
  readonly protocolVersion: string;
  /** The time of the `initialize`, in whole seconds since 1970. */
  readonly issuedAtS: number;
  /** The JSON text of the capabilities that the client has declared; empty if it has declared none. */
  readonly capabilitiesText: string;
  /** The JSON text of the client's `clientInfo`; empty if it has none, or if there was no room for it. */
  readonly clientInfoText: string;
}

const UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The version of the format below. A sidecar rejects the ids of other versions. */
const FORMAT = 1;
export const NONCE_BYTES = 12;
/** The format, the revision as a number, the time, the nonce, and the length of the capabilities. */
const HEAD_BYTES = 1 + 4 + 4 + NONCE_BYTES + 2;

/** Returns the claims in bytes, with the nonce that makes the id of each session unique. */
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

/** Returns the claims in bytes that a replica has signed; undefined if the sidecar does not know their format or revision. */
export function decodeClaims(bytes: Buffer): SessionClaims | undefined {
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
