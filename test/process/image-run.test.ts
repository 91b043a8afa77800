import { execFile } from "node:child_process";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { ROOT } from "../support/markdown.ts";
import { TempDir } from "../support/temp-dir.ts";

const IMAGE_TESTS = join(ROOT, "test/image/run.ts");
const NO_DOCKER = { PATH: "/nonexistent" };

describe("npm run test:image", () => {
  it("the command fails with the reason if no container engine answers", async () => {
    const run = promisify(execFile)(process.execPath, [IMAGE_TESTS], { env: NO_DOCKER, cwd: ROOT });
    await expect(run).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("No container engine answers") as string });
  });

  it("the command passes with SKIP_IMAGE=1, and says that the image is not tested", async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [IMAGE_TESTS], { env: { ...NO_DOCKER, SKIP_IMAGE: "1" }, cwd: ROOT });
    expect(stdout).toBe("The image is NOT tested: SKIP_IMAGE=1.\n");
  });
});

describe(".ci/run", () => {
  /** Returns the commands that `.ci/run` runs in a clone in which npm, and the helper beside it, only print their arguments. */
  async function commandsOf({ hasHelper, env = {} }: { hasHelper: boolean; env?: Record<string, string> }): Promise<string[]> {
    await using directory = await TempDir.create();
    const write = async (name: string, script: string): Promise<void> => {
      await mkdir(join(directory.file(name), ".."), { recursive: true });
      await writeFile(directory.file(name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    };
    await write("bin/npm", 'echo "npm $*"');
    // Without these, it would install them.
    for (const name of ["promtool", "haproxy", "nginx", "chromium", "adb"]) await write(`bin/${name}`, "");
    if (hasHelper) await write("shared/image/with-docker", 'echo "an engine for:"; exec "$@"');
    await mkdir(directory.file("clone/.ci"), { recursive: true });
    await copyFile(join(ROOT, ".ci/run"), directory.file("clone/.ci/run"));
    const path = `${directory.file("bin")}:${process.env["PATH"]}`;
    const { stdout } = await promisify(execFile)(directory.file("clone/.ci/run"), { env: { PATH: path, ...env } });
    return stdout.trim().split("\n");
  }

  it("all tests run", async () => {
    expect(await commandsOf({ hasHelper: false })).toEqual(["npm ci", "npm test", "npm run test:all"]);
  });

  it("tests use the engine of the helper beside the clone", async () => {
    expect(await commandsOf({ hasHelper: true })).toEqual(["npm ci", "npm test", "an engine for:", "npm run test:all"]);
  });

  it("no engine is started with SKIP_IMAGE=1", async () => {
    const env = { SKIP_IMAGE: "1" };
    expect(await commandsOf({ hasHelper: true, env })).toEqual(["npm ci", "npm test", "npm run test:all"]);
  });
});
