// The way of a call: hooks, tool, hooks.

import { randomUUID } from "node:crypto";
import { type Hook, runAfter, runBefore } from "./hooks.ts";
import { firstLine, log } from "./log.ts";
import { type Arguments, failure, type ToolRegistry, type ToolResult } from "./registry.ts";
import type { Limits } from "./settings.ts";

/** Never rejects. */
export type CallTool = (name: string, args: Arguments, signal: AbortSignal) => Promise<ToolResult>;

export function toolCaller(registry: ToolRegistry, hooks: readonly Hook[], { maxCalls, hookTimeoutMs }: Limits): CallTool {
  let inFlight = 0;

  async function run(name: string, args: Arguments, signal: AbortSignal): Promise<ToolResult> {
    const requested = { id: randomUUID(), name, arguments: args };
    const startMs = performance.now();
    const decision = await runBefore(hooks, requested, hookTimeoutMs);
    const call = typeof decision === "string" ? requested : decision;
    const result =
      typeof decision === "string"
        ? failure(`cancelled: ${decision}`)
        : ((await registry.getTool(call.name)?.execute(call.arguments, { callId: call.id, signal })) ??
          failure(`${call.name} is not available now; list_devices shows the connected devices and their tools`));
    await runAfter(hooks, { call, result, durationMs: performance.now() - startMs }, hookTimeoutMs);
    return result;
  }

  return async (name, args, signal) => {
    if (inFlight >= maxCalls) return failure(`${inFlight} calls are in flight; try again later`);
    inFlight += 1;
    try {
      return await run(name, args, signal);
    } catch (error) {
      log(`call of ${name.slice(0, 64)}: ${firstLine(error)}`);
      return failure("internal error of the gateway");
    } finally {
      inFlight -= 1;
    }
  };
}
