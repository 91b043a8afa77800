/** What is sent once more when the server ended before it answered. */
export const RETRY_MODES = ["off", "protocol-reads", "read-only"] as const;
export type RetryMode = (typeof RETRY_MODES)[number];
