import { tmpdir } from "node:os";
import { describe, expect, it } from "vitest";
import { ALL_OPTIONS } from "../../../src/config/options.ts";
import { readCommandLine } from "../../../src/config/command-line.ts";
import { type Config, type Environment, loadConfig, type LoadResult } from "../../../src/config/load.ts";

const KEY = "0123456789abcdef".repeat(2);

function load(argv: readonly string[], environment: Environment = {}): LoadResult {
  return loadConfig(readCommandLine(argv), environment);
}

function config(argv: readonly string[], environment: Environment = {}): Config {
  const result = load(argv, environment);
  expect(result.problems).toEqual([]);
  if (result.config === undefined) throw new Error("no configuration");
  return result.config;
}

function fieldOf(name: string): string {
  return name.toLowerCase().replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}

/** A text for each variable that is not a number from 1 on, and the value of its field. */
const VALUES: Readonly<Record<string, readonly [text: string, value: unknown]>> = {
  COMMAND: ["npx", "npx"],
  ARGS: ['["-y","some mcp",""]', ["-y", "some mcp", ""]],
  CWD: [tmpdir(), tmpdir()],
  ADMIN_ADDR: ["127.0.0.1:9002", { host: "127.0.0.1", port: 9002 }],
  METRICS: ["off", false],
  PAGE: ["off", false],
  HOST: ["10.0.0.5", "127.0.0.1"],
  PORT: [":9002", 9001],
  PATH: ["/other", "/other"],
  AUTH_TOKEN: ["t0ken", "t0ken"],
  AUTH_TOKEN_FILE: ["", undefined],
  REQUIRE_AUTH: ["on", true],
  SESSION_KEY: [`${KEY}, ${KEY}2`, [KEY, `${KEY}2`]],
  SESSION_KEY_FILE: ["", undefined],
  SERVER_NAME: ["weather", "weather"],
  ALLOWED_ORIGINS: ["https://App.example:443,http://localhost:5173", ["https://app.example", "http://localhost:5173"]],
  ALLOWED_HOSTS: ["Mcp.example,[::1]:8080", ["mcp.example", "[::1]:8080"]],
  MEMORY_BUDGET_BYTES: ["1048577", 1_048_577],
  ISOLATION: ["session", "session"],
  LEGACY_SSE: ["on", "on"],
  MODERN: ["off", "off"],
  CHILD_ERA: ["legacy", "legacy"],
  KEEP_TRYING: ["off", false],
  RETRY: ["read-only", "read-only"],
  ALLOW_TOOLS: ["search, read_*", ["search", "read_*"]],
  DENY_TOOLS: ["read_secret?", ["read_secret?"]],
  READ_ONLY: ["on", true],
  DESCRIPTOR: ["x.claw-describe.json", "x.claw-describe.json"],
  DESCRIPTOR_MODE: ["warn", "warn"],
  ARGUMENT_CHECK: ["enforce", "enforce"],
  TOOL_TIMEOUTS_MS: ["search=30", [{ pattern: "search", value: 30 }]],
  TOOL_CONCURRENCY: ["a_*=31,*=32", ["a_*", "*"].map((pattern, index) => ({ pattern, value: 31 + index }))],
  TOOL_CALLS_PER_MINUTE: ["search=33", [{ pattern: "search", value: 33 }]],
  MAX_RESULT_BYTES: ["1035", 1035],
  LOG_LEVEL: ["debug", "debug"],
  REQUEST_LOG: ["all", "all"],
};

describe("the configuration", () => {
  it("every variable is read, into the field of its name", () => {
    const environment: Record<string, string> = { CLAW_MCP_STDIO_ADDR: "127.0.0.1:9001" };
    const expected: Record<string, unknown> = { authTokens: ["t0ken"], sessionKeys: [KEY, `${KEY}2`] };
    for (const [index, { variable }] of ALL_OPTIONS.entries()) {
      const name = variable.replace("CLAW_MCP_STDIO_", "");
      if (name === "ADDR") continue;
      [environment[variable], expected[fieldOf(name)]] = VALUES[name] ?? [String(index + 1), index + 1];
    }
    expect(config([], environment)).toStrictEqual(expected);
  });

  it("the memory budget limits a body to a fifth, and lines and events to a quarter", () => {
    const budget = { CLAW_MCP_STDIO_MEMORY_BUDGET_BYTES: "10000003" };
    const given = config(["server"], budget);
    expect(given).toMatchObject({ maxBodyBytes: 2_000_000, maxLineBytes: 2_500_000, replayMaxBytes: 2_500_000 });
    expect(config(["server"], { ...budget, CLAW_MCP_STDIO_MAX_BODY_BYTES: "1999999" }).maxBodyBytes).toBe(1_999_999);
  });

  it("flags override variables", () => {
    const environment = { CLAW_MCP_STDIO_PATH: "/variable", CLAW_MCP_STDIO_LOG_LEVEL: "debug", CLAW_MCP_STDIO_MAX_SESSIONS: "many" };
    const given = config(["--path", "/flag", "--max-sessions=2", "server"], environment);
    expect(given).toMatchObject({ path: "/flag", maxSessions: 2, logLevel: "debug" });
  });

  it("command and arguments come from the command line or the environment, never mixed", () => {
    const environment = { CLAW_MCP_STDIO_COMMAND: "npx", CLAW_MCP_STDIO_ARGS: '["-y","other"]' };
    expect(config(["server"], environment)).toMatchObject({ command: "server", args: [] });
    const server = { command: "server", args: ["--port", "2"], port: 1 };
    expect(config(["--port", "1", "--", "server", "--port", "2"], environment)).toMatchObject(server);
    expect(config(["--port", "1"], environment)).toMatchObject({ command: "npx", args: ["-y", "other"] });
  });

  it.each([
    [{ RESTART_MAX_MS: "500" }, { restartBackoffMs: 500, restartMaxMs: 500 }],
    [{ RESTART_BACKOFF_MS: "20000" }, { restartBackoffMs: 20_000, restartMaxMs: 20_000 }],
    [{ RESTART_MAX_MS: "2000" }, { restartBackoffMs: 1000, restartMaxMs: 2000 }],
    [{ RESTART_BACKOFF_MS: "2000" }, { restartBackoffMs: 2000, restartMaxMs: 15_000 }],
  ])("the default of the other pause gives way to %j", (variables, expected) => {
    const environment = Object.fromEntries(Object.entries(variables).map(([name, value]) => [`CLAW_MCP_STDIO_${name}`, value]));
    expect(config(["server"], environment)).toMatchObject(expected);
  });

  it("flags of the sidecar after the command are named but not rejected", () => {
    const { flagsAfterCommand, problems } = load("--port 1 server --addr :2 --read-only=on --help --other -- --path".split(" "));
    expect(flagsAfterCommand.map((text) => text.split(":")[0])).toEqual(["--addr", "--read-only"]);
    expect(problems).toEqual([]);
  });
});

describe("the page", () => {
  it.each([
    [["--addr", "127.0.0.1:80"], true],
    [["--addr", "[::1]:80"], true],
    [[], true],
    [["--host", "*"], false],
    [["--addr", ":80"], false],
    [["--addr", "10.0.0.5:80"], false],
    [["--addr", ":80", "--admin-addr", "127.0.0.1:81"], true],
    [["--addr", "127.0.0.1:80", "--admin-addr", ":81"], false],
    [["--addr", "127.0.0.1:80", "--path", "/"], false],
    [["--addr", ":80", "--page", "on"], true],
  ])("%j sets it to %j: by default it is on if only this machine reaches its address", (flags, page) => {
    expect(config([...flags, "--", "server"], {})?.page).toBe(page);
  });
});

describe("the listen address", () => {
  it.each([
    [[], {}, { host: "127.0.0.1", port: 8080 }],
    [[], { HOST: "*" }, { host: undefined, port: 8080 }],
    [[], { HOST: "[::1]" }, { host: "::1", port: 8080 }],
    [[], { HOST: "*", ADDR: "127.0.0.1:9000" }, { host: "127.0.0.1", port: 9000 }],
    [["--host", "::"], { HOST: "*", ADDR: "127.0.0.1:9000" }, { host: "::", port: 9000 }],
    [["--host", "10.0.0.5", "--addr", ":9000"], {}, { host: undefined, port: 9000 }],
    [[], { ADDR: ":9000" }, { host: undefined, port: 9000 }],
    [[], { PORT: "9000" }, { host: "127.0.0.1", port: 9000 }],
    [[], { ADDR: "", PORT: "9000" }, { host: "127.0.0.1", port: 9000 }],
    [[], { ADDR: ":9001", PORT: "9000" }, { host: undefined, port: 9001 }],
    [["--port", "9002"], { ADDR: "127.0.0.1:9001", PORT: "9000" }, { host: "127.0.0.1", port: 9002 }],
    [["--addr", "[::]:9003"], { ADDR: "127.0.0.1:9001", PORT: "9000" }, { host: "::", port: 9003 }],
    [["--addr", ":9003", "--port", "9002"], {}, { host: undefined, port: 9003 }],
  ])("the flags %j and the variables %j give the address %j", (argv, variables, expected) => {
    const environment = Object.fromEntries(Object.entries(variables).map(([name, value]) => [`CLAW_MCP_STDIO_${name}`, value]));
    const { host, port } = config([...argv, "server"], environment);
    expect({ host, port }).toEqual(expected);
  });

  it("unknown variables of the sidecar are named with the likely spelling, if there is one", () => {
    const environment = { CLAW_MCP_STDIO_TIMEOUT: "5", CLAW_MCP_STDIO_PROT: "1", CLAW_MCP: "x", OTHER: "y" };
    const { unknownVariables, problems } = load(["server"], environment);
    expect(unknownVariables).toEqual(["CLAW_MCP_STDIO_TIMEOUT", "CLAW_MCP_STDIO_PROT; did you mean CLAW_MCP_STDIO_PORT?"]);
    expect(problems).toEqual([]);
  });
});
