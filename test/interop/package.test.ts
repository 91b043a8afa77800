import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { delimiter, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { send } from "../support/http-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** npm may have to download dependencies: only a hang reaches this limit. */
const INSTALL_TIMEOUT_MS = 120_000;
/** The program's `#!` line asks for `node`: this makes it the version that runs the test. */
const ENV = { ...process.env, PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter) };

async function npm(cwd: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("npm", args, { cwd, env: ENV, timeout: INSTALL_TIMEOUT_MS });
  return stdout;
}

function filesBelow(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => `${entry.parentPath}/${entry.name}`.slice(folder.length + 1));
}

describe("the package, installed in an empty folder", () => {
  let directory: TempDir;

  beforeAll(async () => {
    directory = await TempDir.create();
    // Without scripts: the build under test is packed, which other tests run at the same time.
    await npm(ROOT, "pack", "--ignore-scripts", "--pack-destination", directory.path);
    const [tarball = ""] = await readdir(directory.path);
    // The prefix keeps npm from looking for a project in the parent folders.
    const quiet = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
    await npm(directory.path, "install", ...quiet, "--prefix", directory.path, directory.file(tarball));
  }, INSTALL_TIMEOUT_MS);

  afterAll(() => directory[Symbol.asyncDispose]());

  it("the package contains the bundle, README's example and documents, and needs no other package", () => {
    const built = filesBelow(`${ROOT}dist`).map((path) => `dist/${path}`);
    const others = ["LICENSE", "README.md", "SECURITY.md", "package.json", "examples/echo-server/server.js"];
    expect(filesBelow(directory.file("node_modules/claw-mcp-stdio")).toSorted()).toEqual([...built, ...others].toSorted());
    expect(readdirSync(directory.file("node_modules")).toSorted()).toEqual([".bin", ".package-lock.json", "claw-mcp-stdio"]);
  });

  it("its binary starts the program, which serves a tool call and exits with 0 at SIGTERM", async () => {
    const options = ["--addr", "127.0.0.1:0", "--", "node", "node_modules/claw-mcp-stdio/examples/echo-server/server.js"];
    const binary = spawn(directory.file("node_modules/.bin/claw-mcp-stdio"), options, {
      cwd: directory.path,
      env: ENV,
      stdio: ["ignore", "pipe", "pipe"],
    });
    await using sidecar = new Sidecar(binary);
    const { address } = await sidecar.waitForLog("listening");
    await sidecar.waitForLog("mcp server ready");
    const client = await new McpClient(`http://${String(address)}/mcp`).open();
    expect(await client.toolText("add", { a: 2, b: 3 }).finally(() => binary.kill("SIGTERM"))).toBe("5");
    expect(await sidecar.exited).toEqual({ code: 0, signal: null });
    await sidecar.waitForLog("mcp server ended");
  });

  it("a server that README.md's command has downloaded is served, also with npx", { timeout: 2 * INSTALL_TIMEOUT_MS }, async () => {
    const command = "claw-mcp-stdio -- npx -y @modelcontextprotocol/server-everything";
    expect(readFileSync(`${ROOT}README.md`, "utf8")).toContain(`\n${command}\n`);
    const args = command.replace(" -- ", " --addr 127.0.0.1:0 -- ").split(" ");
    // The download may take any time, which must not count below: there, a limit of seconds detects a hang of the sidecar.
    await npm(directory.path, "exec", "--yes", "--prefer-offline", "--package", args.at(-1) ?? "", "--", "true");
    const env = { ...ENV, npm_config_prefer_offline: "true" };
    await using sidecar = new Sidecar(spawn("npx", args, { cwd: directory.path, env, stdio: ["ignore", "pipe", "pipe"] }));
    const { address, pid } = await sidecar.waitForLog("listening");
    // npx does not forward signals: the sidecar gets this one, and its exit code comes through npx.
    const ready = sidecar.waitForLog("mcp server ready").then(() => new McpClient(`http://${String(address)}/mcp`).open());
    const sum = await ready
      .then((client) => client.toolText("get-sum", { a: 2, b: 3 }))
      .finally(() => process.kill(Number(pid), "SIGTERM"));
    expect(sum).toBe("The sum of 2 and 3 is 5.");
    expect(await sidecar.exited).toEqual({ code: 0, signal: null });
  });

  it("the sidecar outlives a SIGTERM to npx alone, as README.md says", async () => {
    const server = "node_modules/claw-mcp-stdio/examples/echo-server/server.js";
    const command = ["--no-install", "claw-mcp-stdio", "--addr", "127.0.0.1:0", "--", "node", server];
    const npx = spawn("npx", command, { cwd: directory.path, env: ENV, stdio: ["ignore", "pipe", "pipe"] });
    await using sidecar = new Sidecar(npx);
    const { address, pid } = await sidecar.waitForLog("listening");
    await sidecar.waitForLog("mcp server ready");
    // The stream closes when the sidecar has exited, too.
    const stdoutClosed = once(npx.stdout, "close");
    sidecar.kill();
    await sidecar.exited;
    const live = await send(`http://${String(address)}/livez`, { method: "GET" }).finally(() => process.kill(Number(pid), "SIGTERM"));
    expect(live.status).toBe(200);
    await stdoutClosed;
  });
});
