import { MemoryBudget } from "../../../src/memory.ts";

export const AMPLE_MEMORY = new MemoryBudget(Number.MAX_SAFE_INTEGER);

export const ACCOUNT = AMPLE_MEMORY.account("client");
