import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { effectiveConfigJson, effectiveConfigText } from "../../../src/cli/check-config.ts";
import { helpText } from "../../../src/cli/help.ts";
import { packageOf, StartDisplay } from "../../../src/cli/start-display.ts";
import { neverReady } from "../../../src/cli/start-failure.ts";
import { readCommandLine } from "../../../src/config/command-line.ts";
import { type Environment, loadConfig } from "../../../src/config/load.ts";
import { flagUsage, type Option } from "../../../src/config/option.ts";
import { ALL_OPTIONS, COMMON_OPTIONS, OPTION_GROUPS } from "../../../src/config/options.ts";
import { missingNodeFlags } from "../../../src/main.ts";
import { Secrets } from "../../../src/observe/redact.ts";
import type { UpstreamExit } from "../../../src/process/port.ts";
import { configWith, RecordedLog } from "../../support/context.ts";

async function linesOf({
  resultText = '{"serverInfo":{"name":"notes","version":"4.5.6"}}',
  address = "127.0.0.1:8080",
  columns = 80,
  toolNames = [] as readonly string[],
}): Promise<string[]> {
  const config = configWith({ command: "node", args: ["server.js"] });
  const texts: string[] = [];
  const logger = { log: new RecordedLog(), show: (text: string) => texts.push(text), close: () => Promise.resolve(true) };
  const display = new StartDisplay({ config, environment: {}, secrets: new Secrets({}), version: "1.2.3" }, { columns }, logger);
  await display.showReady({ address, pageAddress: undefined, toolNames: () => Promise.resolve(toolNames) }, { resultText });
  return stripVTControlCharacters(texts.join("")).trim().split("\n");
}

describe("the banner", () => {
  it.each([
    ["0.0.0.0:8080", "http://localhost:8080/mcp"],
    ["[::]:8080", "http://localhost:8080/mcp"],
    ["[::1]:8080", "http://[::1]:8080/mcp"],
  ])("the banner shows a URL that this machine can use for %s", async (address, url) => {
    const lines = await linesOf({ address });
    expect(lines).toContain(`  address  ${url}`);
    expect(lines).toContainEqual(expect.stringContaining(` --cli ${url} --transport http `));
  });

  it.each([
    ['{"serverInfo":{"name":"notes","version":"4.5.6"}}', "notes 4.5.6"],
    ['{"serverInfo":{"name":"notes"}}', "notes"],
    ["{}", "an MCP server"],
  ])("the banner names the server by %s", async (resultText, server) => {
    expect((await linesOf({ resultText }))[0]).toBe(`claw-mcp-stdio 1.2.3 serves ${server}`);
  });

  it("for a server without sessions, the line to try has the era, and the name is that of its discovery", async () => {
    const meta = { "io.modelcontextprotocol/serverInfo": { name: "notes", version: "7" } };
    const lines = await linesOf({ resultText: JSON.stringify({ supportedVersions: ["2026-07-28"], _meta: meta }) });
    expect(lines[0]).toBe("claw-mcp-stdio 1.2.3 serves notes 7");
    expect(lines).toContainEqual(expect.stringContaining(" --transport http --protocol-era modern --method tools/list"));
    expect((await linesOf({})).join()).not.toContain("--protocol-era");
  });

  it.each([
    [80, ["add"], "1: add"],
    [21, ["add", "sub"], "2: add, …"],
    [24, ["add", "sub"], "2: add, sub"],
    [1, ["add", "sub"], "2: …"],
  ])("the banner of %i columns shows the tools %j as %s", async (columns, toolNames, text) => {
    expect(await linesOf({ columns, toolNames })).toContain(`  tools    ${text}`);
  });
});

const GIBIBYTE = 2 ** 30;
const SEMI = "--max-semi-space-size=8";

interface NodeStart {
  readonly execArgv?: readonly string[];
  readonly nodeOptions?: string;
  readonly constrainedBytes?: number;
}

function missing({ execArgv = [], nodeOptions, constrainedBytes = 0 }: NodeStart): string[] {
  return missingNodeFlags(execArgv, nodeOptions, constrainedBytes, 16 * GIBIBYTE);
}

describe("the memory flags of Node", () => {
  it("the young generation alone is limited without a limit of memory, however Node tells that", () => {
    for (const constrainedBytes of [0, 2 ** 64, 16 * GIBIBYTE]) expect(missing({ constrainedBytes })).toEqual([SEMI]);
  });

  it.each([
    { mib: 2048, semiSpace: 8, oldSpace: 1024 },
    { mib: 512, semiSpace: 8, oldSpace: 256 },
    { mib: 256, semiSpace: 4, oldSpace: 128 },
    { mib: 1, semiSpace: 1, oldSpace: 1 },
  ])("the heap fits a container of $mib MiB", ({ mib, semiSpace, oldSpace }) => {
    const flags = [`--max-semi-space-size=${semiSpace}`, `--max-old-space-size=${oldSpace}`];
    expect(missing({ constrainedBytes: mib * 2 ** 20 })).toEqual(flags);
  });

  it.each([
    [{ execArgv: ["--max-semi-space-size=32", "--max-old-space-size=300"] }, []],
    [{ execArgv: ["--max-semi-space-size=8", "--max-old-space-size-percentage=50"] }, []],
    [{ nodeOptions: "--max_semi_space_size=32 --max_old_space_size=300" }, []],
    [{ nodeOptions: "--max-old-space-size=300" }, [SEMI]],
    [{ execArgv: ["--import", "x.js"] }, [SEMI, "--max-old-space-size=512"]],
  ])("sizes that the operator has chosen are kept: %j", (start: NodeStart, expected: string[]) => {
    expect(missing({ constrainedBytes: GIBIBYTE, ...start })).toEqual(expected);
  });
});

it.each([
  ["npx", ["-y", "some-mcp@1.2.3", "--flag", "x"], "some-mcp@1.2.3"],
  ["/usr/bin/npx", ["--yes", "@scope/some-mcp"], "@scope/some-mcp"],
  ["npx", ["-y", "-p", "some-package", "some-mcp"], "some-package"],
  ["npx", ["--package=some-package", "some-mcp"], "some-package"],
  ["uvx", ["--python", "3.12", "some-mcp"], "some-mcp"],
  ["uvx", ["--from", "git+https://example.com/x", "some-mcp"], "git+https://example.com/x"],
  ["npx", ["-y"], undefined],
  ["node", ["server.js"], undefined],
])("the package of %s %j is %s", (command, args, packageName) => {
  expect(packageOf(command, args)).toBe(packageName);
});

it.each<[Partial<UpstreamExit> & Pick<UpstreamExit, "kind" | "reason">, number, string]>([
  [{ kind: "crash", exitCode: 3, reason: "exited with code 3" }, 3, "the MCP server exited with code 3"],
  [{ kind: "signal", signal: "SIGKILL", reason: "ended by SIGKILL" }, 137, "the MCP server was ended by SIGKILL"],
  [{ kind: "clean-exit", exitCode: 0, reason: "exited with code 0" }, 1, "the MCP server exited with code 0"],
  [{ kind: "handshake-refused", signal: "SIGTERM", reason: "it echoes" }, 1, "the MCP server was never ready: it echoes"],
  [{ kind: "handshake-timeout", exitCode: 143, reason: "no response" }, 1, "the MCP server was never ready: no response"],
])("a server that was never ready and exits with %j gives the exit code %i", (exit, exitCode, problem) => {
  const unknown = { exitCode: undefined, signal: undefined, likelyCause: undefined, stderrTail: [] };
  expect(neverReady({ ...unknown, ...exit })).toMatchObject({ exitCode, problem });
});

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
