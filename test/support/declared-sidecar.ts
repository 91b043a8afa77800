import { mkdir, symlink, writeFile } from "node:fs/promises";
import { McpClient } from "./mcp-client.ts";
import { Pod } from "./pod.ts";
import { FIXTURE } from "./sidecar.ts";
import type { TempDir } from "./temp-dir.ts";

/** Installs the test server under the package's name in a folder that npx searches before it downloads. */
async function installLocally(directory: TempDir, name: string): Promise<void> {
  await mkdir(directory.file(`node_modules/${name}`), { recursive: true });
  await mkdir(directory.file("node_modules/.bin"));
  await writeFile(directory.file(`node_modules/${name}/package.json`), JSON.stringify({ name, version: "1.0.0", bin: "server.js" }));
  const program = `#!${process.execPath}\nimport(${JSON.stringify(FIXTURE)});\n`;
  await writeFile(directory.file(`node_modules/${name}/server.js`), program, { mode: 0o755 });
  await symlink(`../${name}/server.js`, directory.file(`node_modules/.bin/${name}`));
}

/** Starts a sidecar as an example declares it, with its command and arguments. */
export async function startDeclared(directory: TempDir, declared: Readonly<Record<string, string>>): Promise<Pod> {
  await installLocally(directory, "perplexity-mcp");
  return Pod.start({
    env: {
      ...declared,
      PATH: process.env["PATH"] ?? "",
      npm_config_cache: directory.file(".npm"),
      npm_config_update_notifier: "false",
      npm_config_offline: "true",
      CLAW_MCP_STDIO_CWD: directory.path,
    },
  });
}

export async function serverEnvironment(
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Readonly<Record<string, string>>> {
  const client = await new McpClient(url, { headers }).open();
  return JSON.parse(await client.toolText("env")) as Record<string, string>;
}
