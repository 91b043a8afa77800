import { describe, expect, it } from "vitest";
import { ALL_OPTIONS } from "../../../src/config/options.ts";

describe("options", () => {
  it("each flag is named like its variable", () => {
    for (const { flag, variable } of ALL_OPTIONS.filter((option) => option.flag !== undefined)) {
      expect(variable).toBe(`CLAW_MCP_STDIO_${flag?.toUpperCase().replaceAll("-", "_")}`);
    }
    expect(ALL_OPTIONS.filter(({ flag }) => flag === undefined).map(({ variable }) => variable)).toEqual([
      "CLAW_MCP_STDIO_COMMAND",
      "CLAW_MCP_STDIO_ARGS",
    ]);
  });

  it("each variable is unique", () => {
    expect(new Set(ALL_OPTIONS.map(({ variable }) => variable)).size).toBe(ALL_OPTIONS.length);
  });
});
