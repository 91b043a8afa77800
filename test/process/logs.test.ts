import { expect, it } from "vitest";
import { runMain } from "../support/sidecar.ts";

async function levelsOf(level: string): Promise<{ readonly code: number | null; readonly levels: readonly unknown[] }> {
  const args = ["--addr", "127.0.0.1:0", "--log-level", level, "--restart-limit", "1", "--restart-backoff-ms", "1", "--", "false"];
  const { code, stdout, stderr } = await runMain(args, { CLAW_MCP_STDIO_UNKNOWN: "x" });
  expect(stderr).toBe("");
  const lines = stdout.split("\n").filter((line) => line !== "");
  return { code, levels: [...new Set(lines.map((line) => (JSON.parse(line) as { level: string }).level))].toSorted() };
}

it.each([
  ["silent", []],
  ["error", ["error"]],
  ["warn", ["error", "warn"]],
  ["info", ["error", "info", "warn"]],
  ["debug", ["debug", "error", "info", "warn"]],
])("the level %s shows the levels %j", async (level, levels) => {
  expect(await levelsOf(level)).toEqual({ code: 1, levels });
});
