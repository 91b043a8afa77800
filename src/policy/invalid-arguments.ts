import { shortened } from "./schema/value-path.ts";

const MAX_TOOL_NAME_LENGTH = 100;

/**
 * The result of a call that was not made, for a model that can correct itself.
 *
 * @param problems what is wrong, one line a field
 * @returns JSON of a CallToolResult with `isError` (MCP 2025-11-25, server/tools, error handling)
 */
export function invalidArgumentsResult(toolName: string, problems: readonly string[]): string {
  const text = [
    `INVALID_ARGS: the arguments do not fit the input schema of the tool ${JSON.stringify(shortened(toolName, MAX_TOOL_NAME_LENGTH))}. Nothing was sent to the server.`,
    ...problems.map((problem) => `- ${problem}`),
    "Correct this, and call the tool again.",
  ].join("\n");
  return JSON.stringify({ content: [{ type: "text", text }], isError: true });
}
