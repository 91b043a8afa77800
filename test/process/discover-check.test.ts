import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, lstatSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { MAX_FILE_BYTES } from "../../src/policy/descriptor.ts";
import { listingServer, listTools, runDiscover, RunningDiscover } from "../support/discover.ts";
import { signalTaken } from "../support/process-end.ts";
import { FIXTURE, isGroupAlive, MAIN } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const SERVER = [process.execPath, FIXTURE];
const SEARCH = {
  name: "search",
  description: "Searches.",
  inputSchema: { type: "object", properties: { limit: { type: "integer", maximum: 100 } } },
  annotations: { readOnlyHint: true },
};
const FETCH = { name: "fetch", description: "Fetches." };

async function check(
  reviewed: readonly object[],
  live: readonly object[],
  args: readonly string[] = [],
  directory?: TempDir,
): Promise<Awaited<ReturnType<typeof runDiscover>> & { snapshot: string }> {
  await using own = await TempDir.create();
  const used = directory ?? own;
  const path = used.file("snapshot.json");
  const made = await runDiscover(["--out", path, "--image", "claw:v1", ...SERVER], { env: await listTools(used, reviewed) });
  expect(made.code).toBe(0);
  const snapshot = readFileSync(path, "utf8");
  const result = await runDiscover(["--check", path, ...args, "--", ...SERVER], { env: await listTools(used, live) });
  expect(readFileSync(path, "utf8")).toBe(snapshot);
  expect(readdirSync(used.path).toSorted()).toEqual(["snapshot.json", "tools.json"]);
  const shorten = (text: string): string => text.replaceAll(used.path, "DIR");
  return { ...result, stderr: shorten(result.stderr), snapshot };
}

async function checkInput(
  text: string | Buffer,
  env: Readonly<Record<string, string>>,
  command: readonly string[] = SERVER,
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  await using running = new RunningDiscover(["--check", "-", "--", ...command], { stdin: "pipe", env });
  running.process.stdin?.end(text);
  const { code } = await running.exited;
  return { code, stdout: running.stdout, stderr: running.stderr };
}

it("the exit code is 0 and stdout empty if the tools match in any order", async () => {
  const reordered = { ...SEARCH, inputSchema: { properties: { limit: { maximum: 100, type: "integer" } }, type: "object" } };
  expect(await check([SEARCH, FETCH], [FETCH, reordered])).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "2 tools, as in DIR/snapshot.json\n",
  });
});

it("drift gives exit code 3, and stdout names each difference on a line", async () => {
  const changed = {
    ...SEARCH,
    description: "Searches, and tells us all.",
    inputSchema: { type: "object", properties: { limit: { type: "integer", maximum: 1000 } } },
    annotations: { readOnlyHint: false },
  };
  const { code, stdout, stderr } = await check([SEARCH, FETCH], [{ name: "exfiltrate", description: "New." }, changed]);
  expect(code).toBe(3);
  expect(stdout.trimEnd().split("\n")).toEqual([
    '+ exfiltrate: new: "New."',
    "- fetch: missing: the server does not list it",
    '~ search: description: "Searches." -> "Searches, and tells us all."',
    "~ search: inputSchema.properties.limit.maximum: 100 -> 1000",
    "~ search: annotations.readOnlyHint: true -> false",
  ]);
  expect(stderr).toBe("3 of the tools differ from DIR/snapshot.json\n");
});

it("a changed command, argument list or image is a note on stderr, not drift", async () => {
  const same = await check([SEARCH], [SEARCH], ["--image", "claw:v1"]);
  expect(same).toMatchObject({ code: 0, stderr: "1 tool, as in DIR/snapshot.json\n" });
  await using directory = await TempDir.create();
  const path = directory.file("snapshot.json");
  const env = await listTools(directory, [SEARCH]);
  await runDiscover(["--out", path, "--image", "claw:v1", ...SERVER], { env });
  const script = `exec '${process.execPath}' '${FIXTURE}'`;
  const { code, stdout, stderr } = await runDiscover(["--check", path, "--image", "claw:v2", "sh", "-c", script], { env });
  expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
  expect(stderr.split("\n").slice(0, 3)).toEqual([
    "note: the command differs from the one in the descriptor",
    "note: the list of arguments differs from the one in the descriptor",
    "note: the wrapper image differs from the one in the descriptor",
  ]);
});

it("the exit code is 1, not 3, if the server fails", async () => {
  await using directory = await TempDir.create();
  const path = directory.file("snapshot.json");
  writeFileSync(path, JSON.stringify({ version: 2, tools: [SEARCH] }));
  const { code, stdout, stderr } = await runDiscover(["--check", path, ...SERVER, "exit-at-initialize"]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain("exited with code 3 before it answered initialize");
});

it("the descriptor is read from standard input if the file is -", async () => {
  await using directory = await TempDir.create();
  const descriptor = JSON.stringify({ version: 2, tools: [SEARCH] });
  const same = await checkInput(descriptor, await listTools(directory, [SEARCH]));
  expect(same).toEqual({ code: 0, stdout: "", stderr: "1 tool, as in standard input\n" });
  const drifted = await checkInput(descriptor, await listTools(directory, [FETCH]));
  expect(drifted).toMatchObject({ code: 3, stderr: "2 of the tools differ from standard input\n" });
  expect(drifted.stdout.split("\n")[0]).toMatch(/^\+ fetch: new/);
});

it.each([
  ["is empty", "", "standard input: is not JSON"],
  ["is not a descriptor", "[]", "standard input: is not a descriptor"],
  ["is not UTF-8", Buffer.from([0xff]), "standard input: is not UTF-8"],
  ["exceeds the limit of files", Buffer.alloc(MAX_FILE_BYTES + 1, " "), `standard input: has more than ${MAX_FILE_BYTES} bytes`],
])("the exit code is 1, without a server start, if standard input %s", async (_what, text, reason) => {
  await using directory = await TempDir.create();
  const { code, stdout, stderr } = await checkInput(text, {}, ["sh", "-c", `touch '${directory.file("started")}'`]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain(`discover failed: ${reason}`);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  expect(readdirSync(directory.path)).toEqual([]);
});

it("SIGINT ends discover while standard input is open", async () => {
  await using running = new RunningDiscover(["--check", "-", ...SERVER], { stdin: "pipe" });
  const { stdin } = running.process;
  // More than the pipe holds: the program reads once this is written.
  await new Promise((resolve) => stdin?.write(" ".repeat(1_000_000), resolve));
  running.process.kill("SIGINT");
  expect(await running.exited).toEqual({ code: 130, signal: null });
  expect(running.stderr).toBe("discover failed: ended by SIGINT\n");
});

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

  it.each<[what: string, command: readonly string[], said: string | RegExp, timeoutMs?: string]>([
    ["rejects initialize", [...SERVER, "refuse"], 'answered initialize with an error: {"code":-32603,"message":"no license"}\n'],
    ["repeats a cursor", listingServer("same-cursor"), "tools/list: page 2 repeats an earlier cursor; the list would never end"],
    [
      "sends too many bytes in one message",
      listingServer("huge-line"),
      /The response of the MCP server to tools\/list was discarded: it has 7\d{7} bytes, more than 67108864/,
    ],
    ["does not answer initialize", listingServer("silent"), "discover failed: no response to initialize within 300 ms", "300"],
    // The start and the first responses take a part of this time.
    ["does not list its tools", listingServer("hangs-at-page-2"), "discover failed: no response to tools/list within 4000 ms", "4000"],
  ])("a server that %s is reported", async (_what, command, said, timeoutMs = "60000") => {
    expect(await failure(command, ["--timeout-ms", timeoutMs])).toMatch(said);
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

  it.each([
    ["mkfifo", []],
    // Its own stdout, as `/dev/stdout` is.
    ["ln", ["-s", "/proc/self/fd/1"]],
  ])("discover neither waits for a pipe given to --out nor replaces it: %s", async (program, args) => {
    await using directory = await TempDir.create();
    const path = directory.file("pipe");
    await promisify(execFile)(program, [...args, path]);
    const { code, stderr } = await runDiscover(["--out", path, ...listingServer("plain")]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: `discover failed: ${path}: is not a regular file\n` });
    expect(lstatSync(path).isFile()).toBe(false);
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
