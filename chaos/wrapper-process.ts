// The process of the wrapper under test.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, createReadStream, openSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { findFreePort } from "../bench/free-port.ts";
import { memoryBytes } from "../bench/process-memory.ts";
import { send } from "../test/support/http-client.ts";
import type { Adapter } from "./adapters.ts";
import type { Endpoint } from "./client/spread-exchange.ts";
import { DIRECTORY_VARIABLE } from "./contract.ts";

const READY_DEADLINE_MS = 120_000;
const READY_POLL_MS = 20;
const END_DEADLINE_MS = 60_000;
const UNHANDLED = /unhandled ?(promise ?)?rejection|uncaught ?exception|triggerUncaughtException/i;

export interface WrapperEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly tookMs: number;
  /** True if it did not exit after SIGTERM and was killed. */
  readonly isForced: boolean;
}

const running = new Set<number>();
process.on("exit", () => {
  for (const groupId of running) killGroup(groupId);
});

export class WrapperProcess {
  readonly endpoint: Endpoint;
  readonly origin: string;
  readonly pid: number;
  readonly #healthUrl: URL;
  readonly #child: ChildProcess;
  readonly #logFile: string;
  readonly #exited: Promise<unknown>;
  #isTerminated = false;
  /** Describes an exit without SIGTERM; undefined if there was none. */
  endedByItself: string | undefined;

  private constructor(adapter: Adapter, port: number, child: ChildProcess, pid: number, logFile: string) {
    this.origin = `http://127.0.0.1:${port}`;
    this.endpoint = { url: new URL(adapter.path, this.origin), token: adapter.token };
    this.#healthUrl = new URL(adapter.healthPath, this.origin);
    this.#child = child;
    this.pid = pid;
    this.#logFile = logFile;
    running.add(pid);
    this.#exited = once(child, "exit");
    child.once("exit", (code, signal) => {
      running.delete(pid);
      if (!this.#isTerminated) this.endedByItself = `exit ${code ?? signal ?? "unknown"}`;
    });
  }

  /** Starts the wrapper. Resolves when its health URL answers 200. */
  static async start(adapter: Adapter, directory: string, logFile = join(directory, "wrapper.log")): Promise<WrapperProcess> {
    const port = await findFreePort();
    const logFd = openSync(logFile, "a");
    const child = spawn(process.execPath, adapter.nodeArgs(port), {
      // It has its own process group, so that all processes in the group can be killed.
      detached: true,
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...adapter.environment, [DIRECTORY_VARIABLE]: directory },
      stdio: ["ignore", logFd, logFd],
    });
    closeSync(logFd);
    if (child.pid === undefined) throw new Error(`${adapter.name} could not be started`);
    const wrapper = new WrapperProcess(adapter, port, child, child.pid, logFile);
    await wrapper.#waitUntilReady();
    return wrapper;
  }

  /** Returns the resident memory of the wrapper, without that of its servers. */
  rssBytes(): number {
    return this.#hasExited ? Number.NaN : memoryBytes(this.pid, "VmRSS");
  }

  /** True if its health URL answers 200. */
  async isReady(): Promise<boolean> {
    const reply = await send(this.#healthUrl, { method: "GET", agent: false }).catch(() => undefined);
    return reply?.status === 200;
  }

  /** Sends SIGKILL to the wrapper, but not to its servers. */
  async kill(): Promise<void> {
    this.#isTerminated = true;
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  /** Sends SIGTERM, then SIGKILL if the wrapper does not exit. May be called again. */
  async end(): Promise<WrapperEnd> {
    const startedAtMs = performance.now();
    this.#isTerminated = true;
    this.#child.kill("SIGTERM");
    const deadline = new AbortController();
    await Promise.race([this.#exited, sleep(END_DEADLINE_MS, undefined, { signal: deadline.signal }).catch(() => undefined)]);
    deadline.abort();
    const isForced = !this.#hasExited;
    const tookMs = performance.now() - startedAtMs;
    killGroup(this.pid);
    await this.#exited;
    const { exitCode, signalCode } = this.#child;
    return { exitCode, signal: signalCode, tookMs, isForced };
  }

  /** Returns the lines of its output that report an unhandled error. */
  async unhandledErrors(): Promise<string[]> {
    const lines: string[] = [];
    for await (const line of createInterface({ input: createReadStream(this.#logFile) })) {
      if (UNHANDLED.test(line)) lines.push(line.slice(0, 300));
    }
    return lines;
  }

  get #hasExited(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async #waitUntilReady(): Promise<void> {
    const deadlineMs = performance.now() + READY_DEADLINE_MS;
    while (!(await this.isReady())) {
      if (this.#hasExited) throw new Error(`exited before it was ready; see ${this.#logFile}`);
      if (performance.now() > deadlineMs) throw new Error(`not ready after ${READY_DEADLINE_MS} ms; see ${this.#logFile}`);
      await sleep(READY_POLL_MS);
    }
  }
}

function killGroup(groupId: number): void {
  try {
    process.kill(-groupId, "SIGKILL");
  } catch {
    // The group has no process left.
  }
}
