import { type ResponseMessage, Slot } from "../../protocol/message.ts";

/** True if the request continues as a task after this response (MCP 2025-11-25, schema, CreateTaskResult; 2026-07-28, extension tasks). */
export function isCreateTaskResult({ outline }: ResponseMessage): boolean {
  if (outline.firstAt(Slot.resultType) === '"' && outline.stringAt(Slot.resultType) === "task") return true;
  return outline.isObject(Slot.result) && outline.isObject(Slot.task) && outline.firstAt(Slot.taskId) === '"';
}
