import { describe, expect, it } from "vitest";
import { effectiveConfigJson, effectiveConfigText } from "../../../src/cli/check-config.ts";
import { readCommandLine } from "../../../src/config/command-line.ts";
import { type Environment, loadConfig } from "../../../src/config/load.ts";
import { ALL_OPTIONS } from "../../../src/config/options.ts";
import { Secrets } from "../../../src/observability/redact.ts";

/** Returns the output of --check-config=json for this command line. */
function effective(...argv: readonly string[]): Record<string, unknown> {
  const { config } = loadConfig(readCommandLine(argv), {});
  if (config === undefined) throw new Error("no configuration");
  return JSON.parse(effectiveConfigJson(config, new Secrets({ MY_API_KEY: "from-the-environment" }))) as Record<string, unknown>;
}

/** Returns the lines of --check-config, by the name of the option without the prefix. */
function table(argv: readonly string[], environment: Environment = {}): Record<string, string> {
  const { config, given, problems } = loadConfig(readCommandLine(argv), environment);
  if (config === undefined) throw new Error(problems.join("\n"));
  const text = effectiveConfigText({ config, given }, new Secrets({ MY_API_KEY: "from-the-environment" }));
  return Object.fromEntries([...text.matchAll(/^ {2}CLAW_MCP_STDIO_(\w+) = (.*)$/gm)].map(([, name = "", rest = ""]) => [name, rest]));
}

describe("the effective configuration as JSON", () => {
  it("the whole configuration is printed as JSON", () => {
    const argv = ["--addr", "127.0.0.1:9000", "--log-level", "warn", "--", "npx", "-y", "some-mcp"];
    const { config } = loadConfig(readCommandLine(argv), {});
    // Members that are undefined are not printed, and neither are the lists of tokens and keys.
    expect(effective(...argv)).toEqual(JSON.parse(JSON.stringify({ ...config, authTokens: undefined, sessionKeys: undefined })));
  });

  it("the token and the session key are masked, but shown to exist", () => {
    const keys = `${"s3cret-key".repeat(4)},${"other-s3cret-key".repeat(4)}`;
    const { config } = loadConfig(readCommandLine(["--auth-token", "s3cret-token", "--session-key", keys, "server"]), {});
    if (config === undefined) throw new Error("no configuration");
    const text = effectiveConfigJson(config, new Secrets({ MY_API_KEY: "from-the-environment" }));
    expect(text).toContain('"authToken": "***"');
    expect(text).toContain('"sessionKey": "***"');
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

describe("the effective configuration for people", () => {
  it("each option has a line with its value and its source", () => {
    const argv = ["--port", "9000", "--modern=off", "--read-only", "--", "npx", "-y", "some mcp"];
    const environment = { CLAW_MCP_STDIO_PATH: "/custom", CLAW_MCP_STDIO_ALLOW_TOOLS: "a,b*" };
    const shown = table(argv, environment);
    expect(Object.keys(shown)).toHaveLength(ALL_OPTIONS.length);
    expect(shown).toMatchObject({
      COMMAND: "npx  (command line)",
      ARGS: '["-y","some mcp"]  (command line)',
      PORT: "9000  (--port)",
      ADDR: "127.0.0.1:9000  (from --port)",
      MODERN: "off  (--modern)",
      READ_ONLY: "on  (--read-only)",
      PATH: "/custom  (CLAW_MCP_STDIO_PATH)",
      ALLOW_TOOLS: "a,b*  (CLAW_MCP_STDIO_ALLOW_TOOLS)",
      REQUEST_TIMEOUT_MS: "60000  (default)",
      DESCRIPTOR: "not set  (default)",
    });
  });

  it("a derived value is shown instead of the given one", () => {
    expect(table(["--memory-budget-bytes", "4194304", "--max-line-bytes", "4000000", "--", "server"])).toMatchObject({
      MAX_LINE_BYTES: "1048576  (--max-line-bytes, lowered by MEMORY_BUDGET_BYTES)",
      REPLAY_MAX_BYTES: "1048576  (default, lowered by MEMORY_BUDGET_BYTES)",
      MAX_SESSIONS: expect.stringMatching(/ \(default\)$/) as string,
    });
  });

  it.each([
    [["--addr", "[::1]:9000"], {}, { ADDR: "[::1]:9000  (--addr)", HOST: "::1  (from --addr)", PORT: "9000  (from --addr)" }],
    [["--addr", ":9000", "--port", "8000"], {}, { ADDR: ":9000  (--addr)", PORT: "9000  (from --addr)" }],
    [["--port", "9000"], { CLAW_MCP_STDIO_ADDR: ":8000" }, { ADDR: ":9000  (CLAW_MCP_STDIO_ADDR)", PORT: "9000  (--port)" }],
    [[], { CLAW_MCP_STDIO_PORT: "9000" }, { ADDR: "127.0.0.1:9000  (from CLAW_MCP_STDIO_PORT)", PORT: "9000  (CLAW_MCP_STDIO_PORT)" }],
    [["--host", "*"], { CLAW_MCP_STDIO_PORT: "9" }, { ADDR: ":9  (from --host and CLAW_MCP_STDIO_PORT)", HOST: "*  (--host)" }],
    [[], {}, { ADDR: "127.0.0.1:8080  (default)", HOST: "127.0.0.1  (default)", PORT: "8080  (default)" }],
  ])("the address and the port of %j and %j name their source", (argv, environment, shown) => {
    expect(table([...argv, "--", "server"], environment)).toMatchObject(shown);
  });

  it("secrets are masked", () => {
    const shown = table(["--auth-token", "s3cret-token", "--cwd", "/", "--", "server", "--api-key", "s3cret", "from-the-environment"]);
    expect(shown).toMatchObject({ AUTH_TOKEN: "***  (--auth-token)", ARGS: '["--api-key","***","***"]  (command line)' });
    expect(JSON.stringify(shown)).not.toMatch(/s3cret|from-the-environment/);
  });
});
