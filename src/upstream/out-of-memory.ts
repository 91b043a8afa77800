import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Exceeds any share of memory, which the kernel adds on the same scale of 0 to 1000. */
const FULL_SCORE = 1000;

/**
 * Returns how many processes of this process's cgroup the kernel has killed for lack of memory. The container, a group around it, or the
 * machine may have been short of it. A server is in the same cgroup. Undefined if the system does not tell.
 *
 * @param root replaces the root directory in tests.
 */
export function countMemoryKills(root = "/"): number | undefined {
  for (const file of counterFiles(root)) {
    const [, count] = /^oom_kill (\d+)$/m.exec(readText(file)) ?? [];
    if (count !== undefined) return Number(count);
  }
  return undefined;
}

/**
 * Calls `start`, which starts a process that the kernel is to choose before the sidecar when memory is short. The process inherits a higher
 * score, and so do its own. A write after the start would miss those that a shell starts at once. Any user may raise the score of an own
 * process, and lower it to what it was.
 *
 * @param root replaces the root directory in tests.
 */
export function withHigherScore<Started>(start: () => Started, root = "/"): Started {
  const file = join(root, "proc/self/oom_score_adj");
  const ownScore = Number.parseInt(readText(file), 10);
  if (Number.isNaN(ownScore)) return start();
  // Relative to the sidecar, so that the score of a protected pod stays below that of others.
  writeText(file, `${Math.min(FULL_SCORE, ownScore + FULL_SCORE)}\n`);
  try {
    return start();
  } finally {
    writeText(file, `${ownScore}\n`);
  }
}

/** The files that may have the count. The path in /proc is that of the host if the container has no cgroup namespace. */
function counterFiles(root: string): string[] {
  const cgroups = readText(join(root, "proc/self/cgroup"));
  const files: string[] = [];
  // cgroups(7): id:controllers:path. Version 2 has id 0 and no controllers.
  for (const [, controllers = "", path = ""] of cgroups.matchAll(/^\d+:([^:]*):(.*)$/gm)) {
    const isMemory = controllers.split(",").includes("memory");
    if (isMemory) for (const folder of [path, "/"]) files.push(join(root, "sys/fs/cgroup/memory", folder, "memory.oom_control"));
    if (controllers === "") for (const folder of [path, "/"]) files.push(join(root, "sys/fs/cgroup", folder, "memory.events"));
  }
  return files;
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/** A failure does not matter: the kernel then chooses by size alone. */
function writeText(file: string, text: string): void {
  try {
    writeFileSync(file, text, { flag: "r+" });
  } catch {
    // The system does not allow it.
  }
}
