/** A key of sessions that survive the sidecar. */
const SESSION_KEY = "session-key-of-more-than-32-characters-0123456789";

export const KEYED = { CLAW_MCP_STDIO_SESSION_KEY: SESSION_KEY };
