import { execFile, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { HttpBench } from "../support/http-bench.ts";
import { send } from "../support/http-client.ts";
import { listedNames } from "../support/listed-tools.ts";
import { readDocument, ROOT } from "../support/markdown.ts";
import { McpClient } from "../support/mcp-client.ts";
import { freePort } from "../support/open-sockets.ts";
import { Pod } from "../support/pod.ts";
import { SdkClient } from "../support/sdk-client.ts";
import { EXAMPLE, MAIN, runMain, Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";
import { TerminalRun } from "../support/terminal.ts";

const MIGRATION = readFileSync(new URL("../../docs/MIGRATION.md", import.meta.url), "utf8");
const COMMANDS = Array.from(MIGRATION.matchAll(/<!-- executed by .*-->\n```sh\n(.*)\n```/g), ([, command = ""]) => command);

interface ComposeFile {
  readonly services: { readonly everything: { readonly environment: Readonly<Record<string, string>> } };
}

async function addTwoAndThree(url: string, token: string): Promise<string> {
  const client = await new McpClient(url, { token: token === "" ? undefined : token }).open();
  return client.toolText("get-sum", { a: 2, b: 3 });
}

it("the document has a command for each program with a command line", () => {
  expect(COMMANDS).toHaveLength(2);
});

it.each(COMMANDS)("a command of the document serves its tools: %s", async (command) => {
  const port = await freePort();
  const script = command.replace("claw-mcp-stdio", `'${process.execPath}' '${MAIN}'`).replace(/(--port |127\.0\.0\.1:)\d+/, `$1${port}`);
  await using sidecar = new Sidecar(spawn("bash", ["-c", `exec env ${script}`], { stdio: ["ignore", "pipe", "pipe"] }));
  await sidecar.waitForLog("mcp server ready");
  const token = /AUTH_TOKEN=(\S+)/.exec(command)?.[1] ?? "";
  expect(await addTwoAndThree(`http://127.0.0.1:${port}/mcp`, token)).toBe("The sum of 2 and 3 is 5.");
});

it("the command of tool-policy.md serves only the tools that it allows, and not the denied one", async () => {
  const [, command = ""] =
    /<!-- executed by .*-->\n```sh\nclaw-mcp-stdio --port 8080 (.*)\n```/.exec(readDocument("docs/operations/tool-policy.md").text) ?? [];
  const script = `exec '${process.execPath}' '${MAIN}' --port ${await freePort()} ${command}`;
  await using sidecar = new Sidecar(spawn("bash", ["-c", script], { stdio: ["ignore", "pipe", "pipe"] }));
  const { address } = await sidecar.waitForLog("listening");
  await sidecar.waitForLog("mcp server ready");
  const client = await new McpClient(`http://${String(address)}/mcp`).open();
  const names = (await listedNames(client)).flat();
  expect(names).toEqual(expect.arrayContaining(["echo", "get-sum"]));
  expect(names.filter((name) => name === "get-env" || !/^(?:get-.*|echo)$/.test(name))).toEqual([]);
});

it("a pod with the shown variables of the Go image is healthy and serves tools", async () => {
  const compose = /<!-- compose: executed by .*-->\n```yaml\n(.*?)```/s.exec(MIGRATION)?.[1] ?? "";
  const {
    CLAW_MCP_STDIO_COMMAND: command = "",
    CLAW_MCP_STDIO_ARGS: args = "",
    ...env
  } = (parse(compose) as ComposeFile).services.everything.environment;
  await using pod = await Pod.start({ command, args: JSON.parse(args) as string[], env: { ...env, PATH: process.env["PATH"] ?? "" } });
  expect(await addTwoAndThree(pod.url, env["CLAW_MCP_STDIO_AUTH_TOKEN"] ?? "")).toBe("The sum of 2 and 3 is 5.");
  expect(await runMain(["-healthcheck"], pod.env)).toMatchObject({ code: 0 });
  expect(await send(`${pod.origin}/status`, { method: "GET" })).toMatchObject({ status: 401 });
});

const BLOCKS = [...readDocument("docs/TROUBLESHOOTING.md").text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, script = ""]) => script);

/** Part of the output of each block, in their order. */
const OUTPUTS = ['"state":"ready"', '"name": "echo"', "CLAW_MCP_STDIO_COMMAND = npx  (command line)", '"name": "echo"'];

async function run(block: string, address: string): Promise<string> {
  const script = block
    .replaceAll("localhost:8080", address)
    .replaceAll(/^claw-mcp-stdio/gm, `'${process.execPath}' '${MAIN}'`)
    .replaceAll("node examples/echo-server/server.js", `'${process.execPath}' '${EXAMPLE}'`);
  const { stdout } = await promisify(execFile)("bash", ["-euo", "pipefail", "-c", script]);
  return stdout;
}

it("the commands print the output that the document shows", async () => {
  await using sidecar = await HttpBench.start({ command: [process.execPath, EXAMPLE] });
  const outputs: string[] = [];
  for (const block of BLOCKS) outputs.push(await run(block, sidecar.origin.replace("http://", "")));
  expect(outputs).toEqual(OUTPUTS.map((text): unknown => expect.stringContaining(text)));
});

const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

function bash(
  args: readonly string[],
  options: { readonly cwd?: string } = {},
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  // At level 1, bash would read the start-up files of the machine, because its stdin is a socket.
  return promisify(execFile)("bash", args, { ...options, env: { ...process.env, SHLVL: "1" } });
}

function codeBlock(after: string): string {
  const block = /```\w+\n(.*?)```/s.exec(readme.slice(readme.indexOf(after)))?.[1];
  if (block === undefined) throw new Error(`no code block after ${after}`);
  return block;
}

it("the first command calls a tool of the bundled example, with the output shown", async () => {
  await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE] });
  const script = codeBlock("<!-- executed: first call -->").replaceAll("http://127.0.0.1:8080", sidecar.origin);
  const { stdout } = await bash(["-euo", "pipefail", "-c", script], { cwd: ROOT });
  const shown = /It prints `(.*?)`\./.exec(readme)?.[1];
  expect(shown).toContain('"text":"5"');
  expect(stdout).toBe(`${shown}\n`);
});

it("the banner is that of the bundled example", async () => {
  await using terminal = TerminalRun.sidecar(["--", "node", "examples/echo-server/server.js"], { NO_COLOR: "1" });
  const url = await terminal.url();
  const banner = codeBlock("<!-- compared: banner -->");
  await terminal.waitFor(/ Ctrl-C\r\n/);
  expect(`${terminal.lines.join("\n").trim()}\n`).toBe(banner.replaceAll("http://127.0.0.1:8080", new URL(url).origin));
  expect(await terminal.interrupt()).toBe(0);
});

it("the discover commands write a descriptor, and report a difference only if there is one", async () => {
  await using directory = await TempDir.create();
  const script = codeBlock("<!-- executed: discover -->")
    .replaceAll("npx node dist/main.js", `'${process.execPath}' '${MAIN}'`)
    .replaceAll("examples/echo-server/server.js", `'${EXAMPLE}'`);
  const runScript = (text: string): ReturnType<typeof bash> => bash(["-euo", "pipefail", "-c", text], { cwd: directory.path });
  const { stdout, stderr } = await runScript(script);
  const path = /The first command writes `(.*?)`/.exec(readme)?.[1] ?? "";
  expect({ stdout, stderr }).toEqual({ stdout: "", stderr: `2 tools, written to ${path}\n2 tools, as in ${path}\n` });

  const snapshot = readFileSync(directory.file(path), "utf8");
  writeFileSync(directory.file(path), snapshot.replace("Adds two numbers.", "Adds numbers."));
  const check = script.split("\n").find((line) => line.includes("--check")) ?? "";
  await expect(runScript(check)).rejects.toMatchObject({ code: 3, stdout: expect.stringMatching(/^~ add: description: /) as string });
});

it("the URL and headers shown let an SDK client call a tool, and are required", async () => {
  const config = JSON.parse(codeBlock("<!-- executed: client -->")) as {
    readonly mcpServers: { readonly echo: { readonly url: string; readonly headers: Readonly<Record<string, string>> } };
  };
  const { url, headers } = config.mcpServers.echo;
  const token = headers["Authorization"]?.replace("Bearer ", "") ?? "";
  await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE], env: { CLAW_MCP_STDIO_AUTH_TOKEN: token } });
  const here = url.replace("http://localhost:8080", sidecar.origin);
  await using client = await SdkClient.connect(here, headers);
  const result = await client.callTool({ name: "add", arguments: { a: 2, b: 3 } });
  expect(result.content).toEqual([{ type: "text", text: "5" }]);
  await expect(SdkClient.connect(here)).rejects.toThrow("UNAUTHORIZED");
});
