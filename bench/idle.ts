import { setTimeout as sleep } from "node:timers/promises";
import { comparePairs } from "./pairs.ts";
import { readPath } from "./read-path.ts";
import { median } from "./statistics.ts";
import { TargetProcess } from "./target-process.ts";
import type { Target } from "./targets.ts";

const IDLE_MS = 1000;

/** The memory that a feature adds to an idle sidecar. */
export interface IdleCost {
  readonly beforeReadBytes: number;
  /** After its path was read once. */
  readonly afterReadBytes: number;
}

/** Measures the medians of interleaved pairs. @param path what the feature serves. */
export async function compareIdle(withIt: Target, without: Target, path: string, pairCount: number): Promise<IdleCost> {
  const pairs = await comparePairs(
    "idle memory",
    pairCount,
    () => measureIdle(withIt, path),
    () => measureIdle(without, undefined),
  );
  return {
    beforeReadBytes: median(pairs.map(([one, other]) => one.rssBytes - other.rssBytes)),
    afterReadBytes: median(pairs.map(([one, other]) => one.readBytes - other.rssBytes)),
  };
}

async function measureIdle(target: Target, path: string | undefined): Promise<{ readonly rssBytes: number; readonly readBytes: number }> {
  await using running = await TargetProcess.start(target);
  await sleep(IDLE_MS);
  const rssBytes = running.rssBytes();
  if (path === undefined) return { rssBytes, readBytes: rssBytes };
  await readPath({ port: running.port, token: target.token }, path);
  await sleep(IDLE_MS);
  return { rssBytes, readBytes: running.rssBytes() };
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
