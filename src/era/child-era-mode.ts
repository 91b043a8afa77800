/** The ways to determine the era of the server. `auto` asks the server. */
export const CHILD_ERA_MODES = ["auto", "legacy", "modern"] as const;
export type ChildEraMode = (typeof CHILD_ERA_MODES)[number];
