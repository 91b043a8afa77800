import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { ROOT } from "../support/markdown.ts";
import { SdkClient } from "../support/sdk-client.ts";
import { EXAMPLE, MAIN, Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";
import { TerminalRun } from "../support/terminal.ts";

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
  const run = (text: string): ReturnType<typeof bash> => bash(["-euo", "pipefail", "-c", text], { cwd: directory.path });
  const { stdout, stderr } = await run(script);
  const path = /The first command writes `(.*?)`/.exec(readme)?.[1] ?? "";
  expect({ stdout, stderr }).toEqual({ stdout: "", stderr: `2 tools, written to ${path}\n2 tools, as in ${path}\n` });

  const snapshot = readFileSync(directory.file(path), "utf8");
  writeFileSync(directory.file(path), snapshot.replace("Adds two numbers.", "Adds numbers."));
  const check = script.split("\n").find((line) => line.includes("--check")) ?? "";
  await expect(run(check)).rejects.toMatchObject({ code: 3, stdout: expect.stringMatching(/^~ add: description: /) as string });
});

it("the URL and headers shown let an SDK client call a tool, and are required", async () => {
  const config = JSON.parse(codeBlock("<!-- executed: client -->")) as {
    readonly mcpServers: { readonly echo: { readonly url: string; readonly headers: Readonly<Record<string, string>> } };
  };
  const { url, headers } = config.mcpServers.echo;
  const token = headers["Authorization"]?.replace("Bearer ", "") ?? "";
  await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE], env: { CLAW_MCP_STDIO_AUTH_TOKEN: token } });
  const here = url.replace("http://localhost:8080", sidecar.origin);
  await using client = await SdkClient.connect(here, { headers });
  const result = await client.callTool({ name: "add", arguments: { a: 2, b: 3 } });
  expect(result.content).toEqual([{ type: "text", text: "5" }]);
  await expect(SdkClient.connect(here)).rejects.toThrow("UNAUTHORIZED");
});
