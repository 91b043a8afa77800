import { describe, expect, it } from "vitest";
import { helpText } from "../../../src/cli/help.ts";
import { readCommandLine } from "../../../src/config/command-line.ts";
import { flagUsage, OPTION_GROUPS } from "../../../src/config/option.ts";
import { ALL_OPTIONS, COMMON_OPTIONS, OPTIONS } from "../../../src/config/options.ts";

function fullHelp(): string {
  return helpText(undefined, true);
}

describe("the help text", () => {
  it("the help shows flag, variable, default and purpose of every option in its group", () => {
    for (const option of ALL_OPTIONS) {
      const { group, flag, variable, defaultText, description } = option;
      const [, section = ""] = fullHelp().split(`\n${group}:\n`);
      const notes = [flag === undefined ? "" : variable, defaultText === undefined ? "" : `default ${defaultText}`].filter(
        (note) => note !== "",
      );
      const entry = `  ${flagUsage(option) ?? variable}\n      ${description}${notes.length === 0 ? "" : ` [${notes.join(", ")}]`}\n`;
      const [ownSection = ""] = section.split("\n\n");
      const unwrapped = ownSection.replaceAll(/(?<=\n {6}\S.*)\n {6}/g, " ");
      expect(`${unwrapped}\n`).toContain(entry);
    }
  });

  it.each([undefined, 200, 100, 80, 60])("no line of the help is longer than a terminal of %s columns", (columns) => {
    for (const isFull of [true, false]) {
      const longest = helpText(columns, isFull)
        .split("\n")
        .filter((line) => line.length > Math.min(columns ?? 100, 100));
      expect(longest.filter((line) => /\S\s+\S/.test(line))).toEqual([]);
    }
  });

  it("the short help has the most used options, and leads to all others", () => {
    const short = helpText(undefined, false);
    for (const { variable } of COMMON_OPTIONS) expect(short).toContain(variable);
    expect(short).not.toContain("CLAW_MCP_STDIO_REPLAY_MAX_BYTES");
    expect(short).toContain("claw-mcp-stdio --help all");
    expect(short.split("\n").length).toBeLessThan(100);
  });

  it("a flag is shown in a form that the command line reads back", () => {
    expect([OPTIONS.path, OPTIONS.readOnly, OPTIONS.command].map(flagUsage)).toEqual(["--path PATH", "--read-only[=on|off]", undefined]);
    for (const option of ALL_OPTIONS.filter(({ flag }) => flag !== undefined)) {
      const words = (flagUsage(option) ?? "").replace(/\[(.*)\]$/, "$1").split(" ");
      expect([option.variable, readCommandLine([...words, "server"]).rest]).toEqual([option.variable, ["server"]]);
    }
  });

  it("the groups are shown in order, each once", () => {
    const headings = fullHelp()
      .split("\n")
      .filter((line) => (OPTION_GROUPS as readonly string[]).includes(line.slice(0, -1)));
    expect(headings).toEqual(OPTION_GROUPS.map((group) => `${group}:`));
  });

  it("the help names all other words of the command line, and the exit codes", () => {
    for (const word of [
      "-h, --help",
      "-v, --version",
      "--check-config",
      "[serve]",
      "healthcheck",
      "-healthcheck",
      "help [all | discover]",
      "126",
      "127",
    ])
      expect(fullHelp()).toContain(word);
  });

  it("each default passes the check of its own option", () => {
    for (const { kind, defaultText, variable } of ALL_OPTIONS) {
      expect([variable, defaultText === undefined || kind.parse(defaultText) !== undefined]).toEqual([variable, true]);
    }
  });
});
