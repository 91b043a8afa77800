// Modules of the operator that see each call before and after it: "clawseed-api", Hook.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import { firstLine, log } from "./log.ts";
import type { Arguments, ToolResult } from "./registry.ts";
import { SettingError } from "./setting-error.ts";
import { withTimeLimit } from "./time-limit.ts";

export interface ToolCall {
  /** The UUID that the device gets too. */
  readonly id: string;
  readonly name: string;
  readonly arguments: Arguments;
}

export interface ToolExecutionResult {
  readonly call: ToolCall;
  readonly result: ToolResult;
  readonly durationMs: number;
}

const HookResult = z.union([
  z.literal("continue"),
  z.strictObject({ cancel: z.string() }),
  z.strictObject({ modify: z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()) }) }),
]);

export interface Hook {
  readonly beforeToolCall?: (call: ToolCall) => z.infer<typeof HookResult> | Promise<z.infer<typeof HookResult>>;
  /** Only observes: its result does not count. */
  readonly afterToolCall?: (result: ToolExecutionResult) => unknown;
}

/** @param paths modules, relative to the working directory. @throws SettingError if one of them has no hooks. */
export function loadHooks(paths: readonly string[]): Promise<Hook[]> {
  return Promise.all(
    paths.map(async (path) => {
      const hook = (await import(pathToFileURL(resolve(path)).href).catch((error: unknown) => {
        throw new SettingError(`HOOKS: ${path} cannot be loaded: ${firstLine(error)}`);
      })) as Hook;
      const exports = [hook.beforeToolCall, hook.afterToolCall].filter((each) => each !== undefined);
      if (exports.length === 0 || exports.some((each) => typeof each !== "function"))
        throw new SettingError(`HOOKS: ${path} must export beforeToolCall or afterToolCall, and both must be functions`);
      return hook;
    }),
  );
}

/**
 * Asks all hooks in order. Each gets a copy of the call with the changes of those before it. A hook that fails cancels the call.
 *
 * @returns the call to be made, or the reason why it is cancelled.
 */
export async function runBefore(hooks: readonly Hook[], call: ToolCall, limitMs: number): Promise<ToolCall | string> {
  let current = call;
  for (const { beforeToolCall } of hooks) {
    if (beforeToolCall === undefined) continue;
    try {
      const returned = await withTimeLimit(limitMs, () => beforeToolCall(structuredClone(current)));
      // The device gets JSON, so that arguments of other kinds are errors of the hook.
      const { data: result } = HookResult.safeParse(JSON.parse(JSON.stringify(returned) ?? "null"));
      if (result === undefined) throw new Error('it must return "continue", { cancel } or { modify }');
      if (result === "continue") continue;
      if ("cancel" in result) return result.cancel;
      current = { ...result.modify, id: call.id };
    } catch (error) {
      // The error is for the operator. It may have secrets of the hook.
      log(`call ${call.id}: hook before: ${firstLine(error)}`);
      return "a hook has failed";
    }
  }
  return current;
}

export async function runAfter(hooks: readonly Hook[], result: ToolExecutionResult, limitMs: number): Promise<void> {
  for (const { afterToolCall } of hooks) {
    await withTimeLimit(limitMs, () => afterToolCall?.(structuredClone(result))).catch((error: unknown) =>
      log(`call ${result.call.id}: hook after: ${firstLine(error)}`),
    );
  }
}
