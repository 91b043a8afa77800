import { MemoryBudget } from "../../../src/memory.ts";

/** More memory than any test needs. */
export const AMPLE_MEMORY = new MemoryBudget(Number.MAX_SAFE_INTEGER);

/** The memory of a client. */
export const ACCOUNT = AMPLE_MEMORY.account("client");
