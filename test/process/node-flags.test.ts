import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, symlink } from "node:fs/promises";
import { delimiter, dirname } from "node:path";
import { expect, it } from "vitest";
import { McpClient } from "../support/mcp-client.ts";
import { FIXTURE, MAIN, Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

/** No shell passes on the first two: their names are not those of shell variables. */
const VARIABLES = { "npm_config_//registry.example/:_authToken": "t", "a.b-c": "dots", EMPTY: "", LINES: "one\n'two'" };
/** The program's `#!` line asks for `node`: this makes it the version that runs the test. */
const PATH = [dirname(process.execPath), process.env["PATH"]].join(delimiter);

function commandLine(pid: number): string[] {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1);
}

it("Node gets its memory flags; process id, arguments and variables stay the same", async () => {
  await using directory = await TempDir.create();
  const folder = directory.file("with a space");
  await mkdir(folder);
  const program = `${folder}/claw-mcp-stdio`;
  await symlink(MAIN, program);
  const args = ["--addr", "127.0.0.1:0", "--", process.execPath, FIXTURE, "normal", "two words", "", "$HOME 'x'"];
  const env = { ...process.env, ...VARIABLES, PATH };
  await using sidecar = new Sidecar(spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] }));
  const { address, pid } = await sidecar.waitForLog("listening");
  expect(pid).toBe(sidecar.process.pid);
  const [, ...rest] = commandLine(Number(pid));
  expect(rest.filter((arg) => !arg.startsWith("--max-old-space-size="))).toEqual(["--max-semi-space-size=8", program, ...args]);

  await sidecar.waitForLog("mcp server ready");
  const client = await new McpClient(`http://${String(address)}/mcp`).open();
  expect(JSON.parse(await client.toolText("env"))).toMatchObject(VARIABLES);
  expect(JSON.parse(await client.toolText("where"))).toMatchObject({ argv: args.slice(-3) });
  expect(sidecar.stderr).toBe("");
  expect(await sidecar.stop()).toBe(0);
});

it("a size that the operator has chosen is kept", async () => {
  const args = [MAIN, "--addr", "127.0.0.1:0", "--", process.execPath, FIXTURE];
  const env = { ...process.env, NODE_OPTIONS: "--max-semi-space-size=32" };
  await using sidecar = new Sidecar(spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] }));
  const { pid } = await sidecar.waitForLog("listening");
  expect(commandLine(Number(pid)).filter((arg) => arg.startsWith("--max-semi-space-size"))).toEqual([]);
});
