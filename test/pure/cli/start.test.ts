import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { missingNodeFlags } from "../../../src/main.ts";
import { packageOf, StartDisplay } from "../../../src/cli/start-display.ts";
import { neverReady } from "../../../src/cli/start-failure.ts";
import type { UpstreamExit } from "../../../src/process/port.ts";
import { Secrets } from "../../../src/observe/redact.ts";
import { RecordedLog, configWith } from "../../support/context.ts";

async function linesOf({
  resultText = '{"serverInfo":{"name":"notes","version":"4.5.6"}}',
  address = "127.0.0.1:8080",
  columns = 80,
  toolNames = [] as readonly string[],
}): Promise<string[]> {
  const config = configWith({ command: "node", args: ["server.js"] });
  const log = new RecordedLog();
  const shown: string[] = [];
  const logger = Object.assign(log, { show: (text: string) => shown.push(text), close: () => Promise.resolve(true) });
  const display = new StartDisplay({ config, environment: {}, secrets: new Secrets({}), version: "1.2.3" }, { columns }, logger);
  await display.showReady({ address, pageAddress: undefined, toolNames: () => Promise.resolve(toolNames) }, { resultText });
  return stripVTControlCharacters(shown.join("")).trim().split("\n");
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
