import type { Defects } from "../../src/observe/log.ts";

/** Makes any defect fail its test. */
export const UNGUARDED: Pick<Defects, "guard"> = { guard: (_event, handle) => handle() };
