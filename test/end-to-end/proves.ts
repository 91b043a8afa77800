import { it } from "vitest";
import type { PromiseName } from "./promises.ts";

/** Declares the one test of a promise, which is its title. */
export const proves: (promise: PromiseName, test: () => Promise<void>) => void = it;
