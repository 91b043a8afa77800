import { Worker } from "node:worker_threads";
import { Places } from "./places.ts";
import type { Settings } from "./settings.ts";
import { failure, type ToolResult } from "./tool.ts";
import type { Reply } from "./worker.ts";

/** The time that an aborted tool has to clean up. */
const GRACE_MS = 250;

interface Call {
  readonly name: string;
  readonly args: unknown;
  /** What the call waits for; empty if it does not wait. */
  readonly target: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

interface Thread {
  readonly worker: Worker;
  /** What ends each call, by its id: its reply, or the end of the thread. */
  readonly calls: Map<number, (ending: Reply | Error) => void>;
}

export interface ThreadLimits {
  readonly threads: number;
  /** The calls that a thread executes at the same time. */
  readonly callsEach: number;
  /** The calls for one target at the same time, in all threads. */
  readonly callsOfTarget: number;
  /** Buffers are outside of this limit. */
  readonly memoryMib: number;
}

/**
 * Runs tools in threads. A thread is kept for further calls. It gets no more of them, and is terminated when it has none, if a tool does
 * not stop or leaves something behind. Pool packages pass the output of threads to stdout, which belongs to MCP.
 */
export class Threads {
  readonly #modules: readonly string[];
  readonly #settings: Settings;
  readonly #limits: ThreadLimits;
  readonly #places: Places;
  /** Those that get calls. */
  readonly #open = new Set<Thread>();
  readonly #running = new Set<Promise<void>>();
  #lastId = 0;

  /** @param modules URLs of the modules with the tools. */
  constructor(modules: readonly string[], settings: Settings, limits: ThreadLimits) {
    [this.#modules, this.#settings, this.#limits] = [modules, settings, limits];
    this.#places = new Places(limits.threads * limits.callsEach, limits.callsOfTarget);
  }

  /** Never rejects. Resolves at the time limit, which begins with the execution, even if the tool does not stop. */
  run(call: Call): Promise<ToolResult> {
    return new Promise((resolve) => {
      const running = this.#places
        .run(call.target, call.signal, () => this.#execute(call, resolve))
        .then(
          () => resolve(failure("execution_error", "The call was cancelled before its execution")),
          (error: Error) => resolve(crash(call.name, error)),
        )
        .finally(() => this.#running.delete(running));
      this.#running.add(running);
    });
  }

  /** Resolves when no tool runs. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }

  /** Starts a thread before the first call. */
  prepare(): void {
    this.#start();
  }

  /** Resolves when the place can be used by another call. */
  async #execute({ name, args, timeoutMs, signal }: Call, resolve: (result: ToolResult) => void): Promise<void> {
    const thread = this.#leastBusy();
    const id = (this.#lastId += 1);
    const ended = Promise.withResolvers<Reply | Error | undefined>();
    thread.calls.set(id, ended.resolve);
    let grace: NodeJS.Timeout | undefined;
    const stop = (result: ToolResult): void => {
      resolve(result);
      post(thread.worker, { kind: "abort", id });
      grace ??= setTimeout(() => ended.resolve(undefined), GRACE_MS);
    };
    const timer = setTimeout(() => stop(failure("timeout", `${name} was aborted after its time limit of ${timeoutMs} ms`)), timeoutMs);
    const cancel = (): void => stop(failure("execution_error", "The call was cancelled"));
    signal.addEventListener("abort", cancel);
    post(thread.worker, { kind: "call", id, name, args });
    const ending = await ended.promise;
    clearTimeout(timer);
    clearTimeout(grace);
    signal.removeEventListener("abort", cancel);
    thread.calls.delete(id);
    const isReply = ending !== undefined && !(ending instanceof Error);
    if (isReply) resolve(ending.result);
    else if (ending !== undefined) resolve(crash(name, ending));
    if (!isReply || !ending.isReusable) this.#open.delete(thread);
    // Its other calls go on.
    if (!this.#open.has(thread) && thread.calls.size === 0) await thread.worker.terminate();
  }

  #leastBusy(): Thread {
    const [best] = [...this.#open].toSorted((one, other) => one.calls.size - other.calls.size);
    return best !== undefined && (best.calls.size === 0 || this.#open.size >= this.#limits.threads) ? best : this.#start();
  }

  #start(): Thread {
    const worker = new Worker(new URL("worker.ts", import.meta.url), {
      workerData: { modules: this.#modules, settings: this.#settings },
      resourceLimits: { maxOldGenerationSizeMb: this.#limits.memoryMib },
      // Tools need no secrets of the environment. Their output could have some.
      env: {},
      stdout: true,
      stderr: true,
    });
    worker.stdout.resume();
    worker.stderr.resume();
    const thread: Thread = { worker, calls: new Map() };
    const end = (error: Error): void => {
      this.#open.delete(thread);
      for (const endCall of thread.calls.values()) endCall(error);
    };
    worker.on("message", (reply: Reply) => thread.calls.get(reply.id)?.(reply));
    // A tool may also fail after its result.
    worker.on("error", end).on("exit", (code) => end(new Error(`its thread exited with code ${code}`)));
    this.#open.add(thread);
    return thread;
  }
}

function crash(name: string, { message }: Error): ToolResult {
  return failure("execution_error", `${name} crashed: ${message}`.slice(0, 1000));
}

function post(worker: Worker, message: object): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  worker.postMessage(message);
}
