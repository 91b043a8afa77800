// Requests /livez continuously, and measures the longest response time.

import { readFileSync } from "node:fs";
import { Agent, get } from "node:http";

const REQUEST_INTERVAL_MS = 25;
const LAG_INTERVAL_MS = 5;
/** Longer than any attack may take. */
const RESPONSE_LIMIT_MS = 60_000;

export class LivezWatcher {
  gapMs = 0;
  clockGapMs = 0;
  requests = 0;
  unanswered = 0;
  readonly #url: string;
  readonly #pid: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #requesting: NodeJS.Timeout;
  readonly #measuringLag: NodeJS.Timeout;
  #isPending = false;
  #lagMs = 0;
  #lagTickMs = performance.now();
  #isStopped = false;

  constructor(origin: string, pid: number) {
    this.#url = `${origin}/livez`;
    this.#pid = pid;
    this.#requesting = setInterval(() => this.#request(), REQUEST_INTERVAL_MS);
    this.#measuringLag = setInterval(() => this.#measureLag(), LAG_INTERVAL_MS);
  }

  giveUp(): void {
    clearInterval(this.#requesting);
  }

  /** Stops sending requests, and waits for the response to the pending one. */
  async stop(): Promise<void> {
    this.giveUp();
    const deadlineMs = performance.now() + RESPONSE_LIMIT_MS;
    while (this.#isPending && performance.now() < deadlineMs) await new Promise((resolve) => setTimeout(resolve, LAG_INTERVAL_MS));
    this.#isStopped = true;
    clearInterval(this.#measuringLag);
    this.#agent.destroy();
  }

  #request(): void {
    if (this.#isPending) return;
    this.#isPending = true;
    this.#lagMs = 0;
    this.#lagTickMs = performance.now();
    const sentAtMs = this.#lagTickMs;
    const waitedBefore = runQueueWaitMs(this.#pid);
    let isSettled = false;
    const settle = (isAnswered: boolean): void => {
      if (isSettled || this.#isStopped) return;
      isSettled = true;
      const clockMs = performance.now() - sentAtMs;
      this.#measureLag();
      // Neither the lag of this process nor the sidecar's wait for a core is the sidecar's fault. These times may overlap.
      const excusedMs = Math.max(this.#lagMs, runQueueWaitMs(this.#pid) - waitedBefore);
      this.requests++;
      if (!isAnswered) this.unanswered++;
      this.clockGapMs = Math.max(this.clockGapMs, clockMs);
      this.gapMs = Math.max(this.gapMs, clockMs - excusedMs);
      this.#isPending = false;
    };
    const request = get(this.#url, { agent: this.#agent, timeout: RESPONSE_LIMIT_MS }, (response) => {
      response.resume();
      response.once("end", () => settle(response.statusCode === 200));
      response.once("error", () => settle(false));
    });
    request.once("timeout", () => request.destroy());
    request.once("error", () => settle(false));
  }

  /** Adds up the lag of this process's timers. */
  #measureLag(): void {
    const nowMs = performance.now();
    this.#lagMs += Math.max(0, nowMs - this.#lagTickMs - 2 * LAG_INTERVAL_MS);
    this.#lagTickMs = nowMs;
  }
}

/** Returns the time that a process's main thread was ready without a core. It is 0 after an exit, or if the kernel does not count it. */
function runQueueWaitMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}
