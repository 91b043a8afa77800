import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { ROOT } from "../support/markdown.ts";

const IMAGE_TESTS = join(ROOT, "test/image/run.ts");
const NO_DOCKER = { PATH: "/nonexistent" };

it("the command fails with the reason if no container engine answers", async () => {
  const run = promisify(execFile)(process.execPath, [IMAGE_TESTS], { env: NO_DOCKER, cwd: ROOT });
  await expect(run).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("No container engine answers") as string });
});

it("the command passes with SKIP_IMAGE=1, and says that the image is not tested", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [IMAGE_TESTS], { env: { ...NO_DOCKER, SKIP_IMAGE: "1" }, cwd: ROOT });
  expect(stdout).toBe("The image is NOT tested: SKIP_IMAGE=1.\n");
});
