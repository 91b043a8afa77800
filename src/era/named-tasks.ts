import { findPath, stringOf } from "../json/find.ts";
import { SidecarError } from "../errors.ts";
import type { RequestMessage } from "../protocol/message.ts";
import { taskIdOf } from "./checks/request-check.ts";
import type { FoundResult } from "./results/found-result.ts";
import { readFilter } from "./subscriptions/subscription-filter.ts";

const TASK = '"task"';
const TASK_PATHS = [["taskId"], ["task", "taskId"]];

/** Returns the task that a result begins (MCP 2026-07-28, extension io.modelcontextprotocol/tasks); undefined if it begins none. */
export function createdTask({ text, result, resultType }: FoundResult): string | undefined {
  if (resultType === undefined || text.slice(resultType.start, resultType.end) !== TASK) return undefined;
  return stringOf(
    text,
    TASK_PATHS.map((path) => findPath(text, result.start, path)).find((span) => span !== undefined),
  );
}

/** Returns the tasks that a request names: in its `taskId`, or in the filter of a subscription. */
export function namedTasks(request: RequestMessage): string[] {
  const { method } = request;
  if (method === "subscriptions/listen") {
    const filter = readFilter(request);
    return filter instanceof SidecarError ? [] : [...filter.tasks];
  }
  const id = method.startsWith("tasks/") ? taskIdOf(request) : undefined;
  return id === undefined ? [] : [id];
}
