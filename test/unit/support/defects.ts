import type { Defects } from "../../../src/defects.ts";

/** Makes any defect fail its test. */
export const UNGUARDED: Pick<Defects, "guard"> = { guard: (_event, handle) => handle() };
