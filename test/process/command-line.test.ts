import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { MAIN, runMain } from "../support/sidecar.ts";

const PACKAGE = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  readonly version: string;
  readonly engines: { readonly node: string };
};

/** Options that pods rely on, with their defaults, as the help shows them. */
const POD_OPTIONS = [
  "  CLAW_MCP_STDIO_COMMAND\n",
  "  CLAW_MCP_STDIO_ARGS\n",
  "[default []]\n",
  "[CLAW_MCP_STDIO_ADDR]\n",
  "[CLAW_MCP_STDIO_HOST, default 127.0.0.1]\n",
  "[CLAW_MCP_STDIO_PORT, default 8080]\n",
  "[CLAW_MCP_STDIO_PATH, default /mcp]\n",
  "[CLAW_MCP_STDIO_AUTH_TOKEN]\n",
  "[CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS, default 60000]\n",
  "[CLAW_MCP_STDIO_RESTART_BACKOFF_MS, default 1000]\n",
  "[CLAW_MCP_STDIO_RESTART_MAX_MS, default 15000]\n",
  "[CLAW_MCP_STDIO_MAX_BODY_BYTES, default 4194304]\n",
  "[CLAW_MCP_STDIO_READY_TIMEOUT_MS, default 60000]\n",
];

const DEFAULTS = {
  readyTimeoutMs: 60_000,
  host: "127.0.0.1",
  port: 8080,
  path: "/mcp",
  requestTimeoutMs: 60_000,
  restartBackoffMs: 1000,
  restartMaxMs: 15_000,
  maxBodyBytes: 4_194_304,
  logLevel: "info",
};

async function checkConfig(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await runMain(["--check-config=json", ...args], env);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as Record<string, unknown>;
}

async function problems(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string[]> {
  const { code, stdout, stderr } = await runMain(args, env);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  const [title, ...lines] = stderr.trimEnd().split("\n");
  expect(title).toBe("claw-mcp-stdio: invalid configuration:");
  return lines.map((line) => line.replace(/^ {2}- /, ""));
}

/** Runs `--version` in a process that reports this version of Node. */
function runOnNode(nodeVersion: string): ReturnType<typeof runMain> {
  const source = `Object.defineProperty(process, "versions", { value: { node: "${nodeVersion}" } })`;
  return runMain(["--version"], { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` });
}

describe("the command line", () => {
  it.each([
    ["--help", "all"],
    ["-h", "all"],
    ["help", "all"],
    ["serve", "--help=all"],
  ])("%s %s shows every option in its group, with its variable and default", async (...words) => {
    const { code, stdout, stderr } = await runMain(words);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    for (const group of ["General", "MCP server", "HTTP", "Supervision", "Limits", "Logs"]) expect(stdout).toContain(`\n${group}:\n`);
    const unwrapped = stdout.replaceAll(/\n {6}(?=\S)/g, " ");
    for (const option of POD_OPTIONS) expect(option.endsWith("]\n") ? unwrapped : stdout).toContain(option);
  });

  it.each([["--help"], ["-h"], ["help"], ["serve", "-h"]])("%s shows the most used options, and how to see all", async (...words) => {
    const { code, stdout, stderr } = await runMain(words);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain("All of them: claw-mcp-stdio --help all\n");
    expect(stdout).not.toContain("--replay-max-bytes");
  });

  it("help discover shows the options of discover", async () => {
    expect((await runMain(["help", "discover"])).stdout).toContain("--check FILE");
  });

  it("no word at all prints the two commonest lines, with exit code 2", async () => {
    const { code, stdout, stderr } = await runMain([]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr.split("\n").length).toBeLessThan(9);
    for (const line of ["claw-mcp-stdio -- npx -y ", "claw-mcp-stdio --help\n"]) expect(stderr).toContain(`  ${line}`);
  });

  it("the word serve is optional, and -p is the port", async () => {
    for (const words of [["serve"], []]) {
      expect(JSON.parse((await runMain([...words, "--check-config=json", "-p", "9000", "--", "node"])).stdout)).toMatchObject({
        port: 9000,
      });
    }
  });

  it("--help takes precedence over invalid options", async () => {
    expect(await runMain(["--port", "x", "--help"], { CLAW_MCP_STDIO_PORT: "y" })).toMatchObject({ code: 0, stderr: "" });
  });

  it("a misspelled form of --check-config is rejected", async () => {
    const { code, stdout, stderr } = await runMain(["--check-config=jsno", "node"]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("--check-config takes no value, or json");
  });

  it.each(["--help", "--version", "--check-config"])("%s exits silently if the reader of stdout has gone", async (flag) => {
    const child = spawn(process.execPath, [MAIN, flag, "--", "some-mcp"], { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.destroy();
    const [stderr, end] = await Promise.all([text(child.stderr), once(child, "exit")]);
    expect({ stderr, end }).toEqual({ stderr: "", end: [0, null] });
  });

  it.each(["--help", "--version", "--check-config"])("%s fails with a one-line message if stdout is full", async (flag) => {
    const full = openSync("/dev/full", "w");
    const child = spawn(process.execPath, [MAIN, flag, "--", "some-mcp"], { stdio: ["ignore", full, "pipe"] });
    closeSync(full);
    const { stderr: readable } = child;
    if (readable === null) throw new Error("stderr is a pipe");
    const [stderr, end] = await Promise.all([text(readable), once(child, "exit")]);
    expect(stderr).toMatch(/^claw-mcp-stdio: stdout cannot be written: ENOSPC.*\n$/);
    expect(end).toEqual([1, null]);
  });

  it.each(["--version", "-v", "version"])("%s shows the version of the package", async (word) => {
    expect(await runMain([word])).toEqual({ code: 0, stdout: `${PACKAGE.version}\n`, stderr: "" });
  });

  it.each(["20.19.5", "22.18.0", "23.11.1", "24.5.0"])("Node %s is rejected", async (nodeVersion) => {
    const { code, stdout, stderr } = await runOnNode(nodeVersion);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    const remedy = "Install such a Node. A clone has one after npm ci: npx node dist/main.js";
    expect(stderr).toBe(`claw-mcp-stdio needs Node ${PACKAGE.engines.node}; this is ${nodeVersion}. ${remedy}\n`);
  });

  it.each(["22.19.0", "24.6.0", "25.0.0", "26.10.0"])("Node %s is accepted", async (nodeVersion) => {
    expect(await runOnNode(nodeVersion)).toMatchObject({ code: 0, stderr: "" });
  });

  it.each([
    ["a warning", [], ["--addr"]],
    ["no warning after the word --", ["--"], []],
  ])("a flag of the sidecar among the server's arguments causes %s", async (_what, separator, expected) => {
    const { stdout } = await runMain(["--addr", "127.0.0.1:0", ...separator, "/no/such/command", "--addr", ":1"]);
    const lines = stdout.split("\n").filter((line) => line.includes('"flag after the command goes to the server"'));
    const named = lines.map((line) => (JSON.parse(line) as { readonly reason: string }).reason.split(":")[0]);
    expect(named).toEqual(expected);
  });

  describe("--check-config", () => {
    it("the effective configuration is shown, and nothing is started", async () => {
      const config = await checkConfig(["--", "/no/such/command", "one", "two words"]);
      expect(config).toMatchObject({ ...DEFAULTS, command: "/no/such/command", args: ["one", "two words"] });
      expect(config).not.toHaveProperty("authToken");
    });

    it("the configuration is read from the environment", async () => {
      const config = await checkConfig([], {
        CLAW_MCP_STDIO_COMMAND: "npx",
        CLAW_MCP_STDIO_ARGS: '["-y","some-mcp",""]',
        CLAW_MCP_STDIO_ADDR: "127.0.0.1:9000",
        CLAW_MCP_STDIO_PATH: "/custom",
        CLAW_MCP_STDIO_AUTH_TOKEN: "token",
        CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS: "1",
        CLAW_MCP_STDIO_RESTART_BACKOFF_MS: "2",
        CLAW_MCP_STDIO_RESTART_MAX_MS: "3",
        CLAW_MCP_STDIO_MAX_BODY_BYTES: "4",
        CLAW_MCP_STDIO_READY_TIMEOUT_MS: "5",
      });
      expect(config).toMatchObject({
        command: "npx",
        args: ["-y", "some-mcp", ""],
        host: "127.0.0.1",
        port: 9000,
        path: "/custom",
        authToken: "***",
        requestTimeoutMs: 1,
        restartBackoffMs: 2,
        restartMaxMs: 3,
        maxBodyBytes: 4,
        readyTimeoutMs: 5,
      });
    });

    it("misspelled variables and flags after the command are reported on stderr", async () => {
      const env = { CLAW_MCP_STDIO_PROT: "9", CLAW_MCP_STDIO_PORT: "8" };
      const { code, stdout, stderr } = await runMain(["--check-config", "node", "server.js", "--port=9"], env);
      expect(code).toBe(2);
      expect(stdout).toContain("\n  CLAW_MCP_STDIO_PORT = 8  (CLAW_MCP_STDIO_PORT)\n");
      expect(stderr.split("\n")).toEqual([
        "claw-mcp-stdio: unknown variable: most likely misspelled: CLAW_MCP_STDIO_PROT; did you mean CLAW_MCP_STDIO_PORT?",
        expect.stringMatching(/^claw-mcp-stdio: flag after the command goes to the server: --port: write it before the command;/),
        "",
      ]);
    });

    it.each([
      ["after a flag", ["--api-key", "hunter2hunter2"]],
      ["in a flag", ["--token=hunter2hunter2"]],
      ["in an assignment", ["-e", "GITHUB_TOKEN=hunter2hunter2"]],
      ["in a custom header", ["--header", "X-Api-Key: hunter2hunter2"]],
      ["in an Authorization header", ["--header", "Authorization: Bearer hunter2hunter2"]],
      ["in a URL", ["postgresql://user:hunter2hunter2@db/app"]],
    ])("a secret %s is masked in the server's arguments", async (_where, args) => {
      const shown = (await checkConfig(["--", "some-mcp", "--verbose", ...args]))["args"];
      expect(shown).toHaveLength(args.length + 1);
      expect(JSON.stringify(shown)).toContain('"--verbose"');
      expect(JSON.stringify(shown)).not.toContain("hunter2");
    });
  });

  describe("precedence", () => {
    it.each([
      ["a flag over its variable", ["--path", "/flag"], { CLAW_MCP_STDIO_PATH: "/variable" }, { path: "/flag" }],
      ["a flag over an invalid variable", ["--path", "/flag"], { CLAW_MCP_STDIO_PATH: "variable" }, { path: "/flag" }],
      ["the last of two flags", ["--path", "/one", "--path=/two"], {}, { path: "/two" }],
      ["ADDR over PORT", [], { CLAW_MCP_STDIO_ADDR: ":1111", CLAW_MCP_STDIO_PORT: "2222" }, { port: 1111 }],
      ["--port over the port in ADDR", ["--port", "2222"], { CLAW_MCP_STDIO_ADDR: "127.0.0.1:1111" }, { host: "127.0.0.1", port: 2222 }],
      ["--addr over --port", ["--port", "2222", "--addr", ":1111"], {}, { port: 1111 }],
      ["--addr over both variables", ["--addr", ":1"], { CLAW_MCP_STDIO_ADDR: ":2", CLAW_MCP_STDIO_PORT: "3" }, { port: 1 }],
      ["the default over an empty variable", [], { CLAW_MCP_STDIO_ADDR: "", CLAW_MCP_STDIO_PORT: "" }, { port: 8080 }],
    ])("the configuration prefers %s", async (_what, flags, env: Record<string, string>, expected) => {
      expect(await checkConfig([...flags, "--", "node"], env)).toMatchObject(expected);
    });

    it("a command on the command line replaces both COMMAND and ARGS", async () => {
      const env = { CLAW_MCP_STDIO_COMMAND: "other", CLAW_MCP_STDIO_ARGS: '["other"]' };
      expect(await checkConfig(["--", "node"], env)).toMatchObject({ command: "node", args: [] });
      const { stdout } = await runMain(["--check-config=json", "node", "server.js", "--port", "9"], env);
      expect(JSON.parse(stdout)).toMatchObject({ command: "node", args: ["server.js", "--port", "9"], port: 8080 });
    });

    it.each([
      [["--read-only", "on"], { readOnly: true }],
      [["--read-only", "off"], { readOnly: false }],
      [["--read-only"], { readOnly: true }],
      [["--modern", "off"], { modern: "off" }],
      [["--modern=off"], { modern: "off" }],
      [["--legacy-sse"], { legacySse: "on" }],
    ])("the flags %j have one syntax, and on is not a command", async (flags, expected) => {
      expect(await checkConfig([...flags, "node"])).toMatchObject({ command: "node", ...expected });
    });

    it("a value may begin with a dash after an equals sign", async () => {
      expect(await checkConfig(["--deny-tools=-x", "node"])).toMatchObject({ denyTools: ["-x"] });
    });

    it.each(["8080", ":8080"])("PORT may be %s", async (port) => {
      expect(await checkConfig(["--", "node"], { CLAW_MCP_STDIO_PORT: port })).toMatchObject({ port: 8080 });
    });
  });

  describe("configuration problems", () => {
    it("all problems are reported at once, with the value and the allowed values", async () => {
      const whole = "expected a whole number from 1 to 2147483647";
      expect(
        await problems(["--log-level", "loud", "--no-such-flag", "--path", "mcp"], {
          CLAW_MCP_STDIO_ARGS: '{"a":1}',
          CLAW_MCP_STDIO_ADDR: "nonsense",
          CLAW_MCP_STDIO_PORT: "65536",
          CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS: "1.5",
          CLAW_MCP_STDIO_RESTART_BACKOFF_MS: "-1",
          CLAW_MCP_STDIO_RESTART_MAX_MS: "0",
          CLAW_MCP_STDIO_READY_TIMEOUT_MS: "1e3",
          CLAW_MCP_STDIO_MAX_BODY_BYTES: "1MB",
          CLAW_MCP_STDIO_CWD: "/no/such/directory",
        }),
      ).toEqual([
        "--no-such-flag is not an option; see --help all",
        'CLAW_MCP_STDIO_ARGS is not valid (value not shown): it is an object, not an array; expected a JSON array of strings without NUL, for example ["-y","some-mcp"]',
        `CLAW_MCP_STDIO_READY_TIMEOUT_MS is "1e3"; ${whole}`,
        'CLAW_MCP_STDIO_ADDR is "nonsense"; expected host:port, [ipv6]:port or :port, with a port up to 65535',
        'CLAW_MCP_STDIO_PORT is "65536"; expected a whole number from 1 to 65535, with or without a colon before it',
        '--path is "mcp"; expected a path that starts with / and has no query, other than /livez, /readyz, /healthz, /status, /metrics',
        `CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS is "1.5"; ${whole}`,
        `CLAW_MCP_STDIO_RESTART_BACKOFF_MS is "-1"; ${whole}`,
        `CLAW_MCP_STDIO_RESTART_MAX_MS is "0"; ${whole}`,
        'CLAW_MCP_STDIO_MAX_BODY_BYTES is "1MB"; expected a whole number from 1 to 536869888',
        '--log-level is "loud"; expected one of silent, error, warn, info, debug',
        "no command is given; put it after the options, as in -- npx -y some-mcp, or set CLAW_MCP_STDIO_COMMAND",
        'CLAW_MCP_STDIO_CWD is "/no/such/directory"; expected an existing directory',
      ]);
    });

    it("a misspelled variable is reported after the problems", async () => {
      const { code, stderr } = await runMain([], { CLAW_MCP_STDIO_COMAND: "npx" });
      expect(code).toBe(2);
      expect(stderr).toMatch(
        /no command is given.*\nclaw-mcp-stdio: unknown variable: .*CLAW_MCP_STDIO_COMAND; did you mean CLAW_MCP_STDIO_COMMAND\?\n$/,
      );
    });

    it.each([
      ["no command", ["--port", "1"], {}, /^no command is given; put it after the options/],
      ["an empty command", ["--", ""], {}, /^no command is given; put it after the options/],
      ["an unknown flag", ["--no-such", "--", "node"], {}, /^--no-such is not an option; see --help all$/],
      ["an unknown short flag", ["-x", "--", "node"], {}, /^-x is not an option; see --help all$/],
      ["a misspelled flag", ["--prot", "1", "--", "node"], {}, /^--prot is not an option; did you mean --port\?$/],
      ["a misspelled long flag", ["--read-onyl", "--", "node"], {}, /^--read-onyl is not an option; did you mean --read-only\?$/],
      [
        "a value that begins with a dash",
        ["--deny-tools", "-x", "--", "node"],
        {},
        /^--deny-tools has no value; a value that begins with a dash is written with an equals sign: --deny-tools=VALUE$/,
      ],
      ["a flag without its value", ["--path=", "--", "node"], {}, /^--path has no value; expected a path that starts with/],
      [
        "arguments that are not JSON",
        ["--", "node"],
        { CLAW_MCP_STDIO_ARGS: "-y some-mcp" },
        /^CLAW_MCP_STDIO_ARGS is not valid \(value not shown\): it is not JSON \(character 1:/,
      ],
      [
        "arguments that are not strings",
        ["--", "node"],
        { CLAW_MCP_STDIO_ARGS: "[1]" },
        /^CLAW_MCP_STDIO_ARGS is not valid \(value not shown\): element 1 is a number/,
      ],
      [
        "an argument with a NUL",
        ["--addr", "127.0.0.1:0"],
        { CLAW_MCP_STDIO_COMMAND: "node", CLAW_MCP_STDIO_ARGS: String.raw`["a\u0000b"]` },
        /^CLAW_MCP_STDIO_ARGS is not valid/,
      ],
      ["a path that is reserved for health", ["--path", "/healthz", "--", "node"], {}, /^--path is "\/healthz"/],
      ["port 0", ["--port", "0", "--", "node"], {}, /^--port is "0"/],
      [
        "a first pause longer than the longest pause",
        ["--restart-backoff-ms", "2000", "--restart-max-ms", "1000", "--", "node"],
        {},
        /^--restart-backoff-ms \(2000\) is greater than RESTART_MAX_MS \(1000\)$/,
      ],
    ])("the exit code is 2 for %s", async (_what, args, env: Record<string, string>, expected) => {
      expect(await problems(args, env)).toEqual([expect.stringMatching(expected)]);
    });
  });
});
