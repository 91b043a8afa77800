// Runs the HTTP, process and interop tests on the versions of Node that `engines` allows besides the one of development:
// `npm run test:nodes`. A number chooses a version, a path chooses test files: `npm run test:nodes -- 22 test/http/drain.test.ts`.
// `--brief`, as in `npm run test:all`, chooses a few files that use each part of Node that the sidecar depends on.
import { execFileSync, spawnSync } from "node:child_process";
import { delimiter, dirname } from "node:path";

/** The oldest version of Node 22 that `engines` allows, and the newest one of Node 24. */
const VERSIONS = ["22.19.0", "24.21.0"];
/** Clients and servers of both eras, streams that break off, crashes, and the check of arguments in a thread. */
const BRIEF = ["eras", "get-stream", "argument-check"].map((name) => `test/interop/${name}.test.ts`);

const args = process.argv.slice(2);
const chosen = args.filter((arg) => /^\d/.test(arg)).map((arg) => VERSIONS.find((version) => version.startsWith(`${arg}.`)) ?? arg);
const filters = args.flatMap((arg) => (arg === "--brief" ? BRIEF : /^\d/.test(arg) ? [] : [arg]));
const summary = (chosen.length === 0 ? VERSIONS : chosen).map((version) => {
  const node = install(version);
  const isPassed = isPassedOn(node);
  if (!isPassed) process.exitCode = 1;
  return `Node ${execFileSync(node, ["--version"], { encoding: "utf8" }).trim()}: ${isPassed ? "passed" : "FAILED"}`;
});
console.log(summary.join("\n"));

/** Makes npm keep the package `node` of this version in its cache. @returns the path of the executable. */
function install(version: string): string {
  return execFileSync(
    "npm",
    ["exec", "--yes", "--prefer-offline", `--package=node@${version}`, "--", "node", "--print", "process.execPath"],
    {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
    },
  ).trim();
}

function isPassedOn(node: string): boolean {
  const env = { ...process.env, PATH: [dirname(node), process.env["PATH"]].join(delimiter) };
  const vitest = ["node_modules/vitest/vitest.mjs", "run", "--project", "http", "--project", "process", "--project", "interop"];
  return spawnSync(node, [...vitest, ...filters], { stdio: "inherit", env }).status === 0;
}
