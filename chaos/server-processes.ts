// Finds all processes of the MCP server by the records that they write.

import { appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CALLS_FILE_END,
  CRASH_LOOP_FILE,
  type CrashLoopKind,
  ERA_FILE,
  FAULT_LOG_FILE,
  type FixedEra,
  type ProcessRecord,
} from "./contract.ts";
import { isRunning } from "../bench/proc.ts";

const POLL_MS = 20;

export interface CommittedFault {
  readonly kind: string;
  readonly pid: number;
  readonly atMs: number;
}

export class ServerProcesses {
  readonly directory = mkdtempSync(join(tmpdir(), "chaos-"));

  constructor() {
    appendFileSync(join(this.directory, FAULT_LOG_FILE), "");
  }

  running(): ProcessRecord[] {
    return readdirSync(this.directory)
      .filter((name) => name.endsWith(".json"))
      .flatMap((name) => this.#read(name))
      .filter(({ pid, startTime }) => isRunning(pid, startTime));
  }

  /** @returns false if the process has exited. */
  signal(pid: number, signal: NodeJS.Signals): boolean {
    const isOurs = this.running().some((record) => record.pid === pid);
    return isOurs && kill(pid, signal);
  }

  repeatedCalls(): string[] {
    const seen = new Set<string>();
    const files = readdirSync(this.directory).filter((name) => name.endsWith(CALLS_FILE_END));
    const calls = files.flatMap((name) => readFileSync(join(this.directory, name), "utf8").split("\n").filter(Boolean));
    return calls.filter((call) => seen.size === seen.add(call).size);
  }

  setCrashLoop(kind: CrashLoopKind | undefined): void {
    const file = join(this.directory, CRASH_LOOP_FILE);
    if (kind === undefined) rmSync(file, { force: true });
    else writeFileSync(file, kind);
  }

  /** Has an effect on processes that start from now on. */
  setEra(era: FixedEra): void {
    writeFileSync(join(this.directory, ERA_FILE), era);
  }

  committedFaults(): CommittedFault[] {
    const lines = readFileSync(join(this.directory, FAULT_LOG_FILE), "utf8").split("\n").filter(Boolean);
    return lines.map((line) => {
      const [kind = "", pid, atMs] = line.split(" ");
      return { kind, pid: Number(pid), atMs: Number(atMs) };
    });
  }

  /** Waits for all processes to exit. @returns the processes that still run after `graceMs`. */
  async left(graceMs: number): Promise<ProcessRecord[]> {
    const deadlineMs = performance.now() + graceMs;
    while (this.running().length > 0 && performance.now() < deadlineMs) await sleep(POLL_MS);
    return this.running();
  }

  remove(): void {
    if (!existsSync(this.directory)) return;
    for (const { pid } of this.running()) kill(pid, "SIGKILL");
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Reads a record. It may be half written if its process was killed. */
  #read(name: string): ProcessRecord[] {
    try {
      return [JSON.parse(readFileSync(join(this.directory, name), "utf8")) as ProcessRecord];
    } catch {
      return [];
    }
  }
}

function kill(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
