/** How the era of the server is found out: `auto` asks it, and the others know it. */
export const CHILD_ERA_MODES = ["auto", "legacy", "modern"] as const;
export type ChildEraMode = (typeof CHILD_ERA_MODES)[number];
