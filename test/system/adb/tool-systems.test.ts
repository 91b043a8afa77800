import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { readExample } from "../../support/example-files.ts";
import { ROOT } from "../../support/markdown.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { freePort } from "../../support/open-sockets.ts";

it("the command of the README leads a model to a tool of each server", async () => {
  await using folder = await TempDir.create();
  const [gatewayPort, phonePort, adbPort] = [await freePort(), await freePort(), await freePort()];
  const env = {
    ...process.env,
    HOME: folder.path,
    // Without the lines of npm itself.
    npm_config_loglevel: "silent",
    GATEWAY_ADDR: `127.0.0.1:${gatewayPort}`,
    GATEWAY_URL: `ws://127.0.0.1:${gatewayPort}`,
    ANDROID_SERIAL: `127.0.0.1:${phonePort}`,
    STAND_IN_PORT: String(phonePort),
    ANDROID_ADB_SERVER_PORT: String(adbPort),
  };
  const readme = readExample("tool-systems/README.md");
  const [, command = ""] = /```sh\n(npm [\s\S]*?)\n```/.exec(readme) ?? [];
  const { stdout } = await promisify(execFile)("sh", ["-c", command], { env, cwd: ROOT });
  const [, shown = ""] = /```text\n(sidecar [\s\S]*?)```/.exec(readme) ?? [];
  // Times, ports, and the values of this machine.
  const comparable = (text: string): string =>
    text.replaceAll(/\d+ ms|:\d{4,5}\/|(?<="result":")[^"]*|(?<=(?:model|manufacturer|os_version)\\?":\\?")[^"]*(?=")/g, "…");
  expect(comparable(stdout)).toBe(comparable(shown));
});
