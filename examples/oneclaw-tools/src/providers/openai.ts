import type { ChatCompletionFunctionTool, ChatCompletionToolMessageParam } from "openai/resources/chat/completions";
import type { Definition, ToolResult } from "../tool.ts";

/** The definitions have the parameters of OpenAI as they are. */
export function toOpenAi(definitions: readonly Definition[]): ChatCompletionFunctionTool[] {
  return definitions.map(({ name, description, parameters }) => ({ type: "function", function: { name, description, parameters } }));
}

/** @param id of the call in `tool_calls`. */
export function toOpenAiResult(id: string, result: ToolResult): ChatCompletionToolMessageParam {
  return { role: "tool", tool_call_id: id, content: JSON.stringify(result) };
}
