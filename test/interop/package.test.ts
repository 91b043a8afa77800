import { execFile, spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { delimiter } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RawClient } from "../support/http-client.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** Dependencies may have to come from the registry: a limit that only a hang reaches. */
const INSTALL_TIMEOUT_MS = 120_000;
/** The program's `#!` line asks for `node`: it gets the one of the project, as its users are told to have. */
const ENV = { ...process.env, PATH: [`${ROOT}node_modules/.bin`, process.env["PATH"]].join(delimiter) };

async function npm(cwd: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("npm", args, { cwd, env: ENV, timeout: INSTALL_TIMEOUT_MS });
  return stdout;
}

function filesBelow(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => `${entry.parentPath}/${entry.name}`.slice(folder.length + 1));
}

async function addTwoAndThree(sidecar: Sidecar, address: string): Promise<string> {
  await sidecar.waitForLog("mcp server ready");
  const client = await new RawClient(`http://${address}/mcp`).open();
  return client.toolText("add", { a: 2, b: 3 });
}

describe("the package, packed and installed in an empty folder", () => {
  let directory: TempDir;

  beforeAll(async () => {
    directory = await TempDir.create();
    // No scripts: what is packed is the build under test, which others are running at the same time.
    await npm(ROOT, "pack", "--ignore-scripts", "--pack-destination", directory.path);
    const [tarball = ""] = await readdir(directory.path);
    // The prefix keeps npm from looking for a project in the folders above.
    const quiet = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
    await npm(directory.path, "install", ...quiet, "--prefix", directory.path, directory.file(tarball));
  }, INSTALL_TIMEOUT_MS);

  afterAll(() => directory[Symbol.asyncDispose]());

  it("holds the compiled sources, the example of the README, and what a reader needs: no tests, no source maps", () => {
    const compiled = filesBelow(`${ROOT}src`).map((path) => `dist/${path.replace(/\.ts$/, ".js")}`);
    const others = ["LICENSE", "README.md", "SECURITY.md", "package.json", "examples/echo-server/server.js"];
    expect(filesBelow(directory.file("node_modules/claw-mcp-stdio")).toSorted()).toEqual([...compiled, ...others].toSorted());
  });

  it.each([
    { name: "its binary", command: ["node_modules/.bin/claw-mcp-stdio"] },
    { name: "npx", command: ["npx", "--no-install", "claw-mcp-stdio"] },
  ])("serves a tool call when started by $name, and ends with 0 on SIGTERM", async ({ command: [program = "", ...args] }) => {
    const server = "node_modules/claw-mcp-stdio/examples/echo-server/server.js";
    const options = [...args, "--addr", "127.0.0.1:0", "--", "node", server];
    await using sidecar = new Sidecar(spawn(program, options, { cwd: directory.path, env: ENV, stdio: ["ignore", "pipe", "pipe"] }));
    const { address, pid } = await sidecar.waitForLog("listening");
    // npx does not pass a signal on: it goes to the sidecar, and the exit code comes back through npx.
    const sum = await addTwoAndThree(sidecar, String(address)).finally(() => process.kill(Number(pid), "SIGTERM"));
    expect(sum).toBe("5");
    expect(await sidecar.exited).toEqual({ code: 0, signal: null });
    await sidecar.waitForLog("mcp server ended");
  });
});
