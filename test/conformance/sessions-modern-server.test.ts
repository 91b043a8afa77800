import { expect, it } from "vitest";
import { CONFORMANCE_0_1, CONFORMANCE_0_2, MODERN_CONFORMANCE_SERVER, runConformance } from "../support/conformance.ts";
import { Sidecar } from "../support/sidecar.ts";

it.each([
  { suite: "the requirements of 2025-11-25", program: CONFORMANCE_0_2, args: ["--requirements", "2025-11-25"], count: 33 },
  { suite: "the stable suite", program: CONFORMANCE_0_1, args: ["--suite", "all"], count: 32 },
])("the sidecar passes $suite in front of a server that rejects sessions", async ({ program, args, count }) => {
  await using sidecar = await Sidecar.start({ command: [...MODERN_CONFORMANCE_SERVER, "--reject-legacy"] });
  const run = await runConformance(program, sidecar.url, args);
  const failed = run.scenarios.filter((scenario) => run.checks("FAILURE", scenario).length > 0);

  expect.soft(failed).toEqual([]);
  expect.soft(run.scenarios).toHaveLength(count);
});
