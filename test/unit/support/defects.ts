import type { Defects } from "../../../src/defects.ts";

/** Lets a defect fail the test that it is in. */
export const UNGUARDED: Pick<Defects, "guard"> = { guard: (_event, handle) => handle() };
