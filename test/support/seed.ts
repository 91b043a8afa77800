// Runs before each test file: all random tests of a run have one seed, which the environment may set.

import { configureGlobal } from "fast-check";

/** vitest.config.ts chooses one if the environment does not; count-reporter.ts prints it. */
export const SEED = Number(process.env["TEST_SEED"]);

configureGlobal({ seed: SEED });
