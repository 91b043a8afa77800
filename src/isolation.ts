/** Who shares a server: `auto` gives a client its own one where it declared what only one client can be asked for. */
export const ISOLATION_MODES = ["auto", "shared", "session"] as const;
export type Isolation = (typeof ISOLATION_MODES)[number];
