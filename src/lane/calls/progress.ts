import { type NotificationMessage, Slot } from "../../protocol/message.ts";
import { progressToClient } from "../../protocol/rewrite.ts";
import type { Caller } from "../../sessions/caller.ts";
import { type Call, extend } from "./call.ts";
import type { CallTable } from "./call-table.ts";
import type { TaskTokens } from "./task-tokens.ts";

/**
 * Delivers `notifications/progress` to the call that owns the token, with the client's own token. Renews the time of the call. See MCP
 * 2025-11-25, basic/utilities/progress and basic/lifecycle, timeouts.
 *
 * @returns false if no client receives it.
 */
export function deliverProgress(calls: CallTable, message: NotificationMessage, nowMs: number): boolean {
  const call = calls.getWritten(message.outline.numberAt(Slot.progressToken));
  if (call?.progressTokenText === undefined) return false;
  extend(call, nowMs);
  const isShown = call.exchange.emit(progressToClient(message, call.progressTokenText));
  if (isShown) call.hasShownProgress = true;
  return isShown;
}

/** The recipient of a task's progress. */
export interface ProgressOwner {
  readonly caller: Caller;
  /** The JSON text of the client's progress token. */
  readonly tokenText: string;
}

/** Keeps the progress token of a call that was answered with a task. */
export function keepTaskProgress(tokens: TaskTokens<ProgressOwner>, call: Call): void {
  const { wireId, progressTokenText: tokenText } = call;
  if (call.origin === "client" && tokenText !== undefined) tokens.keep(wireId, { caller: call.caller, tokenText });
}

/** Delivers the progress of a task to its caller, since its request is no longer in flight. @returns false for an unknown token. */
export function deliverTaskProgress(tokens: TaskTokens<ProgressOwner>, message: NotificationMessage): boolean {
  const owner = tokens.get(message.outline.numberAt(Slot.progressToken));
  owner?.caller.deliver(progressToClient(message, owner.tokenText));
  return owner !== undefined;
}
