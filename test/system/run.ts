// Runs the tests that need programs of the system: `npm run test:system`. SKIP_SYSTEM=prometheus,… leaves some out.

import { spawnSync } from "node:child_process";
import { PROGRAMS } from "./programs.ts";

const skipped = (process.env["SKIP_SYSTEM"] ?? "")
  .split(",")
  .map((name) => name.trim())
  .filter((name) => name !== "");
const unknown = skipped.filter((name) => !Object.hasOwn(PROGRAMS, name));
const missing = Object.entries(PROGRAMS).filter(([name, { commands }]) => !skipped.includes(name) && !commands.every(isInstalled));

for (const name of unknown) console.error(`SKIP_SYSTEM names ${name}, which no test needs. They need ${Object.keys(PROGRAMS).join(", ")}.`);
for (const [name, { commands, debianPackage }] of missing) {
  console.error(
    `${name} is missing (${commands.join(", ")}). Install it, on Debian with: apt-get install --no-install-recommends ${debianPackage}`,
  );
  console.error(`Or leave its tests out: SKIP_SYSTEM=${name} npm run test:system`);
}
if (unknown.length + missing.length > 0) process.exit(1);
for (const name of skipped) console.log(`The tests with ${name} are NOT run: SKIP_SYSTEM=${name}.`);

const files = Object.entries(PROGRAMS).flatMap(([name, { tests }]) => (skipped.includes(name) ? [] : [tests]));
if (files.length > 0) {
  const { status } = spawnSync("vitest", ["run", "--config", "vitest.system.config.ts", ...files], { stdio: "inherit" });
  process.exitCode = status ?? 1;
}

function isInstalled(command: string): boolean {
  return spawnSync(command, ["--version"], { stdio: "ignore" }).error === undefined;
}
