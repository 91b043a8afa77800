// Checks that the sidecar's memory does not grow under mixed load with restarts; see docs/CHAOS.md.

import { randomInt } from "node:crypto";
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { ADAPTERS } from "./adapters.ts";
import { positive } from "./options.ts";
import { runSoak } from "./soak-run.ts";

const MAX_GROWTH_PERCENT = 10;
const REPORT_INTERVAL_MS = 30_000;
const BYTES_PER_MB = 1e6;

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => process.exit(1));
}

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string", default: String(randomInt(1_000_000)) },
    json: { type: "string" },
  },
});
const adapter = ADAPTERS.find(({ isSubject }) => isSubject);
if (adapter === undefined) throw new Error("no subject");

let reportedAtMs = 0;
const result = await runSoak(adapter, positive("--seed", values.seed), positive("--minutes", values.minutes) * 60_000, (atMs, rssBytes) => {
  if (atMs - reportedAtMs < REPORT_INTERVAL_MS) return;
  reportedAtMs = atMs;
  process.stderr.write(`${(atMs / 1000).toFixed(0)} s: ${megabytes(rssBytes)}\n`);
});

const {
  seed,
  sent,
  right,
  errors,
  lost,
  wrong,
  restarts,
  processesLeft,
  quartersBytes,
  growthPercent,
  heapsBytes,
  parked,
  leftovers,
  unhandledErrors,
  examples,
} = result;
process.stdout.write(
  [
    `seed ${seed}, ${values.minutes} min, Node ${process.version}`,
    `requests sent        ${sent}`,
    `right answers        ${right}`,
    `typed errors         ${errors}`,
    `lost                 ${lost}`,
    `wrong                ${wrong}`,
    `restarts             ${restarts}`,
    `processes left       ${processesLeft}`,
    `unhandled rejections ${unhandledErrors.length}`,
    `RSS by quarter       ${quartersBytes.map(megabytes).join(", ")}`,
    `growth               ${growthPercent.toFixed(1)} %`,
    `parked, expired      ${parked?.now ?? 0}, ${parked?.expired ?? 0}`,
    `left over            ${leftovers.join(", ") || "nothing"}`,
    `heap by eighth       ${heapsBytes.map(megabytes).join(", ")}`,
    "",
  ].join("\n"),
);
for (const line of [...unhandledErrors, ...examples]) process.stderr.write(`${line}\n`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`);

const isGood =
  lost === 0 &&
  wrong === 0 &&
  processesLeft === 0 &&
  unhandledErrors.length === 0 &&
  leftovers.length === 0 &&
  growthPercent < MAX_GROWTH_PERCENT;
process.exit(isGood ? 0 : 1);

function megabytes(bytes: number): string {
  return `${(bytes / BYTES_PER_MB).toFixed(1)} MB`;
}
