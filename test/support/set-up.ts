// Runs before each test file.

import { configureGlobal } from "fast-check";
import { afterAll } from "vitest";
import { reportFailedDisposals } from "./dispose-after-all.ts";

/** All random tests of a run have it. vitest.config.ts chooses one if the environment does not; count-reporter.ts prints it. */
export const SEED = Number(process.env["TEST_SEED"]);

configureGlobal({ seed: SEED });

// The first that is registered runs last.
afterAll(reportFailedDisposals);
