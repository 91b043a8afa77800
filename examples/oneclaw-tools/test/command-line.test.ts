import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { DirectClient } from "../../../test/support/sdk-client.ts";
import { TempDir } from "../../../test/support/temp-dir.ts";
import { toOpenAi } from "../src/providers/openai.ts";
import { tools } from "../src/tools/built-in.ts";
import { MAIN, readResult, success } from "./tool-server.ts";

const FOLDER = fileURLToPath(new URL("../", import.meta.url));
const README = readFileSync(`${FOLDER}README.md`, "utf8");
const run = promisify(execFile);

describe("the command line", () => {
  it("the commands of the README print what it shows", async () => {
    await using home = await TempDir.create();
    const [, start = "", call = ""] = /```sh\n([\s\S]*?)```[\s\S]*?```sh\n([\s\S]*?)```/.exec(README) ?? [];
    expect(start).toContain("npm --prefix examples/oneclaw-tools start");
    const env = { ...process.env, PATH: `${FOLDER}../../node_modules/.bin:${process.env["PATH"]}`, XDG_DATA_HOME: home.path, PORT: "0" };
    const sidecar = spawn("npm", ["--silent", "--prefix", "examples/oneclaw-tools", "start"], {
      env,
      cwd: `${FOLDER}../..`,
      stdio: ["ignore", "pipe", "inherit"],
      detached: true,
    });
    try {
      let port = "";
      for await (const line of createInterface({ input: sidecar.stdout })) {
        port ||= /"address":"127\.0\.0\.1:(\d+)"/.exec(line)?.[1] ?? "";
        if (line.includes("mcp server ready")) break;
      }
      // The script exits with 1 after an error of a tool.
      const { stdout } = await run("bash", ["-uc", `${call.replaceAll(":8080", `:${port}`)}true`], { env, cwd: `${FOLDER}../..` });
      const [, shown] = /```json\n([\s\S]*?)```/.exec(README) ?? [];
      const results = stdout
        .trim()
        .split("\n")
        .map((line) => readResult((JSON.parse(line) as { result: object }).result));
      expect(results.map((result) => `${JSON.stringify(result)}\n`).join("")).toBe(shown);
      expect(readFileSync(`${home.path}/oneclaw-tools/notes.txt`, "utf8")).toBe("Buy milk");
    } finally {
      process.kill(-(sidecar.pid ?? 0), "SIGTERM");
      await once(sidecar, "exit");
    }
  });

  it("tools shows the choice of the agent", async () => {
    await using folder = await TempDir.create();
    const env = { ONECLAW_FOLDER: folder.path, ONECLAW_TOOLS: "get_current_time, read_file,write_file" };
    const { stdout } = await run(process.execPath, [MAIN, "tools"], { env });
    expect(README).toContain(stdout);
    expect(stdout.split("\n")).toContain("[ ] http_request - Make an HTTP request to a URL (needs INTERNET)");
    const { stdout: printed } = await run(process.execPath, [MAIN, "definitions", "--provider", "openai"], { env });
    expect(JSON.parse(printed)).toEqual(JSON.parse(JSON.stringify(toOpenAi(tools.slice(0, 3)))));
  });

  it.each([
    [{ ONECLAW_TOOLS: "read_files" }, /^ONECLAW_TOOLS has "read_files", which is none of get_current_time, read_file/],
    [{ ONECLAW_PERMISSIONS: "INTERNETS" }, /^ONECLAW_PERMISSIONS has "INTERNETS", which is none of INTERNET$/m],
    [{ ONECLAW_USERS: "two" }, /^ONECLAW_USERS has "two", which is none of many, one$/m],
    [{ ONECLAW_TIMEOUTS_MS: "read_file" }, /^ONECLAW_TIMEOUTS_MS of read_file must be a number from 1 to 3600000$/m],
    [{ ONECLAW_TIMEOUTS_MS: "cat=1" }, /^ONECLAW_TIMEOUTS_MS has "cat"/],
    [{ ONECLAW_MAX_THREADS: "0" }, /^ONECLAW_MAX_THREADS must be a number from 1 to 64$/m],
    [{ ONECLAW_MAX_FILE_BYTES: "1e3" }, /^ONECLAW_MAX_FILE_BYTES must be a number from 1 to 4194304$/m],
    [{ ONECLAW_FOLDER: "/dev/null/x" }, /^ONECLAW_FOLDER \/dev\/null\/x cannot be used: ENOTDIR$/m],
    [{ ONECLAW_FOLDERS: "/tmp" }, /^ONECLAW_FOLDERS is not a setting$/m],
  ])("%j is rejected in one line", async (env, message) => {
    await expect(run(process.execPath, [MAIN], { env })).rejects.toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(message) as string,
    });
  });

  it.each([[["serve"]], [["tools", "more"]], [["definitions"]], [["definitions", "--provider", "mistral"]], [["--port", "1"]]])(
    "the arguments %j are rejected",
    async (args) => {
      await expect(run(process.execPath, [MAIN, ...args], { env: { ONECLAW_FOLDER: "/tmp" } })).rejects.toMatchObject({
        code: 2,
        stdout: "",
      });
    },
  );

  it("the server runs without the sidecar, in any folder, and creates its own private one", async () => {
    await using home = await TempDir.create();
    await using client = await DirectClient.connect([process.execPath, MAIN], { XDG_DATA_HOME: home.path });
    await client.callTool({ name: "write_file", arguments: { path: "a.txt", content: "x" } });
    expect(readResult(await client.callTool({ name: "read_file", arguments: { path: "a.txt" } }))).toEqual(success("x"));
    expect(statSync(home.file("oneclaw-tools")).mode & 0o777).toBe(0o700);
  });

  it("a signal stops the server, which cleans up an unfinished write", async () => {
    await using folder = await TempDir.create();
    writeFileSync(folder.file("a.txt"), "old");
    const server = spawn(process.execPath, [MAIN], { env: { ONECLAW_FOLDER: folder.path }, stdio: ["pipe", "pipe", "ignore"] });
    const ended = once(server, "exit");
    // Calls after its end.
    server.stdin.on("error", () => {});
    const initialize = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    const send = (message: object): void => void server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    send({ id: 1, method: "initialize", params: initialize });
    await once(server.stdout, "data");
    for (let id = 2; id < 30; id += 1) {
      send({ id, method: "tools/call", params: { name: "write_file", arguments: { path: "a.txt", content: "new".repeat(300_000) } } });
    }
    await once(server.stdout, "data");
    const output = text(server.stdout);
    server.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
    await output;
    expect(["old", "new".repeat(300_000)]).toContain(readFileSync(folder.file("a.txt"), "utf8"));
    expect(existsSync(folder.path) && (await run("ls", ["-A", folder.path])).stdout).toBe("a.txt\n");
  });
});
