import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { readDocument, ROOT } from "../../../test/support/markdown.ts";
import { freePort } from "../../../test/support/open-sockets.ts";
import { ShellCommand } from "../../../test/support/shell-command.ts";

it("the commands of the README start both programs, and show an answer of the device", async () => {
  const { text: readme } = readDocument("examples/clawseed-remote/README.md");
  const { PATH, HOME } = process.env;
  const [, tryIt = ""] = /## Try it([\s\S]*?)\n## /.exec(readme) ?? [];
  const [installAndStart = "", device = "", call = "", shown = ""] = [...tryIt.matchAll(/```\w+\n([\s\S]*?)\n```/g)].map(
    ([, block = ""]) => block,
  );
  const start = installAndStart.split("\n").at(-1) ?? "";
  const [port, gatewayPort] = [await freePort(), await freePort()];
  await using gateway = new ShellCommand(start, { PATH, HOME, PORT: String(port), GATEWAY_ADDR: `127.0.0.1:${gatewayPort}` });
  await gateway.untilOutput("mcp server ready");
  await using desk = new ShellCommand(device, { PATH, HOME, GATEWAY_URL: `ws://127.0.0.1:${gatewayPort}` });
  await desk.untilOutput("registered 2 of 2 tools");
  const { stdout } = await promisify(execFile)("sh", ["-c", call.replace("8080", String(port))], { cwd: ROOT });
  const varying = (text: string): string => text.trim().replaceAll(/(\\":\\")[^"]*(\\")/g, "$1…$2");
  expect(varying(stdout)).toBe(varying(shown));
});
