import { chmod, readFile, writeFile } from "node:fs/promises";
import { stripVTControlCharacters } from "node:util";
import { expect, it } from "vitest";
import { Gate, offer, waitForHanging } from "../support/fixture-server.ts";
import { inspect } from "../support/inspector.ts";
import { listedTool, ListedTools } from "../support/listed-tools.ts";
import { McpClient } from "../support/mcp-client.ts";
import { processEnd } from "../support/process-end.ts";
import { EXAMPLE, FIXTURE } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";
import { CTRL_C, ERASE_LINE, TerminalRun } from "../support/terminal.ts";

const ECHO = ["--", process.execPath, EXAMPLE];
/** Longer than the waiting line takes to appear. */
const SLOW_ECHO = ["--", "sh", "-c", `sleep 1; exec '${process.execPath}' '${EXAMPLE}'`];
const BANNER_END = / Ctrl-C\r\n\r\n/;
// oxlint-disable-next-line no-control-regex -- colours
const COLOURED_BANNER = /\u001B\[2mstop +\u001B\[22mCtrl-C\r\n\r\n/;
// oxlint-disable-next-line no-control-regex -- colours
const COLOUR = /\u001B\[[\d;]*m/;

it("the banner shows a working command to try, and never the token", async () => {
  const token = "planted-token-of-clients";
  await using terminal = TerminalRun.sidecar(ECHO, { NO_COLOR: "1", CLAW_MCP_STDIO_AUTH_TOKEN: token });
  const url = await terminal.url();
  await terminal.waitFor(BANNER_END);
  const header = '--header "Authorization: Bearer $CLAW_MCP_STDIO_AUTH_TOKEN"';
  expect(terminal.shown).toContain(`inspector --cli ${url} --transport http ${header} --method tools/list\r\n`);
  const { code, stdout } = await inspect(url, "--header", `Authorization: Bearer ${token}`, "--method", "tools/list");
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('"add"') as string });
  expect(await terminal.interrupt()).toBe(0);
  expect(terminal.shown).not.toContain(token);
});

it("warnings and the server's stderr are shown above the banner", async () => {
  const script = `echo 'using the test database' >&2; exec '${process.execPath}' '${EXAMPLE}'`;
  await using terminal = TerminalRun.sidecar(["--", "sh", "-c", script], { NO_COLOR: "1", CLAW_MCP_STDIO_PROT: "8080" });
  const { index: bannerStart } = await terminal.waitFor(/claw-mcp-stdio \d\S+ serves/);
  const above = terminal.shown.slice(0, bannerStart);
  expect(above).toMatch(/ WARN: unknown variable: most likely misspelled: CLAW_MCP_STDIO_PROT; did you mean CLAW_MCP_STDIO_PORT\?\r\n/);
  expect(above).toContain(" INFO: mcp server: using the test database\r\n");
  expect(await terminal.interrupt()).toBe(0);
});

it.each([
  { level: "info", shown: " INFO: mcp server: abc d use-***\r\n" },
  { level: "warn", shown: '"stderrTail":["abc d use-***"]}\r\n' },
])("a server's control characters and split secrets are removed, with LOG_LEVEL $level", async ({ level, shown }) => {
  const said = String.raw`a\033[2Jb\033]52;c;eA==\007c\rd\302\2332J use-planted\033[0m-secret`;
  const script = `test -e ran && exec '${process.execPath}' '${EXAMPLE}'; printf '${said}\\n' >&2; : > ran; exit 1`;
  await using dir = await TempDir.create();
  const flags = ["--keep-trying", "--log-level", level, "--restart-backoff-ms", "10", "--", "sh", "-c", `cd '${dir.path}'; ${script}`];
  await using terminal = TerminalRun.sidecar(flags, { NO_COLOR: "1", PLANTED_TOKEN: "planted-secret" });
  await terminal.waitFor(BANNER_END);
  expect(terminal.shown).toContain(shown);
  // oxlint-disable-next-line no-control-regex -- characters that control a terminal
  expect(terminal.shown.replaceAll(ERASE_LINE, "")).not.toMatch(/\u001B[^[]|\u001B\[2J|\u0007|\u009B/);
  expect(await terminal.interrupt()).toBe(0);
});

it("the sidecar and even a stubborn server end when the terminal is closed", async () => {
  await using dir = await TempDir.create();
  const script = `echo $$ $PPID > '${dir.file("pids")}'; exec '${process.execPath}' '${FIXTURE}' stubborn`;
  await using terminal = TerminalRun.sidecar(["--", "sh", "-c", script], { NO_COLOR: "1" });
  await terminal.waitFor(BANNER_END);
  const pids = (await readFile(dir.file("pids"), "utf8")).trim().split(" ").map(Number);
  expect(pids).toHaveLength(2);
  terminal.hangUp();
  // First the server, then the sidecar, although it cannot report that.
  for (const pid of pids) await processEnd(pid);
});

it("a missing command is explained, with exit code 127", async () => {
  await using terminal = TerminalRun.sidecar(["--", "/no/such/command"], {});
  expect(await terminal.end()).toBe(127);
  expect(terminal.lines).toEqual([
    'claw-mcp-stdio: "/no/such/command" does not exist, or its interpreter does not.',
    "  Install it or correct its path.",
    "",
  ]);
  expect(terminal.isLeftClean).toBe(true);
});

it("a crash loop is explained, and Ctrl-C ends it", async () => {
  const flags = ["--keep-trying", "--restart-backoff-ms", "10", "--crash-loop-exits", "3"];
  await using terminal = TerminalRun.sidecar([...flags, "--", process.execPath, FIXTURE, "exit-at-initialize"], {});
  await terminal.waitFor(/mcp server failed: crash loop/);
  // Another attempt will follow, and the waiting line explains why no server runs.
  await terminal.waitFor(/crash loop[^]*waiting for node, \d+ s: exited with code 3 before it answered initialize/);
  const plain = stripVTControlCharacters(terminal.shown);
  // The server's output is shown once, above that line.
  expect(plain).toMatch(
    / INFO: mcp server: cannot open the database\r\n[^]* WARN: mcp server exited: exited with code 3 .*"kind":"crash".*\r\n/,
  );
  expect(plain).not.toContain("stderrTail");
  expect(plain).toContain(" ERROR: mcp server failed: crash loop: exited with code 3 ");
  expect(plain).toContain(" INFO: mcp server will be restarted {");
  expect(await terminal.interrupt()).toBe(0);
  expect(terminal.shown).not.toContain("try it");
  expect(terminal.isLeftClean).toBe(true);
});

it.each([
  { level: "info", shown: ["mcp server: cannot open the database"], output: [] },
  { level: "warn", shown: [], output: ["  cannot open the database"] },
])("a server that was never ready is reported once, and its exit code is kept, with LOG_LEVEL $level", async ({ level, shown, output }) => {
  await using terminal = TerminalRun.sidecar(["--log-level", level, "--", process.execPath, FIXTURE, "exit-at-initialize"], {
    NO_COLOR: "1",
  });
  expect(await terminal.end()).toBe(3);
  const lines = terminal.lines.map((line) => line.replace(/^\[[\d:.]+\] INFO: /, ""));
  expect(lines.slice(0, shown.length + 1 + output.length)).toEqual([
    ...shown,
    "claw-mcp-stdio: the MCP server exited with code 3 before it answered initialize.",
    ...output,
  ]);
  // The progress line may have shown it, too, before it was erased.
  expect(terminal.lines.filter((line) => line.includes("cannot open the database"))).toHaveLength(1);
  expect(terminal.isLeftClean).toBe(true);
});

it("a failed start shows its likely cause on a line of its own", async () => {
  await using terminal = TerminalRun.sidecar(["--", "sh", "-c", "echo 'Error: MY_API_KEY is not set' >&2; exit 1"], { NO_COLOR: "1" });
  expect(await terminal.end()).toBe(1);
  const [, problem, cause] = terminal.lines;
  expect(problem).toBe("claw-mcp-stdio: the MCP server exited with code 1 before it answered initialize.");
  expect(cause).toMatch(/^ {2}Likely cause: .*MY_API_KEY/);
});

it("a failed start is explained on stderr if only stderr is a terminal", async () => {
  await using directory = await TempDir.create();
  const log = directory.file("log");
  await using terminal = TerminalRun.sidecar(["--", process.execPath, FIXTURE, "exit-at-initialize"], { NO_COLOR: "1" }, 80, log);
  expect(await terminal.end()).toBe(3);
  expect(terminal.lines).toContain("claw-mcp-stdio: the MCP server exited with code 3 before it answered initialize.");
  expect(await readFile(log, "utf8")).toContain('"msg":"mcp server not restarted: it was never ready"');
});

it("a download names its package, and Ctrl-C ends it", async () => {
  await using directory = await TempDir.create();
  await using gate = await Gate.create();
  // Like npx while it downloads: it does not read its stdin.
  await writeFile(directory.file("npx"), `#!${process.execPath}\nsetInterval(() => undefined, 1000);\n`);
  await chmod(directory.file("npx"), 0o755);
  const env = { ...gate.env, NO_COLOR: "1", PATH: `${directory.path}:${process.env["PATH"]}` };
  await using terminal = TerminalRun.sidecar(["--", "npx", "-y", "some-mcp@1.2.3"], env);
  await terminal.waitFor(/waiting for npx, which may download some-mcp@1\.2\.3, \d+ s/);
  expect(await terminal.interrupt()).toBe(0);
  expect(terminal.shown).toMatch(/mcp server ended: shutdown.*"signal":"SIGTERM"/);
  expect(terminal.isLeftClean).toBe(true);
});

it("one waiting line shows the duration and the server's last output, and then disappears", async () => {
  await using gate = await Gate.create();
  const script = `echo 'npm downloads' >&2; exec '${process.execPath}' '${FIXTURE}' gated`;
  await using terminal = TerminalRun.sidecar(["--", "sh", "-c", script], { ...gate.env, NO_COLOR: "1" });
  const [, seconds] = await terminal.waitFor(/waiting for sh, (\d+) s: npm downloads/);
  // On a busy machine, one second may be skipped.
  const [, later] = await terminal.waitFor(new RegExp(`waiting for sh, (?!${seconds} s)(\\d+) s: npm downloads`));
  expect(Number(later)).toBeGreaterThan(Number(seconds));
  await gate.open();
  await terminal.waitFor(BANNER_END);
  const before = terminal.shown.split("waiting for").slice(0, -1);
  expect(before.filter((text) => !text.endsWith(ERASE_LINE))).toEqual([]);
  const lastWait = terminal.shown.lastIndexOf("waiting for");
  const after = terminal.shown.slice(lastWait).replace(/^waiting for sh, \d+ s: npm downloads/, "");
  expect(after.slice(0, ERASE_LINE.length + 2)).toBe(`${ERASE_LINE}\r\n`);
  expect(await terminal.interrupt()).toBe(0);
  expect(terminal.shown.lastIndexOf("waiting for")).toBe(lastWait);
});

it("the waiting line stays on one line with any characters from the server", async () => {
  await using gate = await Gate.create();
  const script = `echo '${"表".repeat(60)}' >&2; exec '${process.execPath}' '${FIXTURE}' gated`;
  await using terminal = TerminalRun.sidecar(["--log-level", "warn", "--", "sh", "-c", script], { ...gate.env, NO_COLOR: "1" }, 40);
  // oxlint-disable-next-line no-control-regex -- until it is erased
  const [, line = ""] = await terminal.waitFor(/(waiting for sh, \d+ s: 表.*?)\r\u001B/);
  const columns = line.length + line.replaceAll(/[^表]/g, "").length;
  expect(columns).toBeGreaterThan(36);
  expect(columns).toBeLessThan(40);
  await gate.open();
  await terminal.waitFor(BANNER_END);
  expect(await terminal.interrupt()).toBe(0);
});

it("a second Ctrl-C ends the sidecar at once, on a line of its own", async () => {
  const flags = ["--log-level", "silent", "--drain-timeout-ms", "600000"];
  await using terminal = TerminalRun.sidecar([...flags, "--", process.execPath, FIXTURE, "stubborn"], { NO_COLOR: "1" });
  const client = await new McpClient(await terminal.url()).open();
  const hanging = client.callTool("hang").catch((error: unknown) => error);
  await waitForHanging(client, 1);
  terminal.type(CTRL_C);
  await terminal.waitFor(/\^C\r\n1 call is in flight; waiting for at most 600 s\. Ctrl-C ends it at once\.\r\n/);
  expect(await terminal.interrupt()).toBe(130);
  await hanging;
  expect(terminal.isLeftClean).toBe(true);
});

it("the output is coloured unless NO_COLOR is set", async () => {
  await using coloured = TerminalRun.sidecar(ECHO, {});
  await coloured.waitFor(COLOURED_BANNER);
  expect(await coloured.interrupt()).toBe(0);
  await using plain = TerminalRun.sidecar(ECHO, { NO_COLOR: "1" });
  await plain.waitFor(BANNER_END);
  expect(await plain.interrupt()).toBe(0);
  expect(plain.shown).not.toMatch(COLOUR);
});

it("a dumb terminal gets no escape sequences, not even during the wait", async () => {
  await using terminal = TerminalRun.sidecar(SLOW_ECHO, { TERM: "dumb" });
  await terminal.waitFor(BANNER_END);
  expect(await terminal.interrupt()).toBe(0);
  expect(terminal.shown).not.toContain("\u001B");
  expect(terminal.shown).not.toContain("waiting for");
});

it("a server's output appears without control characters and secrets", async () => {
  const serverInfo = { name: "a\u001B[2Jb planted\u001B[0m-secret" };
  const answer = JSON.stringify({ jsonrpc: "2.0", id: 0, result: { protocolVersion: "2025-06-18", capabilities: {}, serverInfo } });
  const script = 'read -r line; printf "%s\\n" "$ANSWER"; cat > /dev/null';
  const env = { NO_COLOR: "1", ANSWER: answer, PLANTED_TOKEN: "planted-secret" };
  await using terminal = TerminalRun.sidecar(["--", "sh", "-c", script], env);
  await terminal.waitFor(BANNER_END);
  expect(terminal.shown).toMatch(/serves ab \*\*\*\r\n/);
  expect(terminal.shown).not.toContain("\u001B[2J");
  expect(stripVTControlCharacters(terminal.shown)).not.toContain("planted-secret");
  expect(await terminal.interrupt()).toBe(0);
});

const SERVER = ["--", process.execPath, FIXTURE];
const TOOLS_LINE = / {2}tools {4}(.*)\r\n/;
const NOT_KNOWN = "not known: the server has not listed them";

function run(listed: ListedTools, flags: readonly string[] = [], columns = 80): TerminalRun {
  return TerminalRun.sidecar([...flags, ...SERVER], { ...listed.env, NO_COLOR: "1" }, columns);
}

async function toolsLine(terminal: TerminalRun): Promise<string> {
  const [, line = ""] = await terminal.waitFor(TOOLS_LINE);
  return line;
}

async function countListings(client: McpClient): Promise<number> {
  const seen = JSON.parse(await client.toolText("seen")) as string[];
  return seen.filter((method) => method === "tools/list").length;
}

it("the banner shows the tools of all pages, each requested once", async () => {
  await using listed = await ListedTools.create([listedTool("one"), listedTool("two")], [listedTool("three")]);
  await using terminal = run(listed);
  expect(await toolsLine(terminal)).toBe("3: one, two, three");
  expect(await countListings(await new McpClient(await terminal.url()).open())).toBe(2);
  expect(await terminal.interrupt()).toBe(0);
});

it("the names are free of control characters and secrets, and are truncated", async () => {
  const names = ["a\u001B[2Jb\r\nc", "use-planted\u001B[0m-secret", "x".repeat(100_000), "last"];
  await using listed = await ListedTools.create(names.map((name) => listedTool(name)));
  const env = { ...listed.env, NO_COLOR: "1", PLANTED_TOKEN: "planted-secret" };
  await using terminal = TerminalRun.sidecar(SERVER, env, 200);
  expect(await toolsLine(terminal)).toBe(`4: ab  c, use-***, ${"x".repeat(80)}…, last`);
  expect(await terminal.interrupt()).toBe(0);
});

it("the banner shows only tools that clients may see", async () => {
  await using listed = await ListedTools.create([listedTool("read"), listedTool("write"), listedTool("remove")]);
  await using some = run(listed, ["--deny-tools", "remove"]);
  expect(await toolsLine(some)).toBe("2: read, write");
  expect(await some.interrupt()).toBe(0);
  await using none = run(listed, ["--read-only"]);
  expect(await toolsLine(none)).toBe("none");
  expect(await none.interrupt()).toBe(0);
});

it("the banner shows none if the server does not declare tools, which are not requested", async () => {
  await using terminal = TerminalRun.sidecar(SERVER, { NO_COLOR: "1", FIXTURE_INITIALIZE_RESULT: offer({}) });
  expect(await toolsLine(terminal)).toBe("none");
  expect(await countListings(await new McpClient(await terminal.url()).open())).toBe(0);
  expect(await terminal.interrupt()).toBe(0);
});

it("the tools are unknown after a timeout, and no client has to wait for them", async () => {
  await using listed = await ListedTools.create();
  await listed.fallSilent();
  // A call that had to wait for the slot would be rejected long before that slot is free again.
  await using terminal = run(listed, ["--log-level", "debug", "--max-in-flight", "1", "--hold-timeout-ms", "1"]);
  const [, address = ""] = await terminal.waitFor(/"address":"(.+?)"/);
  await terminal.waitFor(/mcp server ready/);
  const client = await new McpClient(`http://${address}/mcp`).open();
  expect(await countListings(client)).toBe(1);
  expect(await toolsLine(terminal)).toBe(NOT_KNOWN);
  // The server gets a cancellation.
  expect(await client.toolText("seen")).toContain("notifications/cancelled");
  expect(await terminal.interrupt()).toBe(0);
});

it("Ctrl-C does not wait for the tools", async () => {
  await using listed = await ListedTools.create();
  await listed.fallSilent();
  await using terminal = run(listed, ["--log-level", "debug"]);
  await terminal.waitFor(/mcp server ready/);
  expect(await terminal.interrupt()).toBe(0);
  expect(terminal.shown).not.toMatch(/try it|WARN/);
  expect(terminal.isLeftClean).toBe(true);
});
