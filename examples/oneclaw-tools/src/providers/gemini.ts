import type { Part, Tool } from "@google/genai";
import type { Definition, ToolResult } from "../tool.ts";

/** Gemini takes a JSON Schema as it is under this name. Its own form of schemas lacks `additionalProperties`. */
export function toGemini(definitions: readonly Definition[]): Tool[] {
  const declare = ({ name, description, parameters }: Definition) => ({ name, description, parametersJsonSchema: parameters });
  return [{ functionDeclarations: definitions.map(declare) }];
}

/** @param id of the function call, if it has one. */
export function toGeminiResult(id: string | undefined, name: string, result: ToolResult): Part {
  const { status, ...rest } = result;
  const response = status === "success" ? { output: result.result } : { error: rest };
  return { functionResponse: { ...(id === undefined ? {} : { id }), name, response } };
}
