import { shorten } from "../json/text.ts";

/**
 * The result of a call that was not made, for a model that can correct itself.
 *
 * @param problems what is wrong, one line a field
 * @returns JSON of a CallToolResult with `isError` (MCP 2025-11-25, server/tools, error handling)
 */
export function invalidArgumentsResult(toolName: string, problems: readonly string[]): string {
  const text = [
    `INVALID_ARGS: the arguments do not fit the input schema of the tool ${JSON.stringify(shorten(toolName))}. Nothing was sent to the server.`,
    ...problems.map((problem) => `- ${problem}`),
    "Correct this, and call the tool again.",
  ].join("\n");
  return JSON.stringify({ content: [{ type: "text", text }], isError: true });
}
