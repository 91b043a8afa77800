import { expect, it } from "vitest";
import { readCommandLine } from "../../../src/config/command-line.ts";
import { type Environment, loadConfig } from "../../../src/config/load.ts";
import { ALL_OPTIONS } from "../../../src/config/options.ts";

function problems(argv: readonly string[], variables: Environment = {}): readonly string[] {
  const environment = Object.fromEntries(Object.entries(variables).map(([name, value]) => [`CLAW_MCP_STDIO_${name}`, value]));
  const result = loadConfig(readCommandLine([...argv, "--", "server"]), environment);
  expect(result.config === undefined).toBe(result.problems.length > 0);
  return result.problems;
}

const PORT_EXPECTED = "expected a whole number from 1 to 65535, with or without a colon before it";
const MS_EXPECTED = "expected a whole number from 1 to 2147483647";
const ADDR_EXPECTED = "expected host:port, [ipv6]:port or :port, with a port up to 65535";
const ARGS_EXPECTED = 'expected a JSON array of strings without NUL, for example ["-y","some-mcp"]';
const PATH_EXPECTED = "expected a path that starts with / and has no query, other than /livez, /readyz, /healthz, /status, /metrics";

it("all problems are reported at once, with the option, its value and the allowed values", () => {
  const argv = ["--prot", "--max-sessions=-1", "--path", "mcp", "--log-level="];
  expect(problems(argv, { ARGS: "-y", ADDR: "8080", PORT: "http", REQUEST_TIMEOUT_MS: "1.5", AUTH_TOKEN: "two words" })).toEqual([
    "--prot is not an option; did you mean --port?",
    `CLAW_MCP_STDIO_ARGS is not valid (value not shown): it is not JSON from character 1 on; ${ARGS_EXPECTED}`,
    `CLAW_MCP_STDIO_ADDR is "8080"; ${ADDR_EXPECTED}`,
    `CLAW_MCP_STDIO_PORT is "http"; ${PORT_EXPECTED}`,
    `--path is "mcp"; ${PATH_EXPECTED}`,
    "CLAW_MCP_STDIO_AUTH_TOKEN is not valid (value not shown); expected visible ASCII characters without spaces",
    `CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS is "1.5"; ${MS_EXPECTED}`,
    '--max-sessions is "-1"; expected a whole number from 1 to 10000000',
    "--log-level has no value; expected one of silent, error, warn, info, debug",
  ]);
});

it.each(["/sse", "/sse/", "/messages", "/messages/", "/SSE", "/%73se", "//messages"])(
  "the path %s is rejected if LEGACY_SSE is on",
  (path) => {
    const reason = "but LEGACY_SSE needs /sse and /messages";
    expect(problems(["--legacy-sse", "on", "--path", path])).toEqual([`--path is "${path}", ${reason}`]);
    expect(problems([], { LEGACY_SSE: "on", PATH: path })).toEqual([`CLAW_MCP_STDIO_PATH is "${path}", ${reason}`]);
    expect(problems([], { LEGACY_SSE: "off", PATH: path })).toEqual([]);
  },
);

it("CHILD_ERA=modern is rejected together with a setting by which the server gets initialize only", () => {
  const problem = (name: string, reason: string): string[] => [`${name} is modern, but ${reason}, so the server gets initialize only`];
  expect(problems(["--child-era", "modern", "--modern", "off"])).toEqual(problem("--child-era", "MODERN is off"));
  expect(problems(["--isolation", "session"], { CHILD_ERA: "modern" })).toEqual(
    problem("CLAW_MCP_STDIO_CHILD_ERA", "ISOLATION is session"),
  );
  for (const era of ["auto", "legacy"]) expect(problems(["--isolation", "session", "--modern", "off", "--child-era", era])).toEqual([]);
  expect(problems(["--isolation", "shared", "--modern", "on", "--child-era", "modern"])).toEqual([]);
});

it("a missing command is rejected, unless none is needed", () => {
  const message = "no command is given; put it after the options, as in -- npx -y some-mcp, or set CLAW_MCP_STDIO_COMMAND";
  expect(loadConfig(readCommandLine([]), {}).problems).toEqual([message]);
  expect(loadConfig(readCommandLine(["--", ""]), {}).problems).toEqual([message]);
  expect(loadConfig(readCommandLine([]), { CLAW_MCP_STDIO_COMMAND: "" }).problems).toEqual([message]);
  expect(loadConfig(readCommandLine([]), {}, false)).toMatchObject({ problems: [], config: { command: "", port: 8080 } });
});

it("a number one below its least or above its greatest value is rejected", () => {
  const numbers = ALL_OPTIONS.filter(({ kind }) => ["MS", "BYTES", "N"].includes(kind.placeholder));
  expect(numbers.length).toBeGreaterThan(30);
  const command = readCommandLine(["server"]);
  for (const { variable } of numbers) {
    const [problem = ""] = loadConfig(command, { [variable]: "-1" }).problems;
    const [, least = "", greatest = ""] = /^CLAW_MCP_STDIO_\w+ is "-1"; expected a whole number from (\d+) to (\d+)$/.exec(problem) ?? [];
    for (const number of [String(Number(least) - 1), String(Number(greatest) + 1)]) {
      expect(loadConfig(command, { [variable]: number }).problems).toEqual([
        `${variable} is "${number}"; expected a whole number from ${least} to ${greatest}`,
      ]);
    }
  }
});

it("a first backoff longer than the longest one is rejected", () => {
  expect(problems(["--restart-backoff-ms", "500", "--restart-max-ms", "400"])).toEqual([
    "--restart-backoff-ms (500) is greater than RESTART_MAX_MS (400)",
  ]);
  expect(problems([], { RESTART_BACKOFF_MS: "400", RESTART_MAX_MS: "400" })).toEqual([]);
});

it("arguments, passwords in URLs and possible tokens are never shown", () => {
  const found = [
    ...problems([], { ARGS: '["--api-key","s3cret",]' }),
    ...problems([], { ARGS: '{"s3cret":1}' }),
    ...problems([], { ALLOWED_ORIGINS: "https://me:s3cret@app.example", ALLOWED_HOSTS: "me:s3cret@app.example" }),
    ...problems([], { AUTH_TOKEN_FILE: "s3cret" }),
  ];
  expect(found).toHaveLength(5);
  for (const problem of found) expect(problem).toMatch(/is not valid \(value not shown\)(?!.*s3cret)/);
});

it("an option without its value is rejected", () => {
  expect(problems(["--port="])).toEqual([`--port has no value; ${PORT_EXPECTED}`]);
  expect(loadConfig(readCommandLine(["--port"]), { CLAW_MCP_STDIO_COMMAND: "server" }).problems).toEqual([
    `--port has no value; ${PORT_EXPECTED}`,
  ]);
});

it.each(["--path", "--auth-token"])("an option in place of the value of %s is rejected", (flag) => {
  const { problems: found } = loadConfig(readCommandLine([flag, "--port", "9000", "server"]), {});
  expect(found).toHaveLength(1);
  expect(found[0]).toBe(`${flag} has no value; a value that begins with a dash is written with an equals sign: ${flag}=VALUE`);
  expect(loadConfig(readCommandLine(["--auth-token=--port", "server"]), {}).config?.authToken).toBe("--port");
});
