import { once } from "node:events";
import { Worker } from "node:worker_threads";
import pLimit, { type LimitFunction } from "p-limit";
import type { Settings } from "./settings.ts";
import { failure, type ToolResult } from "./tool.ts";
import type { Reply } from "./worker.ts";

/** The time that an aborted tool has to clean up. */
const GRACE_MS = 250;
/** Buffers are outside of this limit. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 128 };

interface Call {
  readonly name: string;
  readonly args: unknown;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Runs tools in threads, one call at a time in each. A thread is kept for the next call, and terminated if its tool crashes or does not
 * stop. Pool packages pass the output of threads to stdout, which belongs to MCP.
 */
export class Threads {
  readonly #modules: readonly string[];
  readonly #settings: Settings;
  readonly #limit: LimitFunction;
  readonly #idle = new Set<Worker>();
  readonly #running = new Set<Promise<void>>();

  /** @param modules URLs of the modules with the tools. */
  constructor(modules: readonly string[], settings: Settings) {
    [this.#modules, this.#settings, this.#limit] = [modules, settings, pLimit(settings.maxThreads)];
    this.#idle.add(this.#start());
  }

  /** Never rejects. Resolves at the time limit, which begins with the execution, even if the tool does not stop. */
  run(call: Call): Promise<ToolResult> {
    return new Promise((resolve) => {
      const running: Promise<void> = this.#limit(() => this.#occupy(call, resolve)).finally(() => this.#running.delete(running));
      this.#running.add(running);
    });
  }

  /** Resolves when no tool runs. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }

  /** Resolves when the thread can be used by another call, or has ended. */
  async #occupy({ name, args, timeoutMs, signal }: Call, resolve: (result: ToolResult) => void): Promise<void> {
    if (signal.aborted) return resolve(failure("execution_error", "The call was cancelled before its execution"));
    const [worker = this.#start()] = this.#idle;
    this.#idle.delete(worker);
    const settled = new AbortController();
    let killer: NodeJS.Timeout | undefined;
    const stop = (result: ToolResult): void => {
      resolve(result);
      post(worker, { kind: "abort" });
      killer ??= setTimeout(() => void worker.terminate(), GRACE_MS);
    };
    const timer = setTimeout(() => stop(failure("timeout", `${name} was aborted after its time limit of ${timeoutMs} ms`)), timeoutMs);
    const cancel = (): void => stop(failure("execution_error", "The call was cancelled"));
    signal.addEventListener("abort", cancel);
    try {
      post(worker, { kind: "call", name, args });
      // Created last, since its rejection is handled from here on.
      const exit = once(worker, "exit", settled).then(([code]) => Promise.reject(new Error(`its thread exited with code ${String(code)}`)));
      const [reply] = (await Promise.race([once(worker, "message", settled), exit])) as [Reply];
      resolve(reply.result);
      if (reply.isReusable) this.#idle.add(worker);
      else await worker.terminate();
    } catch (error) {
      resolve(failure("execution_error", `${name} crashed: ${(error as Error).message}`.slice(0, 1000)));
      await worker.terminate();
    } finally {
      settled.abort();
      clearTimeout(timer);
      clearTimeout(killer);
      signal.removeEventListener("abort", cancel);
    }
  }

  #start(): Worker {
    const worker = new Worker(new URL("worker.ts", import.meta.url), {
      workerData: { modules: this.#modules, settings: this.#settings },
      resourceLimits: RESOURCE_LIMITS,
      // Tools need no secrets of the environment. Their output could have some.
      env: {},
      stdout: true,
      stderr: true,
    });
    worker.stdout.resume();
    worker.stderr.resume();
    // A tool may fail after its result.
    worker.on("error", () => this.#idle.delete(worker)).on("exit", () => this.#idle.delete(worker));
    return worker;
  }
}

function post(worker: Worker, message: object): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  worker.postMessage(message);
}
