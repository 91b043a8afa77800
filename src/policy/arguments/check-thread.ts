import { Worker } from "node:worker_threads";
import { describeError } from "../../errors.ts";
import type { CheckReply, CheckRequest, TimedReply } from "./check-messages.ts";

/** The interval of measurements during a request. */
const POLL_MS = 20;
/**
 * About half a minute for a start or a request: only a thread that hangs reaches it. The clock says nothing about its work, because other
 * processes may have the processor. Ticks are counted because a tick that was late for any time is one, and the reply may be waiting behind it.
 */
const MAX_TICKS = 1500;
/** A thread above this limit is ended before it reaches HARD_LIMITS, because V8 then ends the whole process instead of the thread. */
const MAX_HEAP_BYTES = 192 * 1024 * 1024;
const HARD_LIMITS = { maxOldGenerationSizeMb: 1024, maxYoungGenerationSizeMb: 8, stackSizeMb: 4 };
/** Tests run the TypeScript source; otherwise the program is built. */
const ENTRY = new URL(import.meta.url.endsWith(".ts") ? "check-worker.ts" : "check-worker.js", import.meta.url);

export type ExceededLimit = "cpu time" | "memory" | "time";

/** A request that has failed. */
export interface CheckFailure {
  readonly kind: "failed";
  /** The exceeded limit; undefined if the thread ended by itself. */
  readonly exceededLimit: ExceededLimit | undefined;
  readonly reason: string;
}

interface Job {
  readonly request: CheckRequest;
  readonly maxCpuMs: number;
  readonly resolve: (outcome: CheckReply | CheckFailure) => void;
  timer?: NodeJS.Timeout;
}

/** A worker thread that is started on demand, handles one request at a time, and is ended if a request exceeds a limit. */
export class CheckThread {
  #worker: Worker | undefined;
  #generation = 0;
  #isReady = false;
  /** The CPU time that the thread had used at its last reply. */
  #idleCpuMs = 0;
  #job: Job | undefined;

  /** The number of the running thread, which has none of the schemas of earlier threads; 0 if none runs. */
  get generation(): number {
    return this.#worker === undefined ? 0 : this.#generation;
  }

  start(): void {
    if (this.#worker !== undefined) return;
    this.#generation++;
    this.#isReady = false;
    try {
      // The thread gets no options or variables of the sidecar, because they may be secret or change its output.
      const options = { env: {}, execArgv: [], argv: [], stdin: false, stdout: true, stderr: true, resourceLimits: HARD_LIMITS };
      const worker = new Worker(ENTRY, { ...options, name: "argument-check" });
      this.#worker = worker;
      worker.unref();
      worker.on("message", (reply: TimedReply) => this.#onReply(worker, reply));
      worker.on("error", (error) => this.#onEnd(worker, isOutOfMemory(error) ? "memory" : undefined, describeError(error)));
      worker.on("exit", () => this.#onEnd(worker, undefined, "the thread exited"));
    } catch (error) {
      this.#fail(undefined, describeError(error));
    }
  }

  /** Runs a request. Must not be called again before the outcome. Never rejects. */
  run(request: CheckRequest, maxCpuMs: number): Promise<CheckReply | CheckFailure> {
    return new Promise((resolve) => {
      this.#job = { request, maxCpuMs, resolve };
      if (this.#worker !== undefined && this.#isReady) return this.#post(this.#worker, this.#job);
      this.start();
      if (this.#job !== undefined) this.#watch(this.#job, () => undefined);
    });
  }

  #post(worker: Worker, job: Job): void {
    this.#watch(job, () => void this.#measure(worker, job));
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    worker.postMessage(job.request);
  }

  #watch(job: Job, measure: () => void): void {
    clearInterval(job.timer);
    let ticks = 0;
    const onTick = (): void => {
      if (++ticks > MAX_TICKS) this.#giveUp("time", `no reply of the thread within ${(MAX_TICKS * POLL_MS) / 1000} s`);
      else measure();
    };
    job.timer = setInterval(onTick, POLL_MS).unref();
  }

  /** Measures the thread. This may take a while, because the thread answers only between steps of its program. */
  async #measure(worker: Worker, job: Job): Promise<void> {
    try {
      const [{ user, system }, { used_heap_size: heapBytes }] = await Promise.all([worker.cpuUsage(), worker.getHeapStatistics()]);
      if (this.#job !== job) return;
      const { maxCpuMs } = job;
      if ((user + system) / 1000 - this.#idleCpuMs > maxCpuMs) this.#giveUp("cpu time", `more than ${maxCpuMs} ms of CPU time`);
      else if (heapBytes > MAX_HEAP_BYTES) this.#giveUp("memory", `more than ${MAX_HEAP_BYTES / 1024 / 1024} MiB of memory`);
    } catch {
      // The thread has exited in the meantime, which is reported separately.
    }
  }

  #onReply(worker: Worker, { cpuMs, ...reply }: TimedReply): void {
    if (worker !== this.#worker) return;
    this.#idleCpuMs = cpuMs;
    const job = this.#job;
    if (reply.kind === "ready") {
      this.#isReady = true;
      if (job !== undefined) this.#post(worker, job);
    } else this.#settle(reply);
  }

  #onEnd(worker: Worker, exceededLimit: ExceededLimit | undefined, reason: string): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    this.#fail(exceededLimit, reason);
  }

  #giveUp(exceededLimit: ExceededLimit, reason: string): void {
    const worker = this.#worker;
    this.#worker = undefined;
    void worker?.terminate();
    this.#fail(exceededLimit, reason);
  }

  #fail(exceededLimit: ExceededLimit | undefined, reason: string): void {
    this.#settle({ kind: "failed", exceededLimit, reason });
  }

  #settle(outcome: CheckReply | CheckFailure): void {
    const job = this.#job;
    if (job === undefined) return;
    this.#job = undefined;
    clearInterval(job.timer);
    job.resolve(outcome);
  }
}

function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_WORKER_OUT_OF_MEMORY";
}
