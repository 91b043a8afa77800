// Checks that the sidecar's memory does not grow under mixed load with restarts; see docs/CHAOS.md.

import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { endWithSignals, positive, someSeed } from "../bench/command.ts";
import { Inspector } from "../bench/inspector.ts";
import { findFreePort } from "../bench/program.ts";
import { median } from "../bench/statistics.ts";
import { SETTLE_MS } from "./chaos-run.ts";
import { leftovers, readStatus } from "./counters.ts";
import { type FaultKind, planFaults } from "./faults.ts";
import { Stage } from "./stage.ts";

/** Exits of servers, and ends of sessions, streams and connections, as in a long run in production. */
const SOAK_FAULTS: readonly FaultKind[] = [
  "sigkill",
  "crash",
  "exit_cleanly",
  "hang",
  "notification_flood",
  "garbage",
  "disconnect_storm",
  "delete_during_calls",
  "come_back",
  "burst",
];
const FAULT_GAP_MS = 1000;
const SAMPLE_INTERVAL_MS = 1000;
const REPORT_SAMPLES = 30;
/** The share of the time that is ignored, while caches and the heap grow. */
const WARM_UP_SHARE = 0.2;
/** The parts of the time after the warm-up. At the end of each, the heap is measured. */
const HEAP_PARTS = 8;
/** The heap also has the messages in flight, so the median of several measurements counts. */
const HEAP_MEASUREMENTS = 5;
const HEAP_PAUSE_MS = 500;
const MAX_GROWTH_PERCENT = 10;

endWithSignals();
const { values } = parseArgs({ options: { minutes: { type: "string", default: "10" }, seed: { type: "string", default: someSeed() } } });
const seed = positive("--seed", values.seed);
const durationMs = positive("--minutes", values.minutes) * 60_000;
const inspectorPort = await findFreePort();
await using stage = await Stage.setUp({ seed, era: "legacy", nodeFlags: [`--inspect=127.0.0.1:${inspectorPort}`] });
const { ledger, sidecar, saboteur, random } = stage;
const startedAtMs = performance.now();
const samplesBytes: number[] = [];
const sampler = setInterval(sample, SAMPLE_INTERVAL_MS);

stage.startLoad();
const measuringHeaps = measureHeaps();
await saboteur.work(planFaults(SOAK_FAULTS, random.fork(), durationMs, FAULT_GAP_MS));
await sleep(Math.max(0, startedAtMs + durationMs - performance.now()));
clearInterval(sampler);
const heapsBytes = await measuringHeaps;
const { recoveries } = saboteur.recovery();
await stage.stopLoad();
await sleep(SETTLE_MS);
const status = await readStatus(sidecar);
const left = leftovers(status);
const { processesLeft, unhandledErrors } = await stage.tearDown();

const quartersBytes = quarterMedians(samplesBytes.slice(samplesBytes.length * WARM_UP_SHARE));
const growthPercent = ((quartersBytes.at(-1) ?? Number.NaN) / (quartersBytes[0] ?? Number.NaN) - 1) * 100;
const { sent, verdicts } = ledger;
const lost = verdicts.lost + verdicts.untyped;
const wrong = verdicts.wrong + verdicts.crossed + ledger.strayAnswers + ledger.answeredTwice + ledger.crossedNotifications;
process.stdout.write(
  [
    `seed ${seed}, ${values.minutes} min, Node ${process.version}`,
    `requests sent        ${sent}`,
    `right answers        ${verdicts.right}`,
    `typed errors         ${verdicts.error}`,
    `lost                 ${lost}`,
    `wrong                ${wrong}`,
    `restarts             ${recoveries}`,
    `processes left       ${processesLeft}`,
    `unhandled rejections ${unhandledErrors.length}`,
    `RSS by quarter       ${quartersBytes.map(megabytes).join(", ")}`,
    `growth               ${growthPercent.toFixed(1)} %`,
    `left over            ${left.join(", ") || "nothing"}`,
    `heap by eighth       ${heapsBytes.map(megabytes).join(", ")}`,
    "",
  ].join("\n"),
);
for (const line of [...unhandledErrors, ...ledger.examples]) process.stderr.write(`${line}\n`);
const offences = [lost, wrong, processesLeft, unhandledErrors.length, left.length];
process.exit(offences.every((count) => count === 0) && growthPercent < MAX_GROWTH_PERCENT ? 0 : 1);

function sample(): void {
  const rssBytes = sidecar.memoryBytes();
  samplesBytes.push(rssBytes);
  if (samplesBytes.length % REPORT_SAMPLES === 0) process.stderr.write(`${samplesBytes.length} s: ${megabytes(rssBytes)}\n`);
}

/** Measures the heap in use after forced collections: at the end of the warm-up, then at the end of each part of the rest. */
async function measureHeaps(): Promise<number[]> {
  const inspector = await Inspector.connect(inspectorPort);
  const measured: number[] = [];
  const partMs = (durationMs * (1 - WARM_UP_SHARE)) / HEAP_PARTS;
  for (let part = 0; part <= HEAP_PARTS; part++) {
    // The last measurement ends before the load does.
    const atMs = startedAtMs + durationMs * WARM_UP_SHARE + part * partMs - 2 * HEAP_MEASUREMENTS * HEAP_PAUSE_MS;
    await sleep(Math.max(0, atMs - performance.now()));
    const ofPart: number[] = [];
    for (let count = 0; count < HEAP_MEASUREMENTS; count++) {
      await inspector.command("HeapProfiler.collectGarbage");
      const { usedSize } = (await inspector.command("Runtime.getHeapUsage")) as { readonly usedSize: number };
      ofPart.push(usedSize);
      await sleep(HEAP_PAUSE_MS);
    }
    measured.push(median(ofPart));
  }
  inspector.close();
  return measured;
}

function quarterMedians(samples: readonly number[]): number[] {
  const length = samples.length / 4;
  return [0, 1, 2, 3].map((quarter) => median(samples.slice(Math.floor(quarter * length), Math.floor((quarter + 1) * length))));
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
