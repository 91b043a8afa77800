// Installs and builds the targets, if needed.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Target } from "./targets.ts";

const BENCH_DIR = import.meta.dirname;
const ROOT_DIR = join(BENCH_DIR, "..");

export function prepare(targets: readonly Target[]): void {
  installPeers();
  const needsBuild = targets.some((target) => target.role === "subject");
  if (needsBuild && !existsSync(join(ROOT_DIR, "dist", "main.js"))) {
    npm(["run", "build"], ROOT_DIR);
  }
}

export function installPeers(): void {
  if (!existsSync(join(BENCH_DIR, "node_modules"))) {
    npm(["ci", "--ignore-scripts"], BENCH_DIR);
  }
}

function npm(args: string[], cwd: string): void {
  execFileSync("npm", args, { cwd, stdio: ["ignore", "inherit", "inherit"] });
}
