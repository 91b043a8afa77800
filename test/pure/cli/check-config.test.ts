import { expect, it } from "vitest";
import { effectiveConfigJson, effectiveConfigText } from "../../../src/cli/check-config.ts";
import { readCommandLine } from "../../../src/config/command-line.ts";
import { type Environment, loadConfig } from "../../../src/config/load.ts";
import { ALL_OPTIONS } from "../../../src/config/options.ts";
import { Secrets } from "../../../src/observe/redact.ts";

const SECRETS = new Secrets({ MY_API_KEY: "from-the-environment" });

function shown(argv: readonly string[], environment: Environment = {}): { readonly json: string; readonly text: string } {
  const { config, given, problems } = loadConfig(readCommandLine(argv), environment);
  if (config === undefined) throw new Error(problems.join("\n"));
  return { json: effectiveConfigJson(config, SECRETS), text: effectiveConfigText(config, given, SECRETS) };
}

/** Returns the lines of --check-config, by the name of the option without the prefix. */
function table(argv: readonly string[], environment: Environment = {}): Record<string, string> {
  const lines = shown(argv, environment).text.matchAll(/^ {2}CLAW_MCP_STDIO_(\w+) = (.*)$/gm);
  return Object.fromEntries(Array.from(lines, ([, name = "", rest = ""]) => [name, rest]));
}

it("the whole configuration is printed as JSON", () => {
  const argv = ["--addr", "127.0.0.1:9000", "--log-level", "warn", "--", "npx", "-y", "some-mcp"];
  const { config } = loadConfig(readCommandLine(argv), {});
  // Members that are undefined are not printed, and neither are the lists of tokens and keys.
  expect(JSON.parse(shown(argv).json)).toEqual(JSON.parse(JSON.stringify({ ...config, authTokens: undefined, sessionKeys: undefined })));
});

it("each option has a line for people, with its value and its source", () => {
  const argv = ["--port", "9000", "--modern=off", "--read-only", "--", "npx", "-y", "some mcp"];
  const lines = table(argv, { CLAW_MCP_STDIO_PATH: "/custom", CLAW_MCP_STDIO_ALLOW_TOOLS: "a,b*" });
  expect(Object.keys(lines)).toHaveLength(ALL_OPTIONS.length);
  expect(lines).toMatchObject({
    COMMAND: "npx  (command line)",
    ARGS: '["-y","some mcp"]  (command line)',
    PORT: "9000  (--port)",
    ADDR: "127.0.0.1:9000  (from --port)",
    READ_ONLY: "on  (--read-only)",
    ALLOW_TOOLS: "a,b*  (CLAW_MCP_STDIO_ALLOW_TOOLS)",
    REQUEST_TIMEOUT_MS: "60000  (default)",
    DESCRIPTOR: "not set  (default)",
  });
  expect(table(["--memory-budget-bytes", "4194304", "--max-line-bytes", "4000000", "--", "server"])).toMatchObject({
    MAX_LINE_BYTES: "1048576  (--max-line-bytes, lowered by MEMORY_BUDGET_BYTES)",
    REPLAY_MAX_BYTES: "1048576  (default, lowered by MEMORY_BUDGET_BYTES)",
  });
});

it.each([
  [["--addr", "[::1]:9000"], {}, { ADDR: "[::1]:9000  (--addr)", HOST: "::1  (from --addr)", PORT: "9000  (from --addr)" }],
  [["--port", "9000"], { CLAW_MCP_STDIO_ADDR: ":8000" }, { ADDR: ":9000  (CLAW_MCP_STDIO_ADDR)", PORT: "9000  (--port)" }],
  [[], { CLAW_MCP_STDIO_PORT: "9000" }, { ADDR: "127.0.0.1:9000  (from CLAW_MCP_STDIO_PORT)", PORT: "9000  (CLAW_MCP_STDIO_PORT)" }],
  [["--host", "*"], { CLAW_MCP_STDIO_PORT: "9" }, { ADDR: ":9  (from --host and CLAW_MCP_STDIO_PORT)", HOST: "*  (--host)" }],
  [[], {}, { ADDR: "127.0.0.1:8080  (default)", HOST: "127.0.0.1  (default)", PORT: "8080  (default)" }],
])("the address and the port of %j and %j name their source", (argv, environment, expected) => {
  expect(table([...argv, "--", "server"], environment)).toMatchObject(expected);
});

it.each([
  [["--api-key", "s3cret", "--verbose"], '["--api-key","***","--verbose"]'],
  [["--api-key=s3cret", "dir"], '["--api-key=***","dir"]'],
  [["--password=three secret words"], '["--password=***"]'],
  [["-e", "GITHUB_TOKEN=s3cret", "image"], '["-e","GITHUB_TOKEN=***","image"]'],
  [["--header", "X-API-Key: s3cret"], '["--header","X-API-Key: ***"]'],
  [["https://example.com/mcp?apiKey=s3cret"], '["https://example.com/mcp?apiKey=***"]'],
  [["postgresql://user:s3cret@db:5432/app"], '["postgresql://user:***@db:5432/app"]'],
  [["from-the-environment"], '["***"]'],
  [["--password", "--user", "me", "--path=/data", "a=b"], '["--password","--user","me","--path=/data","a=b"]'],
])("secrets among the arguments %j are masked", (given, expected) => {
  const argv = ["--", "server", ...given];
  expect(table(argv)["ARGS"]).toBe(`${expected}  (command line)`);
  expect(JSON.stringify((JSON.parse(shown(argv).json) as { args: unknown }).args)).toBe(expected);
});
