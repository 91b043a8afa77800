// Asks /livez without a pause, and tells how long the longest answer took.

import { readFileSync } from "node:fs";
import { Agent, get } from "node:http";

const ASK_INTERVAL_MS = 25;
const LAG_INTERVAL_MS = 5;
/** Longer than any attack may take. */
const ANSWER_LIMIT_MS = 60_000;

export class LivezWatcher {
  gapMs = 0;
  clockGapMs = 0;
  questions = 0;
  unanswered = 0;
  readonly #url: string;
  readonly #pid: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #asking: NodeJS.Timeout;
  readonly #measuringLag: NodeJS.Timeout;
  #isAsking = false;
  #lagMs = 0;
  #lagTickMs = performance.now();
  #isStopped = false;

  constructor(origin: string, pid: number) {
    this.#url = `${origin}/livez`;
    this.#pid = pid;
    this.#asking = setInterval(() => this.#ask(), ASK_INTERVAL_MS);
    this.#measuringLag = setInterval(() => this.#measureLag(), LAG_INTERVAL_MS);
  }

  giveUp(): void {
    clearInterval(this.#asking);
  }

  /** The question that is open counts for as long as it has been. */
  async stop(): Promise<void> {
    this.giveUp();
    const deadlineMs = performance.now() + ANSWER_LIMIT_MS;
    while (this.#isAsking && performance.now() < deadlineMs) await new Promise((resolve) => setTimeout(resolve, LAG_INTERVAL_MS));
    this.#isStopped = true;
    clearInterval(this.#measuringLag);
    this.#agent.destroy();
  }

  #ask(): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    this.#lagMs = 0;
    this.#lagTickMs = performance.now();
    const askedAtMs = this.#lagTickMs;
    const waitedBefore = runQueueWaitMs(this.#pid);
    let isSettled = false;
    const settle = (isAnswered: boolean): void => {
      if (isSettled || this.#isStopped) return;
      isSettled = true;
      const clockMs = performance.now() - askedAtMs;
      this.#measureLag();
      // Neither the lag of this process nor the wait of the sidecar for a core is a stall of the sidecar; they may be the same time.
      const excusedMs = Math.max(this.#lagMs, runQueueWaitMs(this.#pid) - waitedBefore);
      this.questions++;
      if (!isAnswered) this.unanswered++;
      this.clockGapMs = Math.max(this.clockGapMs, clockMs);
      this.gapMs = Math.max(this.gapMs, clockMs - excusedMs);
      this.#isAsking = false;
    };
    const request = get(this.#url, { agent: this.#agent, timeout: ANSWER_LIMIT_MS }, (response) => {
      response.resume();
      response.once("end", () => settle(response.statusCode === 200));
      response.once("error", () => settle(false));
    });
    request.once("timeout", () => request.destroy());
    request.once("error", () => settle(false));
  }

  /** How late the timers of this process are. */
  #measureLag(): void {
    const nowMs = performance.now();
    this.#lagMs += Math.max(0, nowMs - this.#lagTickMs - 2 * LAG_INTERVAL_MS);
    this.#lagTickMs = nowMs;
  }
}

/** How long the main thread of a process has been ready to run without a core; 0 once the process is gone, or if the kernel does not count it. */
function runQueueWaitMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}
