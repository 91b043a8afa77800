import { type NotificationMessage, type ResponseMessage, Slot } from "../mcp/message.ts";
import { notificationToClient } from "../mcp/rewrite.ts";
import { progressTokenOf } from "../mcp/server-line.ts";
import { type MemoryHolder, RecentMap } from "../memory.ts";
import type { Caller } from "../session/session.ts";
import type { Call } from "./call.ts";

export const UNKNOWN_TASK = "This task does not exist. The request was not sent.";

/** Beyond a limit, the oldest task is forgotten. Anybody who knows its id may then use it. */
const MAX_TASKS = 10_000;
const MAX_CLIENT_TASKS = 1000;
/** A longer id is not kept. In UTF-16 units. */
const MAX_ID_LENGTH = 256;

/**
 * A shared server sees one identity for all, so it could not notice that a client uses the task of another one. Servers may keep tasks over
 * a restart, so the owners are kept too.
 */
export class TaskOwners {
  readonly #owners = new Map<string, MemoryHolder>();
  readonly #tasks = new Map<MemoryHolder, Set<string>>();

  add(id: string | undefined, holder: MemoryHolder): void {
    if (id === undefined || id.length > MAX_ID_LENGTH) return;
    this.#forget(id);
    this.#owners.set(id, holder);
    const own = this.#tasks.get(holder) ?? new Set();
    this.#tasks.set(holder, own.add(id));
    const [oldest] = own.size > MAX_CLIENT_TASKS ? own : this.#owners.size > MAX_TASKS ? this.#owners.keys() : [];
    if (oldest !== undefined) this.#forget(oldest);
  }

  #forget(id: string): void {
    const holder = this.#owners.get(id);
    if (holder === undefined) return;
    this.#owners.delete(id);
    const own = this.#tasks.get(holder);
    own?.delete(id);
    if (own?.size === 0) this.#tasks.delete(holder);
  }

  isOfOther(id: string | undefined, holder: MemoryHolder): boolean {
    const owner = id === undefined ? undefined : this.#owners.get(id);
    return owner !== undefined && owner !== holder;
  }
}

/** Progress tokens of tasks stay valid until the end of the task, which is not reported (MCP 2025-11-25, basic/utilities/progress). */
export const MAX_TOKENS = 1024;

/** The tasks of clients (MCP 2025-11-25, basic/utilities/tasks): calls that go on after their response. */
export class ClientTasks {
  readonly owners = new TaskOwners();
  readonly tokens = new RecentMap<unknown, { readonly caller: Caller; readonly tokenText: string }>(MAX_TOKENS);

  add({ wireId, caller, progressTokenText: tokenText }: Call, response: ResponseMessage): void {
    if (caller === undefined) return;
    this.owners.add(response.outline.stringAt(Slot.taskId), caller.memory.holder);
    if (tokenText !== undefined) this.tokens.set(wireId, { caller, tokenText });
  }

  /** @returns false for an unknown token. */
  deliverProgress(message: NotificationMessage): boolean {
    const owner = this.tokens.get(progressTokenOf(message));
    owner?.caller.deliver?.(notificationToClient(message, Slot.progressToken, owner.tokenText));
    return owner !== undefined;
  }

  endCaller(caller: Caller): void {
    for (const [id, owner] of this.tokens) if (owner.caller === caller) this.tokens.delete(id);
  }
}

/** MCP 2025-11-25, schema, CreateTaskResult; 2026-07-28, extension tasks. */
export function isCreateTaskResult({ outline }: ResponseMessage): boolean {
  return outline.stringAt(Slot.resultType) === "task" || outline.firstAt(Slot.taskId) === '"';
}
