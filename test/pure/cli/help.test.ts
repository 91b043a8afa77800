import { expect, it } from "vitest";
import { helpText } from "../../../src/cli/help.ts";
import { readCommandLine } from "../../../src/config/command-line.ts";
import { flagUsage, type Option } from "../../../src/config/option.ts";
import { ALL_OPTIONS, COMMON_OPTIONS, OPTION_GROUPS } from "../../../src/config/options.ts";

it("the help shows flag, variable, default and purpose of every option in its group", () => {
  const options = Object.entries(OPTION_GROUPS).flatMap(([group, all]) =>
    Object.values<Option<unknown>>(all).map((option) => ({ group, option })),
  );
  for (const { group, option } of options) {
    const { flag, variable, defaultText, description } = option;
    const [, section = ""] = helpText(undefined, true).split(`\n${group}:\n`);
    const notes = [...(flag === undefined ? [] : [variable]), ...(defaultText === undefined ? [] : [`default ${defaultText}`])];
    const entry = `  ${flagUsage(option) ?? variable}\n      ${description}${notes.length === 0 ? "" : ` [${notes.join(", ")}]`}\n`;
    const [ownSection = ""] = section.split("\n\n");
    expect(`${ownSection.replaceAll(/(?<=\n {6}\S.*)\n {6}/g, " ")}\n`).toContain(entry);
  }
});

it.each([undefined, 200, 80, 60])("no line of the help is longer than a terminal of %s columns", (columns) => {
  const lines = [true, false].flatMap((isFull) => helpText(columns, isFull).split("\n"));
  expect(lines.filter((line) => line.length > Math.min(columns ?? 100, 100) && /\S\s+\S/.test(line))).toEqual([]);
});

it("the short help has the most used options, and leads to all others", () => {
  const short = helpText(undefined, false);
  for (const { variable } of COMMON_OPTIONS) expect(short).toContain(variable);
  expect(short).not.toContain("CLAW_MCP_STDIO_REPLAY_MAX_BYTES");
  expect(short).toContain("claw-mcp-stdio --help all");
});

it("a flag is shown in a form that the command line reads back", () => {
  for (const option of ALL_OPTIONS.filter(({ flag }) => flag !== undefined)) {
    const words = (flagUsage(option) ?? "").replace(/\[(.*)\]$/, "$1").split(" ");
    expect([option.variable, readCommandLine([...words, "server"]).rest]).toEqual([option.variable, ["server"]]);
  }
});
