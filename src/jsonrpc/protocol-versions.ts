/** The revisions of MCP with `initialize` and sessions, newest first. */
export const LEGACY_PROTOCOL_VERSIONS: readonly string[] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

export const NEWEST_LEGACY_PROTOCOL_VERSION = "2025-11-25";

/** What `initialize` answers: the client's revision where it is known, else the newest (MCP 2025-11-25, basic/lifecycle). */
export function negotiateProtocolVersion(requested: unknown): string {
  return typeof requested === "string" && LEGACY_PROTOCOL_VERSIONS.includes(requested) ? requested : NEWEST_LEGACY_PROTOCOL_VERSION;
}

/** Whether clients of this revision read an event with an id and no data; parsers of older ones choke on it. Revisions sort as text. */
export function hasPrimedStreams(protocolVersion: string): boolean {
  return protocolVersion >= "2025-11-25";
}

/** Whether this revision knows JSON-RPC batches: 2025-06-18 removed them. */
export function hasBatches(protocolVersion: string): boolean {
  return protocolVersion < "2025-06-18";
}
