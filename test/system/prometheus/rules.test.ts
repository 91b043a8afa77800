import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { send } from "../../support/http-client.ts";
import { EXAMPLE, Sidecar } from "../../support/sidecar.ts";

const FOLDER = fileURLToPath(new URL("../../../examples/observability/", import.meta.url));
const promtool = (...args: readonly string[]): Promise<unknown> => promisify(execFile)("promtool", args, { cwd: FOLDER });

it("the rules are valid, and their tests pass", async () => {
  await expect(promtool("check", "rules", "rules.yml")).resolves.toMatchObject({
    stdout: expect.stringContaining("9 rules found") as string,
  });
  await expect(promtool("test", "rules", "rules.test.yml")).resolves.toMatchObject({
    stdout: expect.stringContaining("SUCCESS") as string,
  });
});

it("names and help of all metrics follow the rules of Prometheus", async () => {
  await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE] });
  await (await sidecar.client()).request("tools/list");
  const check = spawn("promtool", ["check", "metrics"], { stdio: ["pipe", "pipe", "pipe"] });
  check.stdin.end((await send(`${sidecar.origin}/metrics`, { method: "GET" })).body);
  const [output, problems] = await Promise.all([text(check.stdout), text(check.stderr), once(check, "close")]);
  expect([output, problems, check.exitCode]).toEqual(["", "", 0]);
});
