import { findPath, stringOf } from "../json/find.ts";
import { SidecarError } from "../errors.ts";
import type { MemoryHolder } from "../memory/memory-budget.ts";
import type { RequestMessage } from "../protocol/message.ts";
import { taskIdOf } from "./checks/request-check.ts";
import type { FoundResult } from "./results/found-result.ts";
import { readFilter } from "./subscriptions/subscription-filter.ts";

/** The oldest tasks are forgotten. A client may then use any task that the server shows it. */
const MAX_TASKS = 10_000;
/** A longer id is not kept. In UTF-16 units. */
const MAX_ID_LENGTH = 256;

const TASK = '"task"';
const TASK_PATHS = [["taskId"], ["task", "taskId"]];

/**
 * The clients that have created tasks (MCP 2026-07-28, extension io.modelcontextprotocol/tasks). The server sees one identity for all
 * clients, so it could not notice that a client uses the task of another one.
 */
export class TaskOwners {
  readonly #owners = new Map<string, MemoryHolder>();

  /** Notes the task that a result begins, if it does. */
  add({ text, result, resultType }: FoundResult, holder: MemoryHolder): void {
    if (resultType === undefined || text.slice(resultType.start, resultType.end) !== TASK) return;
    const id = stringOf(
      text,
      TASK_PATHS.map((path) => findPath(text, result.start, path)).find((span) => span !== undefined),
    );
    if (id === undefined || id.length > MAX_ID_LENGTH) return;
    this.#owners.delete(id);
    this.#owners.set(id, holder);
    if (this.#owners.size > MAX_TASKS) for (const oldest of this.#owners.keys().take(1)) this.#owners.delete(oldest);
  }

  /** Returns the error for a request that names the task of another client: in its `taskId`, or in the filter of a subscription. */
  check(request: RequestMessage, holder: MemoryHolder): SidecarError | undefined {
    const other = namedTasks(request).find((id) => (this.#owners.get(id) ?? holder) !== holder);
    return other === undefined ? undefined : new SidecarError("INVALID_PARAMS", "This task does not exist. The request was not sent.");
  }
}

function namedTasks(request: RequestMessage): string[] {
  const { method } = request;
  if (method === "subscriptions/listen") {
    const filter = readFilter(request);
    return filter instanceof SidecarError ? [] : [...filter.tasks];
  }
  const id = method.startsWith("tasks/") ? taskIdOf(request) : undefined;
  return id === undefined ? [] : [id];
}
