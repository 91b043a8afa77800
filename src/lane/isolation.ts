/** Sharing of servers. With `auto`, a client gets its own server if it declares sampling, elicitation or roots. */
export const ISOLATION_MODES = ["auto", "shared", "session"] as const;
export type Isolation = (typeof ISOLATION_MODES)[number];
