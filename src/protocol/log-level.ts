/** The levels of RFC 5424, as in MCP 2025-11-25 and 2026-07-28, server/utilities/logging; the least severe first. */
export const LOG_LEVELS: readonly string[] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/** True if a message of this level is at least as severe as the wanted one. */
export function isAtLeast(level: string | undefined, wanted: string): boolean {
  return level !== undefined && LOG_LEVELS.includes(level) && LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(wanted);
}
