import { type NotificationMessage, type ResponseMessage, Slot } from "../../protocol/message.ts";
import { progressToClient } from "../../protocol/rewrite.ts";
import { progressTokenOf } from "../../protocol/server-line.ts";
import type { Caller } from "../../sessions/caller.ts";
import type { Call } from "../calls/call.ts";
import { TaskOwners } from "./task-owners.ts";
import { TaskTokens } from "./task-tokens.ts";

/** The recipient of a task's progress. */
interface ProgressOwner {
  readonly caller: Caller;
  /** The JSON text of the client's progress token. */
  readonly tokenText: string;
}

/** The tasks of clients (MCP 2025-11-25, basic/utilities/tasks): calls that go on after their response. */
export class ClientTasks {
  readonly owners = new TaskOwners();
  readonly #tokens = new TaskTokens<ProgressOwner>();

  /** Adds the task of a call that was answered with one. */
  add({ wireId, caller, progressTokenText: tokenText }: Call, response: ResponseMessage): void {
    if (caller === undefined) return;
    this.owners.add(response.outline.stringAt(Slot.taskId), caller.memory.holder);
    if (tokenText !== undefined) this.#tokens.keep(wireId, { caller, tokenText });
  }

  /** Delivers the progress of a task to its caller, since its request is no longer in flight. @returns false for an unknown token. */
  deliverProgress(message: NotificationMessage): boolean {
    const owner = this.#tokens.get(progressTokenOf(message));
    owner?.caller.deliver(progressToClient(message, owner.tokenText));
    return owner !== undefined;
  }

  endCaller(caller: Caller): void {
    this.#tokens.deleteWhere((owner) => owner.caller === caller);
  }

  /** Forgets all progress tokens, because the server that ran the tasks is lost. */
  clear(): void {
    this.#tokens.clear();
  }
}
