/** The entry point of a thread: it executes one call at a time, or several that wait for others. */
import { setImmediate } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import type { Settings } from "./settings.ts";
import { failure, type Tool, ToolError, type ToolResult } from "./tool.ts";

export interface Reply {
  readonly id: number;
  readonly result: ToolResult;
  /** False if timers or sockets of the tool are left, which could disturb the next call. */
  readonly isReusable: boolean;
}

type Message =
  | { readonly kind: "abort"; readonly id: number }
  | { readonly kind: "call"; readonly id: number; readonly name: string; readonly args: never };

const { modules, settings } = workerData as { readonly modules: readonly string[]; readonly settings: Settings };
const calls = new Map<number, AbortController>();
let resourcesBefore = 0;
// Before the first await: a message without a listener would be lost.
parentPort?.on("message", (message: Message) => (message.kind === "abort" ? calls.get(message.id)?.abort() : void reply(message)));
const imported = Promise.all(modules.map((each) => import(each) as Promise<{ readonly tools: readonly Tool[] }>));
await imported;

async function reply({ id, name, args }: Message & { readonly kind: "call" }): Promise<void> {
  const controller = new AbortController();
  if (calls.size === 0) resourcesBefore = process.getActiveResourcesInfo().length;
  calls.set(id, controller);
  const result = await execute(name, args, controller.signal);
  // An error that the tool has left behind counts as its own.
  await setImmediate();
  calls.delete(id);
  // While other calls run, their sockets cannot be told from those that are left.
  const isReusable = calls.size > 0 || process.getActiveResourcesInfo().length <= resourcesBefore;
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage({ id, result, isReusable } satisfies Reply);
}

async function execute(name: string, args: never, signal: AbortSignal): Promise<ToolResult> {
  const tool = (await imported).flatMap(({ tools }) => tools).find((each) => each.name === name);
  try {
    // As JSON, since a result could be something that cannot be sent to another thread.
    return { status: "success", result: JSON.parse(JSON.stringify((await tool?.execute(args, { settings, signal })) ?? null)) as unknown };
  } catch (error) {
    if (error instanceof ToolError) return failure(error.type, error.message);
    return failure("execution_error", `${name} crashed: ${(error as Error | undefined)?.message ?? String(error)}`.slice(0, 1000));
  }
}
