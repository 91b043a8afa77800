/** The requests that are sent again if the server exits before it answers them. */
export const RETRY_MODES = ["off", "protocol-reads", "read-only"] as const;
export type RetryMode = (typeof RETRY_MODES)[number];
