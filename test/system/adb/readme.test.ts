import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { readExample } from "../../support/example-files.ts";
import { ROOT } from "../../support/markdown.ts";
import { OwnedResources } from "../../support/owned-resources.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { freePort } from "../../support/open-sockets.ts";
import { ShellCommand } from "../../support/shell-command.ts";

it("the commands of the README call a tool of the stand-in", async () => {
  await using owned = new OwnedResources();
  const folder = owned.use(await TempDir.create());
  const [port, devicePort, adbPort] = [await freePort(), await freePort(), await freePort()];
  const env = { ...process.env, HOME: folder.path, ANDROID_ADB_SERVER_PORT: String(adbPort), PORT: String(port) };
  const readme = readExample("cetp-bridge/README.md");
  const [, block = ""] = /```sh\n(npm --prefix [\s\S]*?)```/.exec(readme) ?? [];
  const [standIn = "", bridge = "", call = ""] = block
    .trim()
    .replaceAll(/#.*/g, "")
    .replaceAll("run stand-in", `run stand-in -- --port ${devicePort}`)
    .replaceAll("127.0.0.1:5555", `127.0.0.1:${devicePort}`)
    .replaceAll("localhost:8080", `127.0.0.1:${port}`)
    .split("\n");
  await owned.use(new ShellCommand(standIn, env)).untilOutput("stand-in: ");
  await owned.use(new ShellCommand(bridge, env)).untilOutput("mcp server ready");
  const { stdout } = await promisify(execFile)("sh", ["-c", call], { env, cwd: ROOT });
  const [, shown = ""] = /```json\n([\s\S]*?)```/.exec(readme) ?? [];
  expect(JSON.parse(stdout)).toEqual(JSON.parse(shown));
});
