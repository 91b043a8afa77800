import { shorten } from "../../json/text.ts";

/**
 * Returns the result of a call that is not sent, for a model that can correct itself.
 *
 * @param problems one line a field.
 * @returns the JSON text of a CallToolResult with `isError` (MCP 2025-11-25, server/tools, error handling).
 */
export function invalidArgumentsResult(toolName: string, problems: readonly string[]): string {
  const tool = JSON.stringify(shorten(toolName));
  const text = [
    `INVALID_ARGS: the arguments do not match the input schema of the tool ${tool}. The call was not sent to the server.`,
    ...problems.map((problem) => `- ${problem}`),
    "Correct the arguments and call the tool again.",
  ].join("\n");
  return JSON.stringify({ content: [{ type: "text", text }], isError: true });
}
