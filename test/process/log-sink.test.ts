import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { setImmediate, setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import { McpClient } from "../support/mcp-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { readReadiness } from "../support/status.ts";
import { FIXTURE, isGroupAlive, type LogLine, MAIN, Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";
import { TerminalRun } from "../support/terminal.ts";

/** More than the pipe and the sidecar's buffer for a stopped reader hold. */
const FLOOD = { count: 1300, length: 16_000 };
/** Reads 64 KiB at a time, as a process of its own: the sidecar ends when nothing is read for 1 s, and the test may pause for longer. */
const SLOW_READER = `
import os, sys, time
with open(sys.argv[1], "wb", buffering=0) as log:
    while data := os.read(0, 65536):
        log.write(data)
        time.sleep(0.005)
`;
const COMMAND = [MAIN, "--addr", "127.0.0.1:0", "--", process.execPath, FIXTURE];

it("a reader that stops does not keep the sidecar from exiting", async () => {
  await using sidecar = await Sidecar.start();
  const client = await sidecar.client();
  sidecar.process.stdout?.pause();
  const { childPid } = sidecar;
  await client.toolText("stderr", FLOOD);
  sidecar.process.kill("SIGTERM");
  await sidecar.exited;
  await groupEnd(childPid);
  expect(isGroupAlive(childPid)).toBe(false);
});

it("a slow reader gets the whole log of 12 MB after SIGTERM", async () => {
  await using directory = await TempDir.create();
  const logFile = directory.file("log");
  const reader = spawn("python3", ["-c", SLOW_READER, logFile], { stdio: ["pipe", "ignore", "inherit"] });
  const hasRead = once(reader, "exit");
  while (!existsSync(logFile)) await delay(10);
  const sidecar = spawn(process.execPath, ["--max-semi-space-size=8", ...COMMAND], { stdio: ["ignore", reader.stdin, "inherit"] });
  const exited = once(sidecar, "exit");
  reader.stdin.destroy();
  const readLines = (): LogLine[] => {
    const lines = readFileSync(logFile, "utf8").split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line) as LogLine);
  };
  while (!readLines().some(({ msg }) => msg === "mcp server ready")) await delay(10);
  const address = readLines().find(({ msg }) => msg === "listening")?.["address"];
  const client = await new McpClient(`http://${String(address)}/mcp`).open();
  expect(await client.toolText("stderr", { count: 250, length: FLOOD.length })).toBe("written");
  sidecar.kill("SIGTERM");
  expect(await exited).toEqual([0, null]);
  await hasRead;
  const messages = readLines().map(({ msg }) => msg);
  expect(messages).toEqual(expect.arrayContaining(["stopping", "mcp server ended"]));
  expect(messages.filter((msg) => msg === "e".repeat(FLOOD.length))).toHaveLength(250);
});

it("a slow reader is told how many lines were dropped before SIGTERM", async () => {
  await using sidecar = await Sidecar.start();
  const client = await sidecar.client();
  sidecar.process.stdout?.pause();
  expect(await client.toolText("stderr", FLOOD)).toBe("written");
  sidecar.process.kill("SIGTERM");
  while ((await readReadiness(sidecar)).httpStatus === 200);
  sidecar.process.stdout?.resume();
  expect(await sidecar.exited).toEqual({ code: 0, signal: null });
  expect(await sidecar.waitForLog("log lines dropped: stdout was not read")).toMatchObject({ count: expect.any(Number) as number });
});

it("a reader that goes away does not disturb the sidecar", async () => {
  await using sidecar = await Sidecar.start();
  const client = await sidecar.client();
  sidecar.process.stdout?.destroy();
  expect(await client.toolText("stderr", { text: "to nobody", count: 100 })).toBe("written");
  expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
  expect(await sidecar.stop()).toBe(0);
});

it("a full log sink does not keep the sidecar from exiting", async () => {
  const full = openSync("/dev/full", "w");
  const sidecar = spawn(process.execPath, [MAIN, "--addr", "127.0.0.1:0", "--", "/no/such/command"], {
    stdio: ["ignore", full, "inherit"],
  });
  closeSync(full);
  const killer = setTimeout(() => sidecar.kill("SIGKILL"), 120_000);
  expect(await once(sidecar, "exit")).toEqual([127, null]);
  clearTimeout(killer);
});

it("a file on a slow disk gets the last line, and the exit code stays 0", async () => {
  await using directory = await TempDir.create();
  const logFile = directory.file("log");
  const file = openSync(logFile, "w");
  const slowDisk = new URL("../support/slow-disk.js", import.meta.url).href;
  const sidecar = spawn(process.execPath, ["--import", slowDisk, ...COMMAND], { stdio: ["ignore", file, "inherit"] });
  closeSync(file);
  const logged = (text: string): boolean => readFileSync(logFile, "utf8").includes(text);
  while (!logged("mcp server ready")) await setImmediate();
  sidecar.kill("SIGTERM");
  expect(await once(sidecar, "exit")).toEqual([0, null]);
  expect(logged('"kind":"stopped"')).toBe(true);
});

it("a terminal that stops reading does not block calls", async () => {
  await using terminal = TerminalRun.sidecar(["--", process.execPath, FIXTURE], { NO_COLOR: "1" });
  const client = await new McpClient(await terminal.url()).open();
  terminal.stopReading();
  expect(await client.toolText("stderr", FLOOD)).toBe("written");
  expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
});
