import { createHash } from "node:crypto";
import { Worker } from "node:worker_threads";
import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { describeError } from "../mcp/errors.ts";
import type { JsonObject } from "../mcp/message.ts";
import { Turns } from "../server/call.ts";

/** The worker handles one at a time. */
export type CheckRequest =
  | { readonly kind: "add"; readonly key: string; readonly schemaText: string }
  | { readonly kind: "check"; readonly keys: readonly string[]; readonly argsText: string | undefined };

/** The first reply is empty: the worker can take requests. */
export interface CheckReply {
  readonly schemaProblem?: string | undefined;
  readonly problems?: readonly string[];
  /** Set by the main thread. Without a limit, the thread ended by itself. */
  readonly failure?: { readonly exceededLimit?: "cpu time" | "memory" | "time" | undefined; readonly reason: string };
}

type CheckFailure = NonNullable<CheckReply["failure"]>;

const MAX_CHECK_CPU_MS = 200;
const MAX_COMPILE_CPU_MS = 500;
const POLL_MS = 20;
/**
 * About half a minute: only a thread that hangs reaches it, because other processes may have the processor. Ticks are counted: a tick that was late
 * is one, and the reply may be waiting behind it.
 */
const MAX_TICKS = 1500;
/** Below HARD_LIMITS, at which V8 ends the whole process instead of the thread. */
const MAX_HEAP_BYTES = 192 * 1024 * 1024;
/** A thread with more schemas is replaced: compiled, they take fifty times as much. In UTF-16 units of their JSON. */
const MAX_ADDED_LENGTH = 1024 * 1024;
const HARD_LIMITS = { maxOldGenerationSizeMb: 1024, maxYoungGenerationSizeMb: 8, stackSizeMb: 4 };
/** Tests run the TypeScript source; otherwise the program is built. */
const ENTRY = new URL(import.meta.url.endsWith(".ts") ? "check-worker.ts" : "check-worker.js", import.meta.url);

/** Started on demand. It is ended if a request exceeds a limit. */
class CheckThread {
  readonly keys = new Set<string>();
  #worker: Worker | undefined;
  /** At the last reply; infinite until the thread can take requests, because its start has no limit. */
  #idleCpuMs = Infinity;
  #addedLength = 0;
  #settle: ((reply: CheckReply) => void) | undefined;

  start(): void {
    if (this.#worker !== undefined) return;
    try {
      // The thread gets no options or variables of the sidecar, because they may be secret or change its output.
      const options = { env: {}, execArgv: [], argv: [], stdin: false, stdout: true, stderr: true, resourceLimits: HARD_LIMITS };
      const worker = new Worker(ENTRY, { ...options, name: "argument-check" });
      this.#worker = worker;
      worker.unref();
      worker.on("message", (reply: CheckReply & { readonly cpuMs: number }) => this.#onReply(worker, reply));
      worker.on("error", (error: NodeJS.ErrnoException) => {
        const exceededLimit = error.code === "ERR_WORKER_OUT_OF_MEMORY" ? "memory" : undefined;
        this.#end({ exceededLimit, reason: describeError(error) }, worker);
      });
      worker.on("exit", () => this.#end({ reason: "the thread exited" }, worker));
    } catch (error) {
      this.#end({ reason: describeError(error) });
    }
  }

  /** Must not be called before the outcome of a request. */
  endIfFull(): void {
    if (this.#addedLength > MAX_ADDED_LENGTH) this.#end({ reason: "too many schemas" });
  }

  /** Must not be called again before the outcome. Never rejects. */
  run(request: CheckRequest): Promise<CheckReply> {
    return new Promise((resolve) => {
      const maxCpuMs = request.kind === "add" ? MAX_COMPILE_CPU_MS : MAX_CHECK_CPU_MS;
      let ticks = 0;
      const timer = setInterval(() => void this.#measure(maxCpuMs, ++ticks), POLL_MS).unref();
      this.#settle = (reply) => {
        this.#settle = undefined;
        clearInterval(timer);
        resolve(reply);
      };
      this.start();
      if (request.kind === "add") this.#addedLength += request.schemaText.length;
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      this.#worker?.postMessage(request);
    });
  }

  /** The thread answers only between steps of its program. */
  async #measure(maxCpuMs: number, ticks: number): Promise<void> {
    const [worker, settle] = [this.#worker, this.#settle];
    if (worker === undefined) return;
    const seconds = (MAX_TICKS * POLL_MS) / 1000;
    if (ticks > MAX_TICKS) return this.#end({ exceededLimit: "time", reason: `no reply of the thread within ${seconds} s` });
    try {
      const [{ user, system }, { used_heap_size: heapBytes }] = await Promise.all([worker.cpuUsage(), worker.getHeapStatistics()]);
      if (this.#settle !== settle) return;
      if ((user + system) / 1000 - this.#idleCpuMs > maxCpuMs)
        this.#end({ exceededLimit: "cpu time", reason: `more than ${maxCpuMs} ms of CPU time` });
      else if (heapBytes > MAX_HEAP_BYTES)
        this.#end({ exceededLimit: "memory", reason: `more than ${MAX_HEAP_BYTES / 1024 / 1024} MiB of memory` });
    } catch {
      // The thread has not begun, or has exited, which is reported separately.
    }
  }

  #onReply(worker: Worker, { cpuMs, ...reply }: CheckReply & { readonly cpuMs: number }): void {
    if (worker !== this.#worker) return;
    const isReady = this.#idleCpuMs !== Infinity;
    this.#idleCpuMs = cpuMs;
    if (isReady) this.#settle?.(reply);
  }

  /** A thread that was replaced no longer counts. */
  #end(failure: CheckFailure, worker = this.#worker): void {
    if (worker !== this.#worker) return;
    void this.#worker?.terminate();
    this.#worker = undefined;
    this.#idleCpuMs = Infinity;
    this.#addedLength = 0;
    this.keys.clear();
    this.#settle?.({ failure });
  }
}

const MAX_SCHEMAS = 1000;
/** The arguments must match the schema of each tool with the name. */
const MAX_NAMESAKES = 4;
/** After so many compilations above the limits, a schema is skipped. */
const MAX_STRIKES = 3;
const MAX_REASON_LENGTH = 500;

const NOT_CHECKED: readonly string[] = ["the arguments could not be checked"];

interface KnownSchema {
  readonly key: string;
  strikes: number;
  isLogged: boolean;
}

interface Check {
  /** At least one: all with the name. */
  readonly tools: readonly JsonObject[];
  /** Absent counts as `{}`. */
  readonly argsText: string | undefined;
  /** One line a field; empty if the arguments are valid or the schema is unusable. */
  readonly onProblems: (problems: readonly string[]) => void;
  isStopped: boolean;
}

/** Serves all servers and generations. A schema is compiled at its first call, and again in a new thread. */
export class ArgumentCheck {
  readonly #context: Context;
  readonly #thread = new CheckThread();
  /** Many of one caller delay another caller by only one. */
  readonly #checks = new Turns<object, Set<Check>>();
  #isBusy = false;
  /** By the digest of their JSON, because a restarted server lists its tools again. The oldest comes first. */
  readonly #byDigest = new Map<string, KnownSchema>();
  readonly #known = new WeakMap<object, KnownSchema>();

  constructor(context: Context) {
    this.#context = context;
    // The first call does not wait for it then.
    this.#thread.start();
  }

  /** @returns a function that cancels the check. */
  check(
    tools: readonly JsonObject[],
    argsText: string | undefined,
    caller: object,
    onProblems: (problems: readonly string[]) => void,
  ): () => void {
    const check: Check = { tools, argsText, onProblems, isStopped: false };
    this.#checks.set(caller, (this.#checks.get(caller) ?? new Set()).add(check));
    if (!this.#isBusy) void this.#runAll();
    return () => {
      check.isStopped = true;
      this.#remove(caller, check);
    };
  }

  #remove(caller: object, check: Check): void {
    const checks = this.#checks.get(caller);
    if (checks?.delete(check) === true && checks.size === 0) this.#checks.delete(caller);
  }

  async #runAll(): Promise<void> {
    this.#isBusy = true;
    const { defects } = this.#context;
    for (let [next] = this.#checks; next !== undefined; [next] = this.#checks) {
      const [caller, [check]] = next;
      if (check === undefined) break;
      this.#remove(caller, check);
      const problems = await this.#run(check).catch((error: unknown) => {
        defects.note("argument check", error);
        return ["the arguments could not be checked because of a defect of the sidecar"];
      });
      if (!check.isStopped) defects.guard("argument check", () => check.onProblems(problems));
      // Its turn ends only now, so that a caller that came meanwhile is next.
      this.#checks.rotate(caller);
    }
    this.#isBusy = false;
  }

  async #run(check: Check): Promise<readonly string[]> {
    const { tools, argsText } = check;
    const keys: string[] = [];
    this.#thread.endIfFull();
    if (tools.length > MAX_NAMESAKES) return [`the server lists more than ${MAX_NAMESAKES} tools of this name`];
    for (const { inputSchema, name } of tools) {
      if (check.isStopped) return NOT_CHECKED;
      if (inputSchema === undefined) continue;
      const schema = this.#schemaOf(inputSchema);
      const failure = await this.#add(schema, inputSchema, name);
      if (failure !== undefined) return this.#giveUp(failure, name);
      keys.push(schema.key);
    }
    const { failure, problems = NOT_CHECKED } = await this.#thread.run({ kind: "check", keys, argsText });
    return failure === undefined ? problems : this.#giveUp(failure, tools[0]?.["name"]);
  }

  /** The cost depends only on the server, so the schema is at fault if it exceeds the limits. */
  async #add(schema: KnownSchema, inputSchema: unknown, toolName: unknown): Promise<CheckFailure | undefined> {
    if (this.#thread.keys.has(schema.key) || schema.strikes >= MAX_STRIKES) return undefined;
    const { schemaProblem, failure } = await this.#thread.run({ kind: "add", key: schema.key, schemaText: textOf(inputSchema) });
    if (failure === undefined) {
      this.#thread.keys.add(schema.key);
      return this.#skip(schema, toolName, schemaProblem);
    }
    // The elapsed time alone depends more on the machine than on the schema.
    if (failure.exceededLimit === "cpu time" || failure.exceededLimit === "memory") schema.strikes++;
    if (schema.strikes < MAX_STRIKES) return failure;
    return this.#skip(schema, toolName, `it takes too long: ${failure.reason}`);
  }

  #giveUp({ exceededLimit, reason }: CheckFailure, toolName: unknown): readonly string[] {
    this.#context.counters.policy.argumentChecksGivenUp++;
    this.#context.limitedRequestLog.warn(
      { tool: shorten(String(toolName)), reason: shorten(reason, MAX_REASON_LENGTH) },
      "argument check given up",
    );
    if (exceededLimit === undefined) return NOT_CHECKED;
    return [`the arguments take too ${exceededLimit === "memory" ? "much memory" : "long"} to be checked`];
  }

  #schemaOf(inputSchema: unknown): KnownSchema {
    const object = Object(inputSchema) as object;
    const known = this.#known.get(object);
    if (known !== undefined) return known;
    const text = textOf(inputSchema);
    const key = createHash("sha256").update(text).digest("base64");
    const schema = this.#byDigest.get(key) ?? { key, strikes: 0, isLogged: false };
    this.#known.set(object, schema);
    this.#byDigest.set(key, schema);
    if (this.#byDigest.size > MAX_SCHEMAS) this.#byDigest.delete(this.#byDigest.keys().next().value ?? "");
    return schema;
  }

  #skip(schema: KnownSchema, toolName: unknown, problem: string | undefined): undefined {
    if (schema.isLogged || problem === undefined) return;
    schema.isLogged = true;
    this.#context.log.warn({ tool: shorten(String(toolName)), reason: shorten(problem, MAX_REASON_LENGTH) }, "argument schema skipped");
  }
}

/** Empty if the schema is nested too deeply. */
function textOf(inputSchema: unknown): string {
  try {
    return JSON.stringify(inputSchema);
  } catch {
    return "";
  }
}
