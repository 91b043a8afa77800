/** What follows when something is not as it should be: nothing, a line in the log, or a refusal. */
export const ARGUMENT_CHECK_MODES = ["off", "warn", "enforce"] as const;
export type ArgumentCheckMode = (typeof ARGUMENT_CHECK_MODES)[number];

/** What follows when a server's tools differ from those of the pinned descriptor. */
export const DESCRIPTOR_MODES = ["warn", "enforce"] as const;
export type DescriptorMode = (typeof DESCRIPTOR_MODES)[number];
