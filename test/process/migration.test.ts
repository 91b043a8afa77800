import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { send } from "../support/http-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { freePort } from "../support/open-sockets.ts";
import { Pod } from "../support/pod.ts";
import { MAIN, runMain, Sidecar } from "../support/sidecar.ts";

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
