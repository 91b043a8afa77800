/** The entry point of a thread: it executes one call at a time. */
import { setImmediate } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import type { Settings } from "./settings.ts";
import { failure, type Tool, ToolError, type ToolResult } from "./tool.ts";

export interface Reply {
  readonly result: ToolResult;
  /** False if timers or sockets of the tool are left, which could disturb the next call. */
  readonly isReusable: boolean;
}

type Message = { readonly kind: "abort" } | { readonly kind: "call"; readonly name: string; readonly args: never };

const { modules, settings } = workerData as { readonly modules: readonly string[]; readonly settings: Settings };
let controller = new AbortController();
// Before the first await: a message without a listener would be lost.
parentPort?.on("message", (message: Message) => (message.kind === "abort" ? controller.abort() : void reply(message.name, message.args)));
const imported = Promise.all(modules.map((each) => import(each) as Promise<{ readonly tools: readonly Tool[] }>));
await imported;

async function reply(name: string, args: never): Promise<void> {
  controller = new AbortController();
  const before = process.getActiveResourcesInfo().length;
  const result = await execute(name, args, controller.signal);
  // An error that the tool has left behind counts as its own.
  await setImmediate();
  const isReusable = process.getActiveResourcesInfo().length <= before;
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage({ result, isReusable } satisfies Reply);
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
