import { symlink } from "node:fs/promises";
import { expect, it } from "vitest";
import type { McpClient } from "../support/mcp-client.ts";
import { FIXTURE, Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

interface Where {
  readonly cwd: string;
  readonly argv: readonly string[];
}

async function where(client: McpClient): Promise<Where> {
  return JSON.parse(await client.toolText("where")) as Where;
}

it("the command is found in the PATH of the server's environment", async () => {
  await using dir = await TempDir.create();
  await symlink(process.execPath, dir.file("my-runtime"));
  const PATH = `${dir.path}:${process.env["PATH"] ?? ""}`;
  await using sidecar = await Sidecar.start({ command: ["my-runtime", FIXTURE, "normal", "found"], env: { PATH } });
  expect((await where(await sidecar.client())).argv).toEqual(["found"]);
});

it("the server runs in the sidecar's directory, or in that of --cwd", async () => {
  await using dir = await TempDir.create();
  await using here = await Sidecar.start();
  expect((await where(await here.client())).cwd).toBe(process.cwd());
  await using there = await Sidecar.start({ flags: ["--cwd", dir.path] });
  expect((await where(await there.client())).cwd).toBe(dir.path);
  await using byVariable = await Sidecar.start({ env: { CLAW_MCP_STDIO_CWD: dir.path } });
  expect((await where(await byVariable.client())).cwd).toBe(dir.path);
});
