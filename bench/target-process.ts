// The process of a target: its start time, memory and termination.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { get } from "node:http";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { findFreePort } from "./free-port.ts";
import { closeLogDrain, openLogDrain } from "./log-drain.ts";
import { memoryBytes } from "./process-memory.ts";
import { TARGET_ENV, type Target } from "./targets.ts";

const READY_DEADLINE_MS = 20_000;
const READY_POLL_MS = 2;
const STOP_DEADLINE_MS = 3000;
const KEPT_STDERR_CHARS = 2000;

const liveGroups = new Set<number>();
process.on("exit", () => {
  for (const groupId of liveGroups) killGroup(groupId);
});

export class TargetProcess implements AsyncDisposable {
  readonly target: Target;
  readonly port: number;
  readonly pid: number;
  readonly #child: ChildProcess;
  #readyMs = Number.NaN;
  #stderrTail = "";

  private constructor(target: Target, port: number, child: ChildProcess, pid: number) {
    this.target = target;
    this.port = port;
    this.#child = child;
    this.pid = pid;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderrTail = (this.#stderrTail + text).slice(-KEPT_STDERR_CHARS);
    });
  }

  /** Starts a target. Resolves when its health URL has answered 200 for the first time. */
  static async start(target: Target): Promise<TargetProcess> {
    const port = await findFreePort();
    const logFd = openLogDrain();
    const startedAtMs = performance.now();
    const child = spawn(process.execPath, target.nodeArgs(port), {
      // The target has its own process group, so that all its processes can be killed.
      detached: true,
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...TARGET_ENV },
      stdio: ["ignore", logFd, "pipe"],
    });
    closeLogDrain(logFd);
    if (child.pid === undefined) throw new Error(`${target.name} could not be started`);
    liveGroups.add(child.pid);
    const started = new TargetProcess(target, port, child, child.pid);
    try {
      await started.#waitUntilReady(startedAtMs);
    } catch (error) {
      await started.stop();
      throw error;
    }
    return started;
  }

  /** The time from the start of the process to the first 200 of its health URL. */
  get readyMs(): number {
    return this.#readyMs;
  }

  /** Resolves when the process has exited. */
  get exited(): Promise<unknown> {
    return this.#hasExited() ? Promise.resolve() : once(this.#child, "exit");
  }

  rssBytes(): number {
    return memoryBytes(this.pid, "VmRSS");
  }

  peakRssBytes(): number {
    return memoryBytes(this.pid, "VmHWM");
  }

  async stop(): Promise<void> {
    if (!this.#hasExited()) {
      this.#child.kill("SIGTERM");
      await Promise.race([once(this.#child, "exit"), sleep(STOP_DEADLINE_MS)]);
    }
    killGroup(this.pid);
    if (!this.#hasExited()) await once(this.#child, "exit");
    this.#child.stderr?.destroy();
    liveGroups.delete(this.pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #waitUntilReady(startedAtMs: number): Promise<void> {
    while (!(await answersOk(this.port, this.target.healthPath))) {
      if (this.#hasExited()) throw new Error(`exited before it was ready: ${this.#stderrTail}`);
      if (performance.now() - startedAtMs > READY_DEADLINE_MS) {
        throw new Error(`not ready after ${READY_DEADLINE_MS} ms: ${this.#stderrTail}`);
      }
      await sleep(READY_POLL_MS);
    }
    this.#readyMs = performance.now() - startedAtMs;
  }

  #hasExited(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}

async function answersOk(port: number, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get({ host: "127.0.0.1", port, path, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on("error", () => resolve(false));
    request.setTimeout(1000, () => request.destroy());
  });
}

function killGroup(groupId: number): void {
  try {
    process.kill(-groupId, "SIGKILL");
  } catch {
    // The group has no process left.
  }
}
