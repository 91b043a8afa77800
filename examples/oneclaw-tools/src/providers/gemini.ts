import type { Tool } from "@google/genai";
import type { Definition } from "../tool.ts";

/** Gemini takes a JSON Schema as it is under this name. Its own form of schemas lacks `additionalProperties`. */
export function toGemini(definitions: readonly Definition[]): Tool[] {
  const declare = ({ name, description, parameters }: Definition) => ({ name, description, parametersJsonSchema: parameters });
  return [{ functionDeclarations: definitions.map(declare) }];
}
