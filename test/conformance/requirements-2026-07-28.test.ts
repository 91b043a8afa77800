import { isDeepStrictEqual } from "node:util";
import { it } from "vitest";
import {
  CONFORMANCE_0_2,
  CONFORMANCE_SERVER,
  type ConformanceRun,
  MODERN_CONFORMANCE_SERVER,
  repeatConformance,
  runConformance,
} from "../support/conformance.ts";
import { ModernClient } from "../support/modern-client.ts";
import { Sidecar } from "../support/sidecar.ts";

// The suites mostly wait, so the tests run at the same time.
const REVISION = "2026-07-28";
const SCORED_SCENARIOS = 37;
/** The last notification comes shortly before the response, so a bridge that reorders or drops it fails in some runs only. */
const PROGRESS_SCENARIO = "tools-call-with-progress";
const PROGRESS_RUNS = 50;

/** Not scored by the suite, but the sidecar is responsible for headers, and must pass on the schemas of tools. */
const OURS = ["http-custom-header-server-validation", "http-header-validation", "json-schema-2020-12"];

/** Not scored either: they are about an extension, which the fixtures lack. */
const EXTENSION = /^tasks-/;

/**
 * The SDK of 2025-11-25 numbers its requests, so its questions have other keys in each call. The first scenario wants the key of the name, and
 * the second one answers by that key before the question.
 */
const FAILED_BY_NUMBERED_QUESTIONS = ["input-required-result-basic-elicitation", "input-required-result-ignore-extra-params"];

it.concurrent.for([
  { server: "a server of both eras", args: [] },
  { server: "a server that rejects sessions", args: ["--reject-legacy"] },
])("the sidecar meets the requirements of 2026-07-28 in front of $server", async ({ args }, { expect }) => {
  await using sidecar = await Sidecar.start({ command: [...MODERN_CONFORMANCE_SERVER, ...args] });
  const run = await runWarm(sidecar.url);

  expect.soft(flaws(run)).toEqual([]);
  expect.soft(run.vacuousScenarios().filter(isOfCore)).toEqual([]);
  expect.soft(run.scenarios.filter(isOfCore)).toHaveLength(SCORED_SCENARIOS + OURS.length);
  expect.soft(run.scenarios).toEqual(expect.arrayContaining(OURS));
  expect.soft(run.exitCode).toBe(0);
});

it.concurrent.for([
  { server: "a server of 2025-11-25 that names its questions", args: ["--named-questions"], failed: [] },
  { server: "a server of 2025-11-25 on the SDK, which numbers them", args: [], failed: FAILED_BY_NUMBERED_QUESTIONS },
])("the sidecar meets the requirements of 2026-07-28 in front of $server", async ({ args, failed }, { expect }) => {
  await using sidecar = await Sidecar.start({ command: [...CONFORMANCE_SERVER, ...args] });
  const run = await runWarm(sidecar.url);
  const flawed = run.scenarios.filter((name) => flaws(run, name).length > 0 || run.vacuousScenarios().includes(name));

  expect.soft(flaws(run).filter((line) => !failed.some((each) => line.startsWith(`${each}: `)))).toEqual([]);
  expect.soft(flawed.filter(isOfCore).toSorted((a, b) => a.localeCompare(b))).toEqual(failed);
  expect.soft(run.scenarios.filter(isOfCore)).toHaveLength(SCORED_SCENARIOS + OURS.length);
});

it.concurrent.for([
  { server: "a server of both eras", command: MODERN_CONFORMANCE_SERVER },
  { server: "a server of 2025-11-25", command: CONFORMANCE_SERVER },
])("no run of fifty loses a notification of progress of $server", async ({ command }, { expect }) => {
  await using sidecar = await Sidecar.start({ command });
  const args = ["--scenario", PROGRESS_SCENARIO, "--spec-version", REVISION];
  const runs = await repeatConformance(CONFORMANCE_0_2, sidecar.url, args, PROGRESS_RUNS);
  const facts = runs.map((run) => [run.exitCode, flaws(run), run.vacuousScenarios(), run.scenarios]);
  expect(facts).toEqual(Array.from({ length: PROGRESS_RUNS }, () => [0, [], [], [PROGRESS_SCENARIO]]));
});

/** The suite allows half a second for some responses, and a process for clients with these capabilities may have to start. */
const CAPABILITIES = [{}, { elicitation: {} }, { sampling: {} }, { elicitation: {}, sampling: {}, roots: {} }];

/** Runs the suite after first requests. */
async function runWarm(url: string): Promise<ConformanceRun> {
  for (const capabilities of CAPABILITIES) {
    const { result } = await new ModernClient(url, { capabilities }).request("server/discover");
    if (!isDeepStrictEqual(result?.["supportedVersions"], [REVISION])) throw new Error(`discovery has failed: ${JSON.stringify(result)}`);
  }
  return runConformance(CONFORMANCE_0_2, url, ["--requirements", REVISION]);
}

/** Skipped checks count, because the suite skips what a server does not declare. So do warnings: lost notifications only cause those. */
function flaws(run: ConformanceRun, scenario?: string): readonly string[] {
  const scenarios = scenario === undefined ? run.scenarios.filter(isOfCore) : [scenario];
  return scenarios.flatMap((name) => (["FAILURE", "WARNING", "SKIPPED"] as const).flatMap((status) => run.checks(status, name)));
}

function isOfCore(scenario: string): boolean {
  return !EXTENSION.test(scenario);
}
