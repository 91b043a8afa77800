import { tmpdir } from "node:os";
import { describe, expect, it } from "vitest";
import { largestBodyBytes } from "../../../src/memory/body-memory.ts";
import { defaultBudgetBytes } from "../../../src/memory/default-budget.ts";
import { ALL_OPTIONS } from "../../../src/config/options.ts";
import { readCommandLine } from "../../../src/config/command-line.ts";
import { type Config, type Environment, loadConfig, type LoadResult } from "../../../src/config/load.ts";

const KEY = "0123456789abcdef".repeat(2);

function load(argv: readonly string[], environment: Environment = {}): LoadResult {
  return loadConfig(readCommandLine(argv), environment);
}

/** Returns the configuration of a command line and an environment, which must not have problems. */
function config(argv: readonly string[], environment: Environment = {}): Config {
  const result = load(argv, environment);
  expect(result.problems).toEqual([]);
  if (result.config === undefined) throw new Error("no configuration");
  return result.config;
}

describe("the configuration", () => {
  const shareBytes = Math.floor(defaultBudgetBytes() / 4);

  it("a command is enough, and the defaults are those of the pod contract, on loopback", () => {
    expect(config([], { CLAW_MCP_STDIO_COMMAND: "server" })).toStrictEqual({
      command: "server",
      args: [],
      cwd: undefined,
      readyTimeoutMs: 60_000,
      host: "127.0.0.1",
      port: 8080,
      path: "/mcp",
      authToken: undefined,
      authTokens: [],
      authTokenFile: undefined,
      requireAuth: false,
      allowedOrigins: undefined,
      allowedHosts: undefined,
      requestTimeoutMs: 60_000,
      streamAfterMs: 10_000,
      keepAliveMs: 15_000,
      headersTimeoutMs: 10_000,
      bodyTimeoutMs: 60_000,
      readerTimeoutMs: 30_000,
      connectionIdleTimeoutMs: 120_000,
      maxConnections: 4096,
      maxConnectionsWithoutToken: 512,
      isolation: "auto",
      legacySse: "off",
      modern: "on",
      childEra: "auto",
      maxSessions: 10_000,
      sessionsPerMinute: undefined,
      sessionKey: undefined,
      sessionKeys: [],
      sessionKeyFile: undefined,
      serverName: "mcp",
      sessionMaxAgeMs: 604_800_000,
      preStopMs: 0,
      maxPrivateServers: 32,
      sessionIdleTimeoutMs: 600_000,
      parkTimeoutMs: 300_000,
      maxParkedCalls: 64,
      restartBackoffMs: 1000,
      restartMaxMs: 15_000,
      holdTimeoutMs: 20_000,
      drainTimeoutMs: 5000,
      crashLoopExits: 5,
      crashLoopPeriodMs: 60_000,
      keepTrying: undefined,
      restartLimit: undefined,
      pingIntervalMs: undefined,
      hungTimeouts: 3,
      retry: "protocol-reads",
      allowTools: undefined,
      denyTools: undefined,
      readOnly: false,
      descriptor: undefined,
      descriptorMode: "enforce",
      argumentCheck: "off",
      toolTimeoutsMs: undefined,
      toolConcurrency: undefined,
      toolCallsPerMinute: undefined,
      sessionCallsPerMinute: undefined,
      maxResultBytes: undefined,
      memoryBudgetBytes: defaultBudgetBytes(),
      maxBodyBytes: Math.min(4_194_304, largestBodyBytes(defaultBudgetBytes())),
      maxLineBytes: Math.min(67_108_864, shareBytes),
      maxInFlight: 1024,
      maxSessionRequests: 1024,
      maxHeldRequests: 256,
      maxQueuedBytes: 67_108_864,
      replayMaxBytes: Math.min(33_554_432, shareBytes),
      replayMaxAgeMs: 300_000,
      replayMaxEvents: 1000,
      logLevel: "info",
      requestLog: "errors",
      metrics: true,
      page: true,
      adminAddr: undefined,
    });
  });

  it("every variable is read", () => {
    const environment = {
      CLAW_MCP_STDIO_COMMAND: "npx",
      CLAW_MCP_STDIO_ARGS: '["-y","some mcp",""]',
      CLAW_MCP_STDIO_CWD: tmpdir(),
      CLAW_MCP_STDIO_READY_TIMEOUT_MS: "1",
      CLAW_MCP_STDIO_ADDR: "127.0.0.1:9001",
      CLAW_MCP_STDIO_ADMIN_ADDR: "127.0.0.1:9002",
      CLAW_MCP_STDIO_METRICS: "off",
      CLAW_MCP_STDIO_PAGE: "off",
      CLAW_MCP_STDIO_HOST: "10.0.0.5",
      CLAW_MCP_STDIO_PORT: ":9002",
      CLAW_MCP_STDIO_PATH: "/other",
      CLAW_MCP_STDIO_AUTH_TOKEN: "t0ken",
      // Not together with the token: see the tests of the token file.
      CLAW_MCP_STDIO_AUTH_TOKEN_FILE: "",
      CLAW_MCP_STDIO_REQUIRE_AUTH: "on",
      CLAW_MCP_STDIO_SESSION_KEY: `${KEY}, ${KEY}2`,
      // Not together with the keys: see the tests of the key file.
      CLAW_MCP_STDIO_SESSION_KEY_FILE: "",
      CLAW_MCP_STDIO_SERVER_NAME: "weather",
      CLAW_MCP_STDIO_SESSION_MAX_AGE_MS: "1029",
      CLAW_MCP_STDIO_PRE_STOP_MS: "2029",
      CLAW_MCP_STDIO_ALLOWED_ORIGINS: "https://App.example:443,http://localhost:5173",
      CLAW_MCP_STDIO_ALLOWED_HOSTS: "Mcp.example,[::1]:8080",
      CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS: "2",
      CLAW_MCP_STDIO_RESTART_BACKOFF_MS: "3",
      CLAW_MCP_STDIO_RESTART_MAX_MS: "4",
      CLAW_MCP_STDIO_HOLD_TIMEOUT_MS: "5",
      CLAW_MCP_STDIO_DRAIN_TIMEOUT_MS: "6",
      CLAW_MCP_STDIO_MEMORY_BUDGET_BYTES: "1048577",
      CLAW_MCP_STDIO_MAX_BODY_BYTES: "7",
      CLAW_MCP_STDIO_MAX_LINE_BYTES: "8",
      CLAW_MCP_STDIO_MAX_SESSIONS: "9",
      CLAW_MCP_STDIO_MAX_IN_FLIGHT: "10",
      CLAW_MCP_STDIO_MAX_HELD_REQUESTS: "11",
      CLAW_MCP_STDIO_MAX_QUEUED_BYTES: "12",
      CLAW_MCP_STDIO_STREAM_AFTER_MS: "13",
      CLAW_MCP_STDIO_KEEP_ALIVE_MS: "14",
      CLAW_MCP_STDIO_ISOLATION: "session",
      CLAW_MCP_STDIO_LEGACY_SSE: "on",
      CLAW_MCP_STDIO_MODERN: "off",
      CLAW_MCP_STDIO_CHILD_ERA: "legacy",
      CLAW_MCP_STDIO_MAX_PRIVATE_SERVERS: "15",
      CLAW_MCP_STDIO_SESSION_IDLE_TIMEOUT_MS: "16",
      CLAW_MCP_STDIO_PARK_TIMEOUT_MS: "1016",
      CLAW_MCP_STDIO_MAX_PARKED_CALLS: "2016",
      CLAW_MCP_STDIO_REPLAY_MAX_BYTES: "17",
      CLAW_MCP_STDIO_REPLAY_MAX_AGE_MS: "18",
      CLAW_MCP_STDIO_REPLAY_MAX_EVENTS: "19",
      CLAW_MCP_STDIO_HEADERS_TIMEOUT_MS: "20",
      CLAW_MCP_STDIO_BODY_TIMEOUT_MS: "21",
      CLAW_MCP_STDIO_READER_TIMEOUT_MS: "22",
      CLAW_MCP_STDIO_CONNECTION_IDLE_TIMEOUT_MS: "1022",
      CLAW_MCP_STDIO_MAX_CONNECTIONS: "2022",
      CLAW_MCP_STDIO_MAX_CONNECTIONS_WITHOUT_TOKEN: "3022",
      CLAW_MCP_STDIO_CRASH_LOOP_EXITS: "23",
      CLAW_MCP_STDIO_CRASH_LOOP_PERIOD_MS: "24",
      CLAW_MCP_STDIO_KEEP_TRYING: "off",
      CLAW_MCP_STDIO_RESTART_LIMIT: "25",
      CLAW_MCP_STDIO_PING_INTERVAL_MS: "26",
      CLAW_MCP_STDIO_HUNG_TIMEOUTS: "27",
      CLAW_MCP_STDIO_RETRY: "read-only",
      CLAW_MCP_STDIO_MAX_SESSION_REQUESTS: "28",
      CLAW_MCP_STDIO_SESSIONS_PER_MINUTE: "29",
      CLAW_MCP_STDIO_ALLOW_TOOLS: "search, read_*",
      CLAW_MCP_STDIO_DENY_TOOLS: "read_secret?",
      CLAW_MCP_STDIO_READ_ONLY: "on",
      CLAW_MCP_STDIO_DESCRIPTOR: "x.claw-describe.json",
      CLAW_MCP_STDIO_DESCRIPTOR_MODE: "warn",
      CLAW_MCP_STDIO_ARGUMENT_CHECK: "enforce",
      CLAW_MCP_STDIO_TOOL_TIMEOUTS_MS: "search=30",
      CLAW_MCP_STDIO_TOOL_CONCURRENCY: "browser_*=31,*=32",
      CLAW_MCP_STDIO_TOOL_CALLS_PER_MINUTE: "search=33",
      CLAW_MCP_STDIO_SESSION_CALLS_PER_MINUTE: "34",
      CLAW_MCP_STDIO_MAX_RESULT_BYTES: "1035",
      CLAW_MCP_STDIO_LOG_LEVEL: "debug",
      CLAW_MCP_STDIO_REQUEST_LOG: "all",
    };
    expect(Object.keys(environment).toSorted()).toEqual(ALL_OPTIONS.map(({ variable }) => variable).toSorted());
    expect(config([], environment)).toStrictEqual({
      command: "npx",
      args: ["-y", "some mcp", ""],
      cwd: tmpdir(),
      readyTimeoutMs: 1,
      host: "127.0.0.1",
      port: 9001,
      path: "/other",
      authToken: "t0ken",
      authTokenFile: undefined,
      authTokens: ["t0ken"],
      requireAuth: true,
      allowedOrigins: ["https://app.example", "http://localhost:5173"],
      allowedHosts: ["mcp.example", "[::1]:8080"],
      requestTimeoutMs: 2,
      restartBackoffMs: 3,
      restartMaxMs: 4,
      holdTimeoutMs: 5,
      drainTimeoutMs: 6,
      memoryBudgetBytes: 1_048_577,
      maxBodyBytes: 7,
      maxLineBytes: 8,
      maxSessions: 9,
      maxInFlight: 10,
      maxHeldRequests: 11,
      maxQueuedBytes: 12,
      streamAfterMs: 13,
      keepAliveMs: 14,
      isolation: "session",
      legacySse: "on",
      modern: "off",
      childEra: "legacy",
      maxPrivateServers: 15,
      sessionIdleTimeoutMs: 16,
      parkTimeoutMs: 1016,
      maxParkedCalls: 2016,
      replayMaxBytes: 17,
      replayMaxAgeMs: 18,
      replayMaxEvents: 19,
      headersTimeoutMs: 20,
      bodyTimeoutMs: 21,
      readerTimeoutMs: 22,
      connectionIdleTimeoutMs: 1022,
      maxConnections: 2022,
      maxConnectionsWithoutToken: 3022,
      crashLoopExits: 23,
      crashLoopPeriodMs: 24,
      keepTrying: false,
      restartLimit: 25,
      pingIntervalMs: 26,
      hungTimeouts: 27,
      retry: "read-only",
      maxSessionRequests: 28,
      sessionsPerMinute: 29,
      sessionKey: [KEY, `${KEY}2`],
      sessionKeys: [KEY, `${KEY}2`],
      sessionKeyFile: undefined,
      serverName: "weather",
      sessionMaxAgeMs: 1029,
      preStopMs: 2029,
      allowTools: ["search", "read_*"],
      denyTools: ["read_secret?"],
      readOnly: true,
      descriptor: "x.claw-describe.json",
      descriptorMode: "warn",
      argumentCheck: "enforce",
      toolTimeoutsMs: [{ pattern: "search", value: 30 }],
      toolConcurrency: [
        { pattern: "browser_*", value: 31 },
        { pattern: "*", value: 32 },
      ],
      toolCallsPerMinute: [{ pattern: "search", value: 33 }],
      sessionCallsPerMinute: 34,
      maxResultBytes: 1035,
      logLevel: "debug",
      requestLog: "all",
      metrics: false,
      page: false,
      adminAddr: { host: "127.0.0.1", port: 9002 },
    });
  });

  it("the memory budget limits a body to a fifth, and lines and events to a quarter", () => {
    const budget = { CLAW_MCP_STDIO_MEMORY_BUDGET_BYTES: "10000003" };
    const given = config(["server"], budget);
    expect(given).toMatchObject({ maxBodyBytes: 2_000_000, maxLineBytes: 2_500_000, replayMaxBytes: 2_500_000 });
    expect(config(["server"], { ...budget, CLAW_MCP_STDIO_MAX_BODY_BYTES: "1999999" }).maxBodyBytes).toBe(1_999_999);
  });

  it("flags override variables", () => {
    const environment = {
      CLAW_MCP_STDIO_PATH: "/from-variable",
      CLAW_MCP_STDIO_LOG_LEVEL: "debug",
      CLAW_MCP_STDIO_AUTH_TOKEN: "from-variable",
      CLAW_MCP_STDIO_MAX_SESSIONS: "1",
    };
    const flags = ["--path", "/from-flag", "--auth-token=from-flag", "--max-sessions", "2"];
    expect(config([...flags, "server"], environment)).toMatchObject({
      path: "/from-flag",
      authToken: "from-flag",
      maxSessions: 2,
      logLevel: "debug",
    });
  });

  it("a wrong variable is not reported if a flag overrides it", () => {
    expect(config(["--max-sessions", "2", "server"], { CLAW_MCP_STDIO_MAX_SESSIONS: "many" }).maxSessions).toBe(2);
  });

  it("command and arguments come from the command line or the environment, never mixed", () => {
    const environment = { CLAW_MCP_STDIO_COMMAND: "npx", CLAW_MCP_STDIO_ARGS: '["-y","other"]' };
    expect(config(["server"], environment)).toMatchObject({ command: "server", args: [] });
    expect(config(["--port", "1", "--", "server", "--port", "2"], environment)).toMatchObject({
      command: "server",
      args: ["--port", "2"],
      port: 1,
    });
    expect(config(["--port", "1"], environment)).toMatchObject({ command: "npx", args: ["-y", "other"] });
  });

  it("an empty variable counts as unset", () => {
    const names = ["ARGS", "CWD", "ADDR", "PORT", "PATH", "AUTH_TOKEN", "REQUEST_TIMEOUT_MS", "MAX_BODY_BYTES", "LOG_LEVEL"];
    const empty = Object.fromEntries(names.map((name) => [`CLAW_MCP_STDIO_${name}`, ""]));
    expect(config(["server"], empty)).toEqual(config(["server"]));
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

  it("unknown variables with the prefix are named but not rejected", () => {
    const environment = { CLAW_MCP_STDIO_TIMEOUT: "5", CLAW_MCP_STDIO_PORT: "1", CLAW_MCP: "x", OTHER: "y", claw_mcp_stdio_port: "z" };
    const { unknownVariables, problems } = load(["server"], environment);
    expect(unknownVariables).toEqual(["CLAW_MCP_STDIO_TIMEOUT"]);
    expect(problems).toEqual([]);
  });

  it("flags of the sidecar after the command are named but not rejected", () => {
    const { flagsAfterCommand, problems } = load([
      "--port",
      "1",
      "server",
      "--addr",
      ":2",
      "--read-only=on",
      "--help",
      "--other",
      "--",
      "--path",
    ]);
    expect(flagsAfterCommand.map((text) => text.split(":")[0])).toEqual(["--addr", "--read-only"]);
    expect(problems).toEqual([]);
  });

  it.each([
    ["after the word --", ["--", "server", "--addr", ":2"], {}],
    ["in ARGS", [], { CLAW_MCP_STDIO_COMMAND: "server", CLAW_MCP_STDIO_ARGS: '["--addr",":2"]' }],
  ])("flags of the sidecar %s are those of the server", (_where, argv, environment: Environment) => {
    expect(load(argv, environment).flagsAfterCommand).toEqual([]);
  });
});

describe("the page", () => {
  it.each([
    [["--addr", "127.0.0.1:80"], true],
    [["--addr", "localhost:80"], true],
    [["--addr", "[::1]:80"], true],
    [[], true],
    [["--host", "*"], false],
    [["--addr", ":80"], false],
    [["--addr", "10.0.0.5:80"], false],
    [["--addr", ":80", "--admin-addr", "127.0.0.1:81"], true],
    [["--addr", "127.0.0.1:80", "--admin-addr", ":81"], false],
    [["--addr", "127.0.0.1:80", "--path", "/"], false],
    [["--addr", "127.0.0.1:80", "--page=off"], false],
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
    [[], { HOST: "*", ADDR: "", PORT: "9000" }, { host: undefined, port: 9000 }],
    [[], { HOST: "*", ADDR: "127.0.0.1:9000" }, { host: "127.0.0.1", port: 9000 }],
    [["--host", "::"], { HOST: "*", ADDR: "127.0.0.1:9000" }, { host: "::", port: 9000 }],
    [["--host", "*"], { ADDR: "127.0.0.1:9000" }, { host: undefined, port: 9000 }],
    [["--host", "10.0.0.5", "--addr", ":9000"], {}, { host: undefined, port: 9000 }],
    [[], { ADDR: ":9000" }, { host: undefined, port: 9000 }],
    [[], { ADDR: "127.0.0.1:9000" }, { host: "127.0.0.1", port: 9000 }],
    [[], { ADDR: "localhost:9000" }, { host: "localhost", port: 9000 }],
    [[], { ADDR: "[::1]:9000" }, { host: "::1", port: 9000 }],
    [[], { ADDR: "127.0.0.1:0" }, { host: "127.0.0.1", port: 0 }],
    [[], { PORT: "9000" }, { host: "127.0.0.1", port: 9000 }],
    [[], { PORT: ":9000" }, { host: "127.0.0.1", port: 9000 }],
    [[], { ADDR: "", PORT: "9000" }, { host: "127.0.0.1", port: 9000 }],
    [[], { ADDR: ":9001", PORT: "9000" }, { host: undefined, port: 9001 }],
    [["--port", "9002"], { PORT: "9000" }, { host: "127.0.0.1", port: 9002 }],
    [["--port", "9002"], { ADDR: "127.0.0.1:9001", PORT: "9000" }, { host: "127.0.0.1", port: 9002 }],
    [["--addr", "[::]:9003"], { ADDR: "127.0.0.1:9001", PORT: "9000" }, { host: "::", port: 9003 }],
    [["--addr", ":9003", "--port", "9002"], {}, { host: undefined, port: 9003 }],
    [["--port", "9002", "--addr", ":9003"], { PORT: "9000" }, { host: undefined, port: 9003 }],
  ])("the flags %j and the variables %j give the address %j", (argv, variables, expected) => {
    const environment = Object.fromEntries(Object.entries(variables).map(([name, value]) => [`CLAW_MCP_STDIO_${name}`, value]));
    const { host, port } = config([...argv, "server"], environment);
    expect({ host, port }).toEqual(expected);
  });
});
