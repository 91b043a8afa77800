import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { readExample } from "../../support/example-files.ts";
import { ROOT } from "../../support/markdown.ts";
import { OwnedResources } from "../../support/owned-resources.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { freePort } from "../../support/open-sockets.ts";
import { ShellCommand } from "../../support/shell-command.ts";

it("the commands of the README lead a model to a tool of each server", async () => {
  await using owned = new OwnedResources();
  const folder = owned.use(await TempDir.create());
  const [gatewayPort, phonePort, adbPort] = [await freePort(), await freePort(), await freePort()];
  const env = {
    ...process.env,
    HOME: folder.path,
    // Without the lines of npm itself.
    npm_config_loglevel: "silent",
    GATEWAY_ADDR: `127.0.0.1:${gatewayPort}`,
    GATEWAY_URL: `ws://127.0.0.1:${gatewayPort}`,
    ANDROID_SERIAL: `127.0.0.1:${phonePort}`,
    ANDROID_ADB_SERVER_PORT: String(adbPort),
  };
  const readme = readExample("tool-systems/README.md");
  const [, commands = ""] = /```sh\n(npm ci [\s\S]*?)\n```/.exec(readme) ?? [];
  const [install, device = "", phone = "", demo = ""] = commands.split("\n");
  expect(install).toBe("npm ci && npm run build && npm run examples:install");

  owned.use(new ShellCommand(device, env));
  await owned.use(new ShellCommand(`${phone} -- --port ${phonePort}`, env)).untilOutput("stand-in: ");
  const { stdout } = await promisify(execFile)("sh", ["-c", demo], { env, cwd: ROOT });
  const [, shown = ""] = /```text\n(sidecar [\s\S]*?)```/.exec(readme) ?? [];
  // Times, ports, and the values of this machine.
  const comparable = (text: string): string =>
    text.replaceAll(/\d+ ms|:\d{4,5}\/|(?<="result":")[^"]*|(?<=(?:model|manufacturer|os_version)\\?":\\?")[^"]*(?=")/g, "…");
  expect(comparable(stdout)).toBe(comparable(shown));
});
