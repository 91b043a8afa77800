import type { ChatCompletionFunctionTool } from "openai/resources/chat/completions";
import type { Definition } from "../tool.ts";

/** The definitions have the parameters of OpenAI as they are. */
export function toOpenAi(definitions: readonly Definition[]): ChatCompletionFunctionTool[] {
  return definitions.map(({ name, description, parameters }) => ({ type: "function", function: { name, description, parameters } }));
}
