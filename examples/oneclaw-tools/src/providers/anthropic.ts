import type { Tool } from "@anthropic-ai/sdk/resources/messages";
import type { Definition } from "../tool.ts";

export function toAnthropic(definitions: readonly Definition[]): Tool[] {
  return definitions.map(({ name, description, parameters }) => ({ name, description, input_schema: { ...parameters } }));
}
