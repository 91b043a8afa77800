import { type NotificationMessage, Slot } from "../../protocol/message.ts";
import { progressToClient } from "../../protocol/rewrite.ts";
import type { Caller } from "../../sessions/caller.ts";
import type { Call } from "../calls/call.ts";
import { LATE_MEMORY_MS } from "../calls/pending-requests.ts";
import { TaskTokens } from "./task-tokens.ts";

/** The recipient of a task's progress. */
interface ProgressOwner {
  readonly caller: Caller;
  /** The JSON text of the client's progress token. */
  readonly tokenText: string;
}

/**
 * The tasks of clients (MCP 2025-11-25, basic/utilities/tasks): calls that go on after their response. The end of a task is not reported, so
 * a caller counts as having a task until it ends.
 */
export class ClientTasks {
  readonly #tokens = new TaskTokens<ProgressOwner>();
  readonly #callers = new Set<Caller>();
  /** The latest time at which a task was running whose caller is gone. */
  #endedAtMs = Number.NEGATIVE_INFINITY;

  /** Adds the task of a call that was answered with one. @param call undefined for a late response. */
  add(call: Call | undefined, nowMs: number): void {
    if (call === undefined) this.#endedAtMs = nowMs;
    else if (call.origin === "client") {
      const { wireId, caller, progressTokenText: tokenText } = call;
      this.#callers.add(caller);
      if (tokenText !== undefined) this.#tokens.keep(wireId, { caller, tokenText });
    }
  }

  /** Delivers the progress of a task to its caller, since its request is no longer in flight. @returns false for an unknown token. */
  deliverProgress(message: NotificationMessage): boolean {
    const owner = this.#tokens.get(message.outline.numberAt(Slot.progressToken));
    owner?.caller.deliver(progressToClient(message, owner.tokenText));
    return owner !== undefined;
  }

  /** True if the server may be running a task of another caller. */
  hasTaskOfOthers(caller: Caller, nowMs: number): boolean {
    return this.#callers.size > (this.#callers.has(caller) ? 1 : 0) || nowMs - this.#endedAtMs <= LATE_MEMORY_MS;
  }

  endCaller(caller: Caller, nowMs: number): void {
    if (!this.#callers.delete(caller)) return;
    this.#endedAtMs = nowMs;
    this.#tokens.deleteWhere((owner) => owner.caller === caller);
  }

  /** Forgets all tasks, because the server that ran them is lost. */
  clear(): void {
    this.#callers.clear();
    this.#tokens.clear();
    this.#endedAtMs = Number.NEGATIVE_INFINITY;
  }
}
