import { expect, it } from "vitest";
import { CONFORMANCE_0_2, CONFORMANCE_SERVER, runConformance } from "../support/conformance.ts";
import { Sidecar } from "../support/sidecar.ts";

/** Not scored by the suite, but the sidecar alone is responsible for them. */
const OURS = ["server-session-lifecycle", "server-sse-polling"];

it("the sidecar meets the requirements of 2025-11-25", async () => {
  await using sidecar = await Sidecar.start({ command: CONFORMANCE_SERVER });
  const run = await runConformance(CONFORMANCE_0_2, sidecar.url, ["--requirements", "2025-11-25"]);

  expect.soft(run.checks("FAILURE")).toEqual([]);
  expect.soft(OURS.flatMap((scenario) => run.checks("WARNING", scenario))).toEqual([]);
  // A scenario that finds nothing to check, such as a stream, does not fail either.
  expect.soft(run.scenarios.filter((scenario) => run.checks("SUCCESS", scenario).length === 0)).toEqual([]);
  expect.soft(run.scenarios).toHaveLength(33);
  expect.soft(run.exitCode).toBe(0);
});
