import { describe, expect, it } from "vitest";
import { ALL_OPTIONS } from "../../src/config/options.ts";
import { readCommandLine } from "../../src/config/command-line.ts";
import { loadConfig } from "../../src/config/load.ts";
import { codeSpans, readDocument, tableAfter } from "../support/markdown.ts";

const MIGRATION = readDocument("docs/MIGRATION.md");

describe("docs/MIGRATION.md", () => {
  it.each(["supergateway", "mcp-proxy"])("replaces options of %s by command lines that the program accepts", (peer) => {
    const cells = tableAfter(MIGRATION, `| ${peer} | here |`).map(([, here = "", note = ""]) => `${here} ${note}`);
    const commandLines = codeSpans({ ...MIGRATION, prose: cells.join("\n") }).filter((span) => span.startsWith("--") && span !== "--");
    expect(commandLines.length).toBeGreaterThan(5);
    for (const commandLine of commandLines) {
      // A shell expands these characters unless they are quoted.
      expect(commandLine.replaceAll(/'[^']*'/g, "")).not.toMatch(/[*?$"]/);
      const words = commandLine.replaceAll("'", "").split(" ");
      const { problems, unknownVariables } = loadConfig(readCommandLine([...words, "--", "server"]), {});
      expect({ commandLine, problems, unknownVariables }).toEqual({ commandLine, problems: [], unknownVariables: [] });
    }
  });

  it("names only variables that exist", () => {
    const known = new Set<string>(ALL_OPTIONS.map(({ variable }) => variable));
    const named = MIGRATION.text.match(/CLAW_MCP_STDIO_[A-Z]\w*/g) ?? [];
    expect(named.filter((variable) => !known.has(variable))).toEqual([]);
  });
});
