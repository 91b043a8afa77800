import type { NotificationMessage } from "../../protocol/message.ts";
import { progressToClient } from "../../protocol/rewrite.ts";
import { progressTokenOf } from "../../protocol/server-line.ts";
import { extend } from "./call.ts";
import type { CallTable } from "./call-table.ts";

/** Delivers `notifications/progress` to its call, or its task. @returns false if no client receives it. */
export function deliverProgress(calls: CallTable, message: NotificationMessage, nowMs: number): boolean {
  return deliverToCall(calls, message, nowMs) || calls.tasks.deliverProgress(message);
}

/**
 * Delivers progress to the call that owns the token, with the client's own token. Renews the time of the call. See MCP
 * 2025-11-25, basic/utilities/progress and basic/lifecycle, timeouts.
 *
 * @returns false if no client receives it.
 */
function deliverToCall(calls: CallTable, message: NotificationMessage, nowMs: number): boolean {
  const call = calls.getWritten(progressTokenOf(message));
  if (call?.progressTokenText === undefined) return false;
  extend(call, nowMs);
  const isShown = call.exchange.emit(progressToClient(message, call.progressTokenText));
  if (isShown) call.mustNotRestart = true;
  return isShown;
}
