import { type Message, Slot } from "../../protocol/message.ts";
import { isLegacyVersion, isModernVersion } from "../../protocol/versions.ts";

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
