import { expect, it } from "vitest";
import { CONFORMANCE_0_1, CONFORMANCE_SERVER, runConformance } from "../support/conformance.ts";
import { Sidecar } from "../support/sidecar.ts";

it("the sidecar passes every server scenario of the stable conformance suite", async () => {
  await using sidecar = await Sidecar.start({ command: CONFORMANCE_SERVER });
  const run = await runConformance(CONFORMANCE_0_1, sidecar.url, ["--suite", "all"]);

  expect.soft(run.checks("FAILURE")).toEqual([]);
  expect.soft(run.scenarios).toHaveLength(32);
  expect.soft(run.exitCode).toBe(0);
});
