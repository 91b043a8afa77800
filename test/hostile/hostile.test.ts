import { expect, it } from "vitest";
import { formatMisses, formatTable, runHostile } from "../../hostile/hostile-run.ts";
import { SEED } from "../support/set-up.ts";

const DURATION_MS = 60_000;
/** Twice that of `npm run hostile`: beside the other suites, a part of the sidecar's waits for a core cannot be told from its own work. */
const MAX_GAP_MS = 1000;

it("the sidecar survives a minute of attacks, and another client's responses stay right", async () => {
  const results = await runHostile({ seed: SEED, durationMs: DURATION_MS, maxGapMs: MAX_GAP_MS });
  process.stdout.write(`seed ${SEED}\n${formatTable(results)}\n`);
  expect(formatMisses(results)).toBe("");
});
