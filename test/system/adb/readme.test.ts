import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { readExample } from "../../support/example-files.ts";
import { ROOT } from "../../support/markdown.ts";
import { OwnedResources } from "../../support/owned-resources.ts";
import { freePort } from "../../support/pod.ts";

import { TempDir } from "../../support/temp-dir.ts";

const WAIT_TIMEOUT_MS = 45_000;

it("the commands of the README call a tool of the stand-in", async () => {
  await using owned = new OwnedResources();
  const folder = owned.use(await TempDir.create());
  const [port, devicePort, adbPort] = [await freePort(), await freePort(), await freePort()];
  const env = { ...process.env, HOME: folder.path, ANDROID_ADB_SERVER_PORT: String(adbPort), PORT: String(port) };
  const [, block = ""] = /```sh\n(npm ci [\s\S]*?)```/.exec(readExample("cetp-bridge/README.md")) ?? [];
  const [install, standIn = "", bridge = "", call = ""] = block
    .trim()
    .replaceAll(/#.*/g, "")
    .replaceAll("run stand-in", `run stand-in -- --port ${devicePort}`)
    .replaceAll("127.0.0.1:5555", `127.0.0.1:${devicePort}`)
    .replaceAll("localhost:8080", `127.0.0.1:${port}`)
    .split("\n");
  expect(install).toBe("npm ci && npm run build && npm --prefix examples/cetp-bridge ci");

  await owned.use(started(standIn, env)).untilLine("stand-in: ");
  await owned.use(started(bridge, env)).untilLine("mcp server ready");
  const { stdout } = await promisify(execFile)("sh", ["-c", call], { env, cwd: ROOT });
  const [, shown = ""] = /```json\n([\s\S]*?)```/.exec(readExample("cetp-bridge/README.md")) ?? [];
  expect(JSON.parse(stdout)).toEqual(JSON.parse(shown));
});

/** A command line in a process group of its own, which is ended with all its processes. */
interface Started extends AsyncDisposable {
  untilLine(part: string): Promise<void>;
}

function started(command: string, env: NodeJS.ProcessEnv): Started {
  const child = spawn("sh", ["-c", `exec 2>&1; ${command}`], { env, cwd: ROOT, detached: true, stdio: ["ignore", "pipe", "inherit"] });
  // All processes have closed their output, not the first one only.
  const closed = once(child, "close");
  const lines = createInterface({ input: child.stdout });
  return {
    async untilLine(part) {
      for (;;) {
        const [line] = (await once(lines, "line", { signal: AbortSignal.timeout(WAIT_TIMEOUT_MS) })) as [string];
        if (line.includes(part)) return;
      }
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
      await closed;
    },
  };
}
