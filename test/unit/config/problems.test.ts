import { describe, expect, it } from "vitest";
import { type Environment, loadConfig, readCommandLine } from "../../../src/config/load.ts";
import { OPTIONS } from "../../../src/config/options.ts";

/** The problems of a command line in front of a command, and an environment; there is no configuration where there is one. */
function problems(argv: readonly string[], variables: Environment = {}): readonly string[] {
  const environment = Object.fromEntries(Object.entries(variables).map(([name, value]) => [`CLAW_MCP_STDIO_${name}`, value]));
  const result = loadConfig(readCommandLine([...argv, "--", "server"]), environment);
  expect(result.config === undefined).toBe(result.problems.length > 0);
  return result.problems;
}

const PORT_ALLOWED = "allowed is a whole number from 1 to 65535, with or without a colon before it";
const MS_ALLOWED = "allowed is a whole number from 1 to 2147483647";
const ADDR_ALLOWED = "allowed is host:port, [ipv6]:port or :port, with a port up to 65535";
const ARGS_ALLOWED = 'allowed is a JSON array of strings without NUL, for example ["-y","some-mcp"]';
const ORIGINS_ALLOWED =
  "allowed is *, or scheme://host or scheme://host:port, several separated by commas, international names in punycode";
const HOSTS_ALLOWED =
  "allowed is host or host:port, several separated by commas, IPv6 addresses in brackets, international names in punycode";
const PATH_ALLOWED = "allowed is a path that starts with / and has no query, other than /livez, /readyz, /healthz, /status";

describe("a wrong configuration", () => {
  it("is reported whole: every problem at once, each with the option, the value got and what is allowed", () => {
    const argv = ["--prot", "--max-sessions=-1", "--path", "mcp", "--log-level="];
    expect(problems(argv, { ARGS: "-y", ADDR: "8080", PORT: "http", REQUEST_TIMEOUT_MS: "1.5", AUTH_TOKEN: "two words" })).toEqual([
      "--prot: no such option; see --help",
      `CLAW_MCP_STDIO_ARGS: got a value (not shown): it is not JSON (character 1: [ is expected), ${ARGS_ALLOWED}`,
      `CLAW_MCP_STDIO_ADDR: got "8080", ${ADDR_ALLOWED}`,
      `CLAW_MCP_STDIO_PORT: got "http", ${PORT_ALLOWED}`,
      `--path: got "mcp", ${PATH_ALLOWED}`,
      "CLAW_MCP_STDIO_AUTH_TOKEN: got a value (not shown), allowed is visible ASCII characters without spaces",
      `CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS: got "1.5", ${MS_ALLOWED}`,
      '--max-sessions: got "-1", allowed is a whole number from 1 to 10000000',
      "--log-level: got nothing, allowed is one of silent, error, warn, info, debug",
    ]);
  });

  it("is one origin or host among others that is none", () => {
    const variables = { ALLOWED_ORIGINS: "https://app.example,null", ALLOWED_HOSTS: "mcp.example,http://mcp.example" };
    expect(problems(["--port=x"], variables)).toEqual([
      `--port: got "x", ${PORT_ALLOWED}`,
      `CLAW_MCP_STDIO_ALLOWED_ORIGINS: got "https://app.example,null", ${ORIGINS_ALLOWED}`,
      `CLAW_MCP_STDIO_ALLOWED_HOSTS: got "mcp.example,http://mcp.example", ${HOSTS_ALLOWED}`,
    ]);
  });

  it.each(["/sse", "/sse/", "/messages", "/messages/", "/SSE", "/%73se", "//messages"])(
    "is the path %s for the endpoint where HTTP+SSE is offered",
    (path) => {
      const allowed = "allowed is any path but /sse and /messages, which LEGACY_SSE has";
      expect(problems(["--legacy-sse", "on", "--path", path])).toEqual([`--path: got "${path}", ${allowed}`]);
      expect(problems([], { LEGACY_SSE: "on", PATH: path })).toEqual([`CLAW_MCP_STDIO_PATH: got "${path}", ${allowed}`]);
      expect(problems([], { LEGACY_SSE: "off", PATH: path })).toEqual([]);
    },
  );

  it("is an isolation that is none of the three", () => {
    expect(problems(["--isolation", "private"], { ISOLATION: "auto" })).toEqual([
      '--isolation: got "private", allowed is one of auto, shared, session',
    ]);
    expect(problems([], { ISOLATION: "Session" })).toEqual([
      'CLAW_MCP_STDIO_ISOLATION: got "Session", allowed is one of auto, shared, session',
    ]);
  });

  it("is one without a command, unless none is needed", () => {
    const message =
      "CLAW_MCP_STDIO_COMMAND: got nothing, allowed is the executable to run; or give the command behind the options: -- npx -y some-mcp";
    expect(loadConfig(readCommandLine([]), {}).problems).toEqual([message]);
    expect(loadConfig(readCommandLine(["--", ""]), {}).problems).toEqual([message]);
    expect(loadConfig(readCommandLine([]), { CLAW_MCP_STDIO_COMMAND: "" }).problems).toEqual([message]);
    expect(loadConfig(readCommandLine([]), {}, false)).toMatchObject({ problems: [], config: { command: "", port: 8080 } });
  });

  it("is less than the least, or one more than the greatest, of any number", () => {
    const numbers = Object.values(OPTIONS).filter(({ placeholder }) => ["MS", "BYTES", "N"].includes(placeholder));
    expect(numbers.map(({ variable }) => variable)).toEqual([
      "CLAW_MCP_STDIO_READY_TIMEOUT_MS",
      "CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS",
      "CLAW_MCP_STDIO_STREAM_AFTER_MS",
      "CLAW_MCP_STDIO_KEEP_ALIVE_MS",
      "CLAW_MCP_STDIO_HEADERS_TIMEOUT_MS",
      "CLAW_MCP_STDIO_BODY_TIMEOUT_MS",
      "CLAW_MCP_STDIO_READER_TIMEOUT_MS",
      "CLAW_MCP_STDIO_MAX_SESSIONS",
      "CLAW_MCP_STDIO_SESSIONS_PER_MINUTE",
      "CLAW_MCP_STDIO_MAX_PRIVATE_SERVERS",
      "CLAW_MCP_STDIO_SESSION_IDLE_TIMEOUT_MS",
      "CLAW_MCP_STDIO_RESTART_BACKOFF_MS",
      "CLAW_MCP_STDIO_RESTART_MAX_MS",
      "CLAW_MCP_STDIO_HOLD_TIMEOUT_MS",
      "CLAW_MCP_STDIO_DRAIN_TIMEOUT_MS",
      "CLAW_MCP_STDIO_CRASH_LOOP_EXITS",
      "CLAW_MCP_STDIO_CRASH_LOOP_PERIOD_MS",
      "CLAW_MCP_STDIO_RESTART_LIMIT",
      "CLAW_MCP_STDIO_PING_INTERVAL_MS",
      "CLAW_MCP_STDIO_HUNG_TIMEOUTS",
      "CLAW_MCP_STDIO_SESSION_CALLS_PER_MINUTE",
      "CLAW_MCP_STDIO_MAX_RESULT_BYTES",
      "CLAW_MCP_STDIO_MAX_BODY_BYTES",
      "CLAW_MCP_STDIO_MAX_LINE_BYTES",
      "CLAW_MCP_STDIO_MAX_IN_FLIGHT",
      "CLAW_MCP_STDIO_MAX_SESSION_REQUESTS",
      "CLAW_MCP_STDIO_MAX_HELD_REQUESTS",
      "CLAW_MCP_STDIO_MAX_QUEUED_BYTES",
      "CLAW_MCP_STDIO_REPLAY_MAX_BYTES",
      "CLAW_MCP_STDIO_REPLAY_MAX_AGE_MS",
      "CLAW_MCP_STDIO_REPLAY_MAX_EVENTS",
    ]);
    const command = readCommandLine(["server"]);
    for (const { variable } of numbers) {
      const [problem = ""] = loadConfig(command, { [variable]: "0" }).problems;
      const [, least = "", greatest = ""] =
        /^CLAW_MCP_STDIO_\w+: got "0", allowed is a whole number from (\d+) to (\d+)$/.exec(problem) ?? [];
      for (const number of [String(Number(least) - 1), String(Number(greatest) + 1)]) {
        expect(loadConfig(command, { [variable]: number }).problems).toEqual([
          `${variable}: got "${number}", allowed is a whole number from ${least} to ${greatest}`,
        ]);
      }
    }
  });

  it("is a working directory that is none", () => {
    expect(problems(["--cwd", "/no/such/directory"])).toEqual(['--cwd: got "/no/such/directory", allowed is an existing directory']);
    expect(problems([], { CWD: import.meta.filename })).toEqual([
      `CLAW_MCP_STDIO_CWD: got ${JSON.stringify(import.meta.filename)}, allowed is an existing directory`,
    ]);
  });

  it("is a working directory that the system will not even look at", () => {
    const tooLong = `/${"x".repeat(5000)}`;
    expect(problems([], { CWD: tooLong })).toEqual([`CLAW_MCP_STDIO_CWD: got "${tooLong}", allowed is an existing directory`]);
  });

  it("is a first pause that is longer than the longest, where both are given", () => {
    expect(problems([], { RESTART_BACKOFF_MS: "500", RESTART_MAX_MS: "400" })).toEqual([
      "CLAW_MCP_STDIO_RESTART_BACKOFF_MS: got 500, allowed is at most RESTART_MAX_MS (400)",
    ]);
    expect(problems(["--restart-backoff-ms", "500", "--restart-max-ms", "400"])).toEqual([
      "--restart-backoff-ms: got 500, allowed is at most RESTART_MAX_MS (400)",
    ]);
    expect(problems([], { RESTART_BACKOFF_MS: "400", RESTART_MAX_MS: "400" })).toEqual([]);
  });

  it("is only named once where it makes a comparison impossible", () => {
    expect(problems([], { RESTART_BACKOFF_MS: "500", RESTART_MAX_MS: "0" })).toEqual([
      `CLAW_MCP_STDIO_RESTART_MAX_MS: got "0", ${MS_ALLOWED}`,
    ]);
  });

  it("never shows a token", () => {
    for (const [argv, variables] of [
      [["--auth-token", "tök en"], {}],
      [[], { AUTH_TOKEN: "tök en" }],
    ] as const) {
      const [problem = ""] = problems(argv, variables);
      expect(problem).toContain("got a value (not shown)");
      expect(problem).not.toContain("tök");
    }
  });

  it("never shows arguments, the password in a URL, or a possible token in place of a file", () => {
    const found = [
      ...problems([], { ARGS: '["--api-key","s3cret",]' }),
      ...problems([], { ARGS: '{"s3cret":1}' }),
      ...problems([], { ALLOWED_ORIGINS: "https://me:s3cret@app.example", ALLOWED_HOSTS: "me:s3cret@app.example" }),
      ...problems([], { AUTH_TOKEN_FILE: "s3cret" }),
    ];
    expect(found).toHaveLength(5);
    for (const problem of found) {
      expect(problem).toContain("got a value (not shown)");
      expect(problem).not.toContain("s3cret");
    }
  });

  it("is an option without its value", () => {
    expect(problems(["--port="])).toEqual([`--port: got nothing, ${PORT_ALLOWED}`]);
    expect(loadConfig(readCommandLine(["--port"]), { CLAW_MCP_STDIO_COMMAND: "server" }).problems).toEqual([
      `--port: got nothing, ${PORT_ALLOWED}`,
    ]);
  });

  it.each(["--path", "--auth-token"])("is an option in place of the value of %s", (flag) => {
    const { problems: found } = loadConfig(readCommandLine([flag, "--port", "9000", "server"]), {});
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(new RegExp(`^${flag}: got nothing, allowed is `));
    expect(loadConfig(readCommandLine(["--auth-token=--port", "server"]), {}).config?.authToken).toBe("--port");
  });
});
