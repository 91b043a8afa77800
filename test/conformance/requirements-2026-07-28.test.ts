import { expect, it } from "vitest";
import {
  CONFORMANCE_0_2,
  CONFORMANCE_SERVER,
  type ConformanceRun,
  MODERN_CONFORMANCE_SERVER,
  runConformance,
} from "../support/conformance.ts";
import { send } from "../support/http-client.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { Sidecar } from "../support/sidecar.ts";

const REVISION = "2026-07-28";
const SCORED_SCENARIOS = 37;
/** The last notification comes shortly before the response, so a bridge that reorders or drops it fails in some runs only. */
const PROGRESS_SCENARIO = "tools-call-with-progress";
const PROGRESS_RUNS = 50;

/** Not scored by the suite, but the sidecar is responsible for headers, and must pass on the schemas of tools. */
const OURS = ["http-custom-header-server-validation", "http-header-validation", "json-schema-2020-12"];

/** Not scored either: they are about an extension, which the fixtures lack. */
const EXTENSION = /^tasks-/;

/** Scenarios, and checks of one, that need a server's question to the client. The fixture of 2025-11-25 has no tools for the scenarios. */
const QUESTIONS = [
  "input-required-result-basic-elicitation",
  "input-required-result-basic-list-roots",
  "input-required-result-basic-sampling",
  "input-required-result-capability-check",
  "input-required-result-ignore-extra-params",
  "input-required-result-missing-input-response",
  "input-required-result-multi-round",
  "input-required-result-multiple-input-requests",
  "input-required-result-non-tool-request",
  "input-required-result-request-state",
  "input-required-result-result-type",
  "input-required-result-tampered-state",
  "input-required-result-validate-input",
  "server-stateless: sep-2575-missing-capability-http-400",
  "server-stateless: sep-2575-server-rejects-undeclared-capability",
];

it.each([
  { server: "a server of both eras", args: [] },
  { server: "a server that rejects sessions", args: ["--reject-legacy"] },
])("the sidecar meets the requirements of 2026-07-28 in front of $server", async ({ args }) => {
  await using sidecar = await Sidecar.start({ command: [...MODERN_CONFORMANCE_SERVER, ...args] });
  const run = await runWarm(sidecar.url);

  expect.soft(flaws(run)).toEqual([]);
  expect.soft(run.vacuousScenarios().filter(isOfCore)).toEqual([]);
  expect.soft(run.scenarios.filter(isOfCore)).toHaveLength(SCORED_SCENARIOS + OURS.length);
  expect.soft(run.scenarios).toEqual(expect.arrayContaining(OURS));
  expect.soft(run.exitCode).toBe(0);
});

it("clients of 2026-07-28 can use a server of 2025-11-25", async () => {
  await using sidecar = await Sidecar.start({ command: CONFORMANCE_SERVER });
  const run = await runWarm(sidecar.url);

  expect.soft(flaws(run).filter((line) => !QUESTIONS.some((each) => line.startsWith(`${each}: `)))).toEqual([]);
  expect.soft(run.vacuousScenarios().filter((name) => isOfCore(name) && !QUESTIONS.includes(name))).toEqual([]);
  expect.soft(run.scenarios.filter(isOfCore)).toHaveLength(SCORED_SCENARIOS + OURS.length);
});

it.each([
  { server: "a server of both eras", command: MODERN_CONFORMANCE_SERVER },
  { server: "a server of 2025-11-25", command: CONFORMANCE_SERVER },
])("no run of fifty loses a notification of progress of $server", async ({ command }) => {
  await using sidecar = await Sidecar.start({ command });
  for (let count = 0; count < PROGRESS_RUNS; count++) {
    const run = await runConformance(CONFORMANCE_0_2, sidecar.url, ["--scenario", PROGRESS_SCENARIO, "--spec-version", REVISION]);
    expect([flaws(run), run.vacuousScenarios(), run.scenarios]).toEqual([[], [], [PROGRESS_SCENARIO]]);
  }
});

/** Runs the suite after a first request: it allows half a second for some responses, and the server may have to start. */
async function runWarm(url: string): Promise<ConformanceRun> {
  const method = "server/discover";
  const envelope = { "io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {} };
  const { status, body } = await send(url, {
    headers: { ...JSON_HEADERS, "MCP-Protocol-Version": REVISION, "Mcp-Method": method },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { _meta: envelope } }),
  });
  expect({ status, body }).toEqual({ status: 200, body: expect.stringContaining(`"${REVISION}"`) as string });
  return runConformance(CONFORMANCE_0_2, url, ["--requirements", REVISION]);
}

/** Skipped checks count, because the suite skips what a server does not declare. So do warnings: lost notifications only cause those. */
function flaws(run: ConformanceRun): readonly string[] {
  const scenarios = run.scenarios.filter(isOfCore);
  return scenarios.flatMap((name) => (["FAILURE", "WARNING", "SKIPPED"] as const).flatMap((status) => run.checks(status, name)));
}

function isOfCore(scenario: string): boolean {
  return !EXTENSION.test(scenario);
}
