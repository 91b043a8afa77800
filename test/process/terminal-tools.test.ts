import { expect, it } from "vitest";
import { listedTool, ListedTools } from "../support/listed-tools.ts";
import { McpClient } from "../support/mcp-client.ts";
import { offer } from "../support/fixture-server.ts";
import { FIXTURE } from "../support/sidecar.ts";
import { TerminalRun } from "../support/terminal.ts";

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
