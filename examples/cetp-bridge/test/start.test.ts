import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { ROOT } from "../../../test/support/markdown.ts";
import { freePort } from "../../../test/support/open-sockets.ts";
import { groupMembers } from "../../../test/support/sidecar.ts";
import { MAIN } from "./bridge.ts";
import { FakeAdb } from "./fake-adb.ts";

const PATH = process.env["PATH"] ?? "";

it.each([
  [{ REFRESH_MS: "5 s" }, "REFRESH_MS must be a number of milliseconds from 100 to 9999999"],
  [{ AUTH_WAIT_MS: "1e5" }, "AUTH_WAIT_MS must be a number of milliseconds from 0 to 9999999"],
  [{ START_APPS: "no" }, "START_APPS must be on or off"],
  [{ ANDROID_SERIAL: "phone:5555; reboot" }, "ANDROID_SERIAL is not a serial of adb devices, and not HOST:PORT"],
  [{ ADB: "/nonexistent/adb" }, "there is no /nonexistent/adb. Install it, on Debian with: apt-get install adb"],
])("the setting %j is rejected with exit code 2 and one line", async (env, line) => {
  const server = spawn(process.execPath, [MAIN], { env: { PATH, ...env }, stdio: ["pipe", "ignore", "pipe"] });
  const [stderr, exit] = await Promise.all([text(server.stderr), once(server, "exit")]);
  expect([exit[0], stderr]).toEqual([2, `cetp-bridge: ${line}\n`]);
});

it("without adb, the command of the README says what it is, and ends with the reason and an exit code", async () => {
  const start = promisify(execFile)("npm", ["--prefix", "examples/cetp-bridge", "start"], {
    cwd: ROOT,
    env: { ...process.env, ADB: "/nonexistent/adb", PORT: String(await freePort()) },
  });
  await expect(start).rejects.toMatchObject({
    code: 2,
    stdout: expect.stringContaining("there is no /nonexistent/adb. Install it, on Debian with: apt-get install adb") as string,
    stderr: expect.stringMatching(/^cetp-bridge-example: An MCP server that offers the tools of Android apps/) as string,
  });
});

it("the bridge and its adb end with stdin", async () => {
  await using adb = await FakeAdb.create({
    "shell*": "echo com.example.a/.Service; echo package:/data/app/a/base.apk=com.example.a",
    "exec-out*": "trap '' TERM; echo $$ >$F/pid; sleep 60; true",
  });
  const server = spawn(process.execPath, [MAIN], { env: { PATH, ADB: adb.path }, stdio: ["pipe", "ignore", "ignore"] });
  const members = async (): Promise<readonly unknown[]> => groupMembers(Number((await adb.read("pid")) || "-1"));
  await expect.poll(members).toHaveLength(2);
  server.stdin.end();
  expect(await once(server, "exit")).toEqual([0, null]);
  await expect.poll(members).toEqual([]);
});
