import { findMembers } from "../json/find.ts";
import { readValue } from "../json/value.ts";
import { JsonRpcErrorCode } from "./errors.ts";
import { type Message, type RequestMessage, type ResponseMessage, Slot } from "./message.ts";

/** The revisions of MCP with `initialize` and sessions, newest first. */
export const LEGACY_PROTOCOL_VERSIONS: readonly string[] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

export const NEWEST_LEGACY_PROTOCOL_VERSION = "2025-11-25";

/** The revisions without sessions: each request has its revision and capabilities in `_meta`. Newest first. */
export const MODERN_PROTOCOL_VERSIONS: readonly string[] = ["2026-07-28"];

export const NEWEST_MODERN_PROTOCOL_VERSION = "2026-07-28";

/** The first of them. Later ones sort after it as text. */
const FIRST_MODERN_PROTOCOL_VERSION = "2026-07-28";

export function isLegacyVersion(protocolVersion: string): boolean {
  return LEGACY_PROTOCOL_VERSIONS.includes(protocolVersion);
}

/** True for the first revision without sessions and for later ones, known or not. */
export function isModernVersion(protocolVersion: string | undefined): boolean {
  if (protocolVersion === undefined || protocolVersion < FIRST_MODERN_PROTOCOL_VERSION) return false;
  return protocolVersion === FIRST_MODERN_PROTOCOL_VERSION || /^\d{4}-\d{2}-\d{2}$/.test(protocolVersion);
}

/**
 * True if a message belongs to a revision without sessions: its `_meta` or the `MCP-Protocol-Version` header says so (MCP 2026-07-28,
 * basic/versioning). It belongs to a session all the same if both name the same revision with sessions. Other headers and keys show
 * nothing, because clients of sessions send them too.
 *
 * @param headerVersion the value of `MCP-Protocol-Version`.
 */
export function isModernMessage({ outline }: Message, headerVersion: string | undefined): boolean {
  if (!outline.has(Slot.metaVersion)) return isModernVersion(headerVersion);
  return headerVersion === undefined || !isLegacyVersion(headerVersion) || !outline.isString(Slot.metaVersion, headerVersion);
}

/** Returns the revision to answer `initialize` with: the client's if known, else the newest (MCP 2025-11-25, basic/lifecycle). */
export function negotiateProtocolVersion(requested: unknown): string {
  return typeof requested === "string" && LEGACY_PROTOCOL_VERSIONS.includes(requested) ? requested : NEWEST_LEGACY_PROTOCOL_VERSION;
}

/** True if clients of this revision accept an event that has an id but no data. Older parsers fail on it. Revisions sort as text. */
export function hasPrimedStreams(protocolVersion: string): boolean {
  return protocolVersion >= "2025-11-25";
}

/** True if this revision has JSON-RPC batches, which 2025-06-18 removed. */
export function hasBatches(protocolVersion: string): boolean {
  return protocolVersion < "2025-06-18";
}

/** True for an error of a server that does not know the method of a handshake, or supports other revisions only. */
export function refusesRevision({ text, outline }: RequestMessage | ResponseMessage): boolean {
  if (!outline.isObject(Slot.error)) return false;
  const [code] = findMembers(text, outline.start(Slot.error), ["code"]).spans;
  const value = code === undefined ? undefined : readValue(text, code);
  return value === JsonRpcErrorCode.UnsupportedVersion || value === JsonRpcErrorCode.MethodNotFound;
}
