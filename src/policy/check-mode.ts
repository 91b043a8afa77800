/** The reaction to invalid arguments: none, a log line, or a rejection. */
export const ARGUMENT_CHECK_MODES = ["off", "warn", "enforce"] as const;
export type ArgumentCheckMode = (typeof ARGUMENT_CHECK_MODES)[number];

/** The reaction to tools that differ from the pinned descriptor: a log line, or the tools are hidden as well. */
export const DESCRIPTOR_MODES = ["warn", "enforce"] as const;
export type DescriptorMode = (typeof DESCRIPTOR_MODES)[number];
