import { execFile } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../../../test/support/markdown.ts";
import { freePort } from "../../../test/support/open-sockets.ts";
import { SdkClient } from "../../../test/support/sdk-client.ts";
import { ShellCommand } from "../../../test/support/shell-command.ts";
import { TempDir } from "../../../test/support/temp-dir.ts";
import { toOpenAi } from "../src/providers/openai.ts";
import { readSettings } from "../src/settings.ts";
import { tools } from "../src/tools/built-in.ts";
import { failure, type ToolResult } from "../src/tool.ts";
import { decide, MAIN, RawServer, readResult, success } from "./tool-server.ts";

const README = readFileSync(`${ROOT}examples/oneclaw-tools/README.md`, "utf8");
const ENV = { ...process.env, PATH: `${ROOT}node_modules/.bin:${process.env["PATH"]}` };
const run = promisify(execFile);
const FLOOD = 5000;

describe("the command line", () => {
  it("the commands of the README print what it shows", async () => {
    await using home = await TempDir.create();
    const [, start = "", call = ""] = /```sh\n([\s\S]*?)```[\s\S]*?```sh\n([\s\S]*?)```/.exec(README) ?? [];
    const command = "npm --prefix examples/oneclaw-tools start";
    expect(start).toContain(command);
    const port = await freePort();
    const env = { ...ENV, XDG_DATA_HOME: home.path, PORT: String(port) };
    await using sidecar = new ShellCommand(command, env);
    await sidecar.untilOutput("mcp server ready");
    // The script exits with 1 after an error of a tool.
    const { stdout } = await run("bash", ["-uc", `${call.replaceAll(":8080", `:${port}`)}true`], { env, cwd: ROOT });
    const [, shown] = /```json\n([\s\S]*?)```/.exec(README) ?? [];
    const results = stdout
      .trim()
      .split("\n")
      .map((line) => readResult((JSON.parse(line) as { result: object }).result));
    expect(results.map((result) => `${JSON.stringify(result)}\n`).join("")).toBe(shown);
    expect(readFileSync(`${home.path}/oneclaw-tools/notes.txt`, "utf8")).toBe("Buy milk");
  });

  it("definitions prints the tools of the agent for its provider", async () => {
    await using folder = await TempDir.create();
    const [, command = ""] = /^`(cd .* definitions openai)`/m.exec(README) ?? [];
    const env = { ...ENV, ONECLAW_FOLDER: folder.path, ONECLAW_TOOLS: "get_current_time, read_file,write_file" };
    const { stdout } = await run("sh", ["-c", command], { env, cwd: ROOT });
    expect(JSON.parse(stdout)).toEqual(JSON.parse(JSON.stringify(toOpenAi(tools.slice(0, 3)))));
  });

  it.each([
    [{ ONECLAW_TOOLS: "read_files" }, /^ONECLAW_TOOLS has "read_files", which is none of get_current_time, read_file/],
    [{ ONECLAW_TOOLS: "read_file, read_file" }, /^ONECLAW_TOOLS has a name twice$/],
    [{ ONECLAW_PERMISSIONS: "INTERNETS" }, /^ONECLAW_PERMISSIONS has "INTERNETS", which is none of INTERNET$/],
    [{ ONECLAW_PRIVATE_ADDRESSES: "no" }, /^ONECLAW_PRIVATE_ADDRESSES has "no", which is none of allow, deny$/],
    [{ ONECLAW_MAX_THREADS: "0" }, /^ONECLAW_MAX_THREADS must be a number from 1 to 64$/],
    [{ ONECLAW_MAX_FILE_BYTES: "1e3" }, /^ONECLAW_MAX_FILE_BYTES must be a number from 1 to 4194304$/],
    [{ ONECLAW_FOLDER: "/dev/null/x" }, /^ONECLAW_FOLDER \/dev\/null\/x is not a folder$/],
    [{ ONECLAW_FOLDER: "/dev/null" }, /^ONECLAW_FOLDER \/dev\/null is not a folder$/],
    [{ ONECLAW_FOLDERS: "/tmp" }, /^ONECLAW_FOLDERS is not a setting$/],
  ])("%j is rejected", (env, message) => {
    expect(() => readSettings(env, tools)).toThrow(message);
  });

  it.each([
    [[], { ONECLAW_FOLDER: "/proc/x" }, "ONECLAW_FOLDER /proc/x cannot be used: ENOENT\n"],
    [["definitions", "mistral"], {}, expect.stringMatching(/^Usage: .*\n$/) as string],
  ])("the arguments %j with %j are rejected in one line", async (args, env, stderr) => {
    await expect(run(process.execPath, [MAIN, ...args], { env, timeout: 10_000 })).rejects.toMatchObject({ code: 2, stdout: "", stderr });
  });

  it("the server runs without the sidecar, in any folder, and creates its own private one", async () => {
    await using home = await TempDir.create();
    await using client = await SdkClient.direct([process.execPath, MAIN], { XDG_DATA_HOME: home.path });
    await client.callTool({ name: "write_file", arguments: { path: "a.txt", content: "x" } });
    expect(readResult(await client.callTool({ name: "read_file", arguments: { path: "a.txt" } }))).toEqual(success("x"));
    expect(statSync(home.file("oneclaw-tools")).mode & 0o777).toBe(0o700);
  });

  it("a signal stops the server, which cleans up an unfinished write", async () => {
    await using folder = await TempDir.create();
    writeFileSync(folder.file("a.txt"), "old");
    await using server = new RawServer(folder.path);
    await server.initialize();
    for (let id = 1; id < 30; id += 1) server.call(id, "write_file", { path: "a.txt", content: "new".repeat(300_000) });
    await server.next();
    server.process.kill("SIGTERM");
    expect(await server.exited).toEqual([0, null]);
    expect(["old", "new".repeat(300_000)]).toContain(readFileSync(folder.file("a.txt"), "utf8"));
    expect(readdirSync(folder.path)).toEqual(["a.txt"]);
  });
});

// Each test uses the server as the last one left it.
describe("bare pipes", () => {
  let folder: TempDir;
  let server: RawServer;
  beforeAll(async () => {
    folder = await TempDir.create();
    server = new RawServer(folder.path);
    await server.initialize();
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  });
  const resultOf = async (name: string, args: object): Promise<ToolResult> => {
    server.call(1, name, args);
    return readResult((await server.next())?.result ?? {});
  };

  it("requests are not read while the client does not read the results", async () => {
    const log = { lines: 0, before: -1 };
    server.process.stderr.on("data", (chunk: Buffer) => (log.lines += chunk.toString().split("\n").length - 1));
    server.process.stdout.pause();
    for (let id = 0; id < FLOOD; id += 1) server.call(id, "missing", {});
    // Until the log stands still.
    for (; log.before < log.lines || log.lines === 0; await delay(300)) log.before = log.lines;
    const { lines } = log;
    server.process.stdout.resume();
    for (let id = 0; id < FLOOD; id += 1) expect((await server.next())?.id).toBe(id);
    expect(lines).toBeLessThan(FLOOD);
  });

  it("a log that cannot be written does not stop the server", async () => {
    server.process.stderr.destroy();
    await once(server.process.stderr, "close");
    for (let round = 0; round < 2; round += 1) expect(await resultOf("get_current_time", {})).toMatchObject({ status: "success" });
  });

  it("deep arguments and halves of surrogate pairs are validation errors", async () => {
    const deep = JSON.parse(`${"[".repeat(5000)}${"]".repeat(5000)}`) as object;
    for (const [name, args] of [
      ["misbehave", { how: "return_function", x: deep }],
      ["write_file", { path: "\ud800.txt", content: "" }],
      ["write_file", { path: "a.txt", content: "\udc00" }],
      ["http_request", { url: "http://127.0.0.1/", method: "POST", body: "a\ud83d" }],
    ] as const) {
      const problem = "They have more than 100 levels, or half of a surrogate pair";
      expect(await resultOf(name, args)).toEqual(failure("validation_error", `Invalid arguments of ${name}: ${problem}`));
    }
    expect(readdirSync(folder.path)).toEqual([]);
  });

  it("an invalid request gets an error of one line", async () => {
    for (const args of [null, [], "x", 5]) {
      server.call(1, "get_current_time", args);
      expect(await server.next()).toMatchObject({
        error: { code: -32602, message: expect.stringMatching(/^Invalid tools\/call request: .*expected record.*$/) as string },
      });
    }
  });

  it("a line over 10 MiB ends the server", async () => {
    server.process.stdin.write("x".repeat(11 * 1024 * 1024));
    expect(await server.exited).toEqual([0, null]);
  });

  it("calls before the end of stdin get their results, but no grant without a question", async () => {
    await using stateless = new RawServer(folder.path);
    const inputResponses = { permission: decide("Allow this time") };
    stateless.statelessCall(1, "get_location", {}, { inputResponses });
    stateless.statelessCall(2, "get_location", { elicitation: {} }, { inputResponses });
    stateless.process.stdin.end();
    const results = [await stateless.next(), await stateless.next()].toSorted((a, b) => (a?.id ?? 0) - (b?.id ?? 0));
    expect(readResult(results[0]?.result ?? {})).toMatchObject({
      error_type: "permission_denied",
      message: expect.stringContaining("this client cannot ask the user") as string,
    });
    expect(readResult(results[1]?.result ?? {})).toEqual(success("52.5, 13.4"));
    expect(await stateless.next()).toBeUndefined();
    expect(await stateless.exited).toEqual([0, null]);
  });
});
