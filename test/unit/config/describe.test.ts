import { describe, expect, it } from "vitest";
import { ALL_OPTIONS, effectiveConfigText, flagUsage, helpText } from "../../../src/config/describe.ts";
import { Secrets } from "../../../src/observability/redact.ts";
import { loadConfig, readCommandLine } from "../../../src/config/load.ts";
import { OPTION_GROUPS } from "../../../src/config/option.ts";
import { OPTIONS } from "../../../src/config/options.ts";

/** Returns the output of --check-config for this command line. */
function effective(...argv: readonly string[]): Record<string, unknown> {
  const { config } = loadConfig(readCommandLine(argv), {});
  if (config === undefined) throw new Error("no configuration");
  return JSON.parse(effectiveConfigText(config, new Secrets({ MY_API_KEY: "from-the-environment" }))) as Record<string, unknown>;
}

describe("the help text", () => {
  it("the help shows flag, variable, default and purpose of every option in its group", () => {
    expect(ALL_OPTIONS).toEqual(Object.values(OPTIONS));
    for (const option of ALL_OPTIONS) {
      const { group, flag, variable, defaultText, description } = option;
      const [, section = ""] = helpText().split(`\n${group}:\n`);
      const notes = [flag === undefined ? "" : variable, defaultText === undefined ? "" : `default ${defaultText}`].filter(
        (note) => note !== "",
      );
      const entry = `  ${flagUsage(option) ?? variable}\n      ${description}${notes.length === 0 ? "" : ` [${notes.join(", ")}]`}\n`;
      const [ownSection = ""] = section.split("\n\n");
      const unwrapped = ownSection.replaceAll(/(?<=\n {6}\S.*)\n {6}/g, " ");
      expect(`${unwrapped}\n`).toContain(entry);
    }
  });

  it("no line of the help is longer than 100 columns", () => {
    expect(
      helpText()
        .split("\n")
        .filter((line) => line.length > 100),
    ).toEqual([]);
  });

  it("a flag is shown in a form that the command line reads back", () => {
    expect([OPTIONS.path, OPTIONS.readOnly, OPTIONS.command].map(flagUsage)).toEqual(["--path PATH", "--read-only[=on|off]", undefined]);
    for (const option of ALL_OPTIONS.filter(({ flag }) => flag !== undefined)) {
      const words = (flagUsage(option) ?? "").replace(/\[(.*)\]$/, "$1").split(" ");
      expect([option.variable, readCommandLine([...words, "server"]).rest]).toEqual([option.variable, ["server"]]);
    }
  });

  it("the groups are shown in order, each once", () => {
    const headings = helpText()
      .split("\n")
      .filter((line) => (OPTION_GROUPS as readonly string[]).includes(line.slice(0, -1)));
    expect(headings).toEqual(OPTION_GROUPS.map((group) => `${group}:`));
  });

  it("the help names all other words of the command line, and the exit codes", () => {
    for (const word of ["-h, --help", "--version", "--check-config", "healthcheck", "-healthcheck", "126", "127"])
      expect(helpText()).toContain(word);
  });

  it("each default passes the check of its own option", () => {
    for (const { kind, defaultText, variable } of ALL_OPTIONS) {
      expect([variable, defaultText === undefined || kind.parse(defaultText) !== undefined]).toEqual([variable, true]);
    }
  });
});

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

describe("the effective configuration", () => {
  it("the whole configuration is printed as JSON", () => {
    const argv = ["--addr", "127.0.0.1:9000", "--log-level", "warn", "--", "npx", "-y", "some-mcp"];
    const { config } = loadConfig(readCommandLine(argv), {});
    // Members that are undefined are not printed, and neither is the list of tokens.
    expect(effective(...argv)).toEqual(JSON.parse(JSON.stringify({ ...config, authTokens: undefined })));
  });

  it("the token is masked, but shown to exist", () => {
    const { config } = loadConfig(readCommandLine(["--auth-token", "s3cret-token", "server"]), {});
    if (config === undefined) throw new Error("no configuration");
    const text = effectiveConfigText(config, new Secrets({ MY_API_KEY: "from-the-environment" }));
    expect(text).toContain('"authToken": "***"');
    expect(text).not.toContain("s3cret");
  });

  it.each([
    [
      ["--api-key", "s3cret", "--verbose"],
      ["--api-key", "***", "--verbose"],
    ],
    [
      ["--api-key=s3cret", "dir"],
      ["--api-key=***", "dir"],
    ],
    [["--token=a=b"], ["--token=***"]],
    [["--password=three secret words"], ["--password=***"]],
    [
      ["-e", "GITHUB_TOKEN=s3cret", "image"],
      ["-e", "GITHUB_TOKEN=***", "image"],
    ],
    [
      ["--header", "X-API-Key: s3cret"],
      ["--header", "X-API-Key: ***"],
    ],
    [["--header=X-API-Key: s3cret"], ["--header=X-API-Key: ***"]],
    [["https://example.com/mcp?apiKey=s3cret"], ["https://example.com/mcp?apiKey=***"]],
    [
      ["--password", "--user", "me"],
      ["--password", "--user", "me"],
    ],
    [
      ["--path=/data", "--name", "x", "a=b"],
      ["--path=/data", "--name", "x", "a=b"],
    ],
  ])("secrets among the arguments %j are masked", (given, shown) => {
    expect(effective("--", "server", ...given)["args"]).toEqual(shown);
  });

  it("credentials in a header among the arguments are masked", () => {
    const text = JSON.stringify(effective("--", "mcp-remote", "https://example.com/mcp", "--header", "Authorization: Bearer s3cret"));
    expect(text).toContain("https://example.com/mcp");
    expect(text).not.toContain("s3cret");
  });

  it("a password in a URL among the arguments is masked", () => {
    const text = JSON.stringify(effective("--", "server-postgres", "postgresql://user:s3cret@db:5432/app"));
    expect(text).toContain("@db:5432/app");
    expect(text).not.toContain("s3cret");
  });
});
