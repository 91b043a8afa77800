import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readdirSync } from "node:fs";
import { constants } from "node:os";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { listingServer, RunningDiscover, runDiscover } from "../support/discover.ts";
import { signalTaken } from "../support/process-end.ts";
import { FIXTURE, isGroupAlive, MAIN } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const SERVER = [process.execPath, FIXTURE];

/** Runs discover, which must fail: exit code 1, empty stdout, no file. Returns its stderr. */
async function failure(
  command: readonly string[],
  flags: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  await using directory = await TempDir.create();
  const out = ["--out", directory.file("made/snapshot.json")];
  const { code, stdout, stderr } = await runDiscover([...flags, ...out, "--", ...command], { env });
  expect({ code, stdout, files: readdirSync(directory.path) }).toEqual({ code: 1, stdout: "", files: [] });
  return stderr;
}

describe("a failure of discover", () => {
  it.each([
    ["does not exist", ["/no/such/program"], "/no/such/program could not be started (ENOENT)\n"],
    ["is not executable", [FIXTURE], `${FIXTURE} could not be started (EACCES)\n`],
    [
      "exits at its start",
      [...SERVER, "exit-at-initialize"],
      `${process.execPath} exited with code 3 before it answered initialize\nthe last lines of the server's stderr:\n  cannot open the database\n`,
    ],
    ["closes its stdout", [...SERVER, "close-stdout-at-initialize"], "the server closed its stdout before it answered initialize\n"],
  ])("a server that %s is reported", async (_what, command, said) => {
    expect(await failure(command)).toBe(`discover failed: ${said}`);
  });

  it("a server that rejects initialize is reported", async () => {
    expect(await failure([...SERVER, "refuse"])).toContain('answered initialize with an error: {"code":-32603,"message":"no license"}\n');
  });

  it.each([
    ["repeats a cursor", "same-cursor", "tools/list: page 2 repeats an earlier cursor; the list would never end"],
    [
      "sends too many bytes in one message",
      "huge-line",
      /The response of the MCP server to tools\/list was discarded: it has 7\d{7} bytes, more than 67108864/,
    ],
  ])("a server that %s is reported", async (_what, mode, said) => {
    expect(await failure(listingServer(mode))).toMatch(said);
  });

  it.each([
    ["initialize", "silent", "300"],
    // The start and the first responses take a part of this time.
    ["tools/list", "hangs-at-page-2", "4000"],
  ])("a server that does not answer %s in time is reported", async (method, mode, timeoutMs) => {
    expect(await failure(listingServer(mode), ["--timeout-ms", timeoutMs])).toContain(
      `discover failed: no response to ${method} within ${timeoutMs} ms`,
    );
  });
});

describe("discover", () => {
  it("discover fails if its stdout is full", async () => {
    const full = openSync("/dev/full", "w");
    const child = spawn(process.execPath, [MAIN, "discover", ...listingServer("plain")], { stdio: ["ignore", full, "pipe"] });
    closeSync(full);
    let stderr = "";
    child.stderr?.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
    const [code] = (await once(child, "close")) as [number];
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^discover failed: stdout cannot be written: ENOSPC/) as string,
    });
  });

  it("discover neither waits for a pipe given to --out nor replaces it", async () => {
    await using directory = await TempDir.create();
    const path = directory.file("pipe");
    await promisify(execFile)("mkfifo", [path]);
    const { code, stderr } = await runDiscover(["--out", path, ...listingServer("plain")]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: `discover failed: ${path}: is not a regular file\n` });
  });
});

describe("the processes of discover", () => {
  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("%s terminates the server, and the exit code is that of the signal", async (signal) => {
    await using directory = await TempDir.create();
    const out = directory.file("snapshot.json");
    await using running = new RunningDiscover(["--out", out, ...listingServer("silent", directory.file("pid"))]);
    const pid = await running.serverPid(directory.file("pid"));
    running.process.kill(signal);
    expect(await running.exited).toEqual({ code: 128 + constants.signals[signal], signal: null });
    expect(running.stderr).toBe(`discover failed: ended by ${signal}\n`);
    expect(isGroupAlive(pid)).toBe(false);
    expect(existsSync(out)).toBe(false);
  });

  it("a second signal terminates a stubborn server at once", async () => {
    await using directory = await TempDir.create();
    await using patient = new RunningDiscover(listingServer("stubborn", directory.file("once")));
    await using twice = new RunningDiscover(listingServer("stubborn", directory.file("twice")));
    const pids = await Promise.all([patient.serverPid(directory.file("once")), twice.serverPid(directory.file("twice"))]);
    const ended: string[] = [];
    for (const [name, running] of Object.entries({ once: patient, twice })) void running.exited.then(() => ended.push(name));
    twice.process.kill("SIGINT");
    await signalTaken(Number(twice.process.pid), "SIGINT");
    twice.process.kill("SIGINT");
    patient.process.kill("SIGINT");
    expect(await twice.exited).toEqual({ code: 130, signal: null });
    expect((await patient.exited).code).toBe(130);
    // Without a second signal, the termination takes 3 s.
    expect(ended).toEqual(["twice", "once"]);
    expect(pids.map(isGroupAlive)).toEqual([false, false]);
  });
});
