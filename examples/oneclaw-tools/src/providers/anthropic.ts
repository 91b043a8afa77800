import type { Tool, ToolResultBlockParam } from "@anthropic-ai/sdk/resources/messages";
import type { Definition, ToolResult } from "../tool.ts";

export function toAnthropic(definitions: readonly Definition[]): Tool[] {
  return definitions.map(({ name, description, parameters }) => ({ name, description, input_schema: { ...parameters } }));
}

/** @param id of the block `tool_use`. */
export function toAnthropicResult(id: string, result: ToolResult): ToolResultBlockParam {
  return { type: "tool_result", tool_use_id: id, content: JSON.stringify(result), is_error: result.status === "error" };
}
