import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { TempDir } from "./temp-dir.ts";

const require = createRequire(import.meta.url);

/** The command line of each release; the packages declare no other entry point. */
export const CONFORMANCE_0_1 = require.resolve("conformance-0.1/dist/index.js");
export const CONFORMANCE_0_2 = require.resolve("conformance-0.2/dist/index.js");

const REPEAT = fileURLToPath(new URL("repeat-conformance.ts", import.meta.url));

/** A stdio MCP server of 2025-11-25 with everything that the suites use. */
export const CONFORMANCE_SERVER = fixtureCommand("conformance-server.ts");
/** The same for 2026-07-28. It serves older clients too. */
export const MODERN_CONFORMANCE_SERVER = fixtureCommand("modern-conformance-server.ts");

/** Only a hang reaches it. It is shorter than the limit of the tests, so that all results until then are still shown. */
const RUN_TIMEOUT_MS = 240_000;

/** The tool names a directory for each scenario: server-SCENARIO-TIMESTAMP. */
const RESULT_DIRECTORY = /^server-(?<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/;

type Status = "SUCCESS" | "FAILURE" | "WARNING" | "SKIPPED" | "INFO";

/** The counts that are printed, in this order. INFO is not a verdict. */
const COUNTED: readonly (readonly [status: Status, word: string])[] = [
  ["SUCCESS", "passed"],
  ["FAILURE", "failed"],
  ["WARNING", "warnings"],
  ["SKIPPED", "skipped"],
];

/** The check that the tool adds to every scenario with messages. */
const SCHEMA_CHECK = "wire-schema-valid";

const UNFINISHED: Check = { id: "scenario-finishes", status: "FAILURE", errorMessage: "the scenario threw an error" };

interface Check {
  readonly id: string;
  readonly status: Status;
  readonly errorMessage?: string;
}

/** The files that one run of the tool left in its output directory. */
export class ConformanceRun {
  readonly exitCode: number | null;
  readonly #checks: ReadonlyMap<string, readonly Check[]>;

  constructor(exitCode: number | null, checks: ReadonlyMap<string, readonly Check[]>) {
    this.exitCode = exitCode;
    this.#checks = checks;
  }

  get scenarios(): readonly string[] {
    return [...this.#checks.keys()];
  }

  /** Returns the checks with this status, in one scenario or in all, as one readable line each. */
  checks(status: Status, scenario?: string): readonly string[] {
    return this.#checks
      .entries()
      .filter(([name]) => scenario === undefined || name === scenario)
      .flatMap(([name, checks]) => checks.filter((check) => check.status === status).map((check) => describeCheck(name, check)))
      .toArray();
  }

  /** Returns the scenarios whose only passed check, if any, is that their messages have the form of the schema. */
  vacuousScenarios(): readonly string[] {
    const isVacuous = (checks: readonly Check[]): boolean => !checks.some(({ id, status }) => status === "SUCCESS" && id !== SCHEMA_CHECK);
    return this.#checks
      .entries()
      .filter(([, checks]) => isVacuous(checks))
      .map(([name]) => name)
      .toArray();
  }

  /** Returns one line for each scenario with the counts of its checks, and a total. */
  summary(): string {
    const width = Math.max(0, ...this.scenarios.map((name) => name.length));
    const lines = this.#checks.entries().map(([name, checks]) => `${name.padEnd(width)}  ${counts(checks)}`);
    return [...lines, `${this.#checks.size} scenarios: ${counts([...this.#checks.values()].flat())}`].join("\n");
  }
}

/** The counts of passed and failed checks, and of others if there are any. */
function counts(checks: readonly Check[]): string {
  return COUNTED.map(([status, word]) => ({ word, count: checks.filter((check) => check.status === status).length }))
    .filter(({ word, count }) => count > 0 || word === "passed" || word === "failed")
    .map(({ word, count }) => `${count} ${word}`)
    .join(", ");
}

/** Runs the scenarios that the arguments choose, in one run, against the server at the URL, and prints their checks. */
export async function runConformance(program: string, url: string, args: readonly string[]): Promise<ConformanceRun> {
  const [run] = await repeatConformance(program, url, args, 1);
  if (run === undefined) throw new Error("the suite did not run");
  return run;
}

/** Makes several runs in one process: each process would load the suite for a second. It prints the checks of the last one. */
export async function repeatConformance(program: string, url: string, args: readonly string[], count: number): Promise<ConformanceRun[]> {
  await using directory = await TempDir.create();
  const child = spawn(process.execPath, [REPEAT, program, String(count), directory.path, "server", "--url", url, ...args], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    timeout: RUN_TIMEOUT_MS,
  });
  const exitCodes: (number | null)[] = [];
  child.on("message", (exitCode: number) => exitCodes.push(exitCode));
  await once(child, "close");
  const runs = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      return new ConformanceRun(exitCodes[index] ?? null, await readResults(directory.file(String(index))));
    }),
  );
  process.stdout.write(`conformance server ${args.join(" ")}\n${runs.at(-1)?.summary()}\n`);
  return runs;
}

function fixtureCommand(file: string): readonly string[] {
  return [process.execPath, fileURLToPath(new URL(`../fixtures/${file}`, import.meta.url))];
}

async function readResults(directory: string): Promise<ReadonlyMap<string, readonly Check[]>> {
  const results = new Map<string, readonly Check[]>();
  for (const name of (await readdir(directory)).toSorted()) {
    const scenario = RESULT_DIRECTORY.exec(name)?.groups?.["scenario"];
    if (scenario === undefined) throw new Error(`${name} is not named like the results of a scenario`);
    const file = join(directory, name, "checks.json");
    // A scenario that throws leaves no file.
    const checks = existsSync(file) ? (JSON.parse(await readFile(file, "utf8")) as readonly Check[]) : [UNFINISHED];
    results.set(scenario, checks);
  }
  return results;
}

function describeCheck(scenario: string, { id, status, errorMessage = "" }: Check): string {
  return `${scenario}: ${id}: ${status} ${errorMessage}`.trimEnd();
}
