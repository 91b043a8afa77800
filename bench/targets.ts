import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { MAIN, type Program } from "./program.ts";

export interface Target extends Program {
  /** True if it starts a server for each session, so that the number of sessions is limited. */
  readonly hasServerPerSession?: boolean;
}

/** The last commit before the re-cut of the program: what `npm run bench:compare` compares with, unless told otherwise. */
const BASELINE = "b6805c0";

const BENCH_DIR = import.meta.dirname;
const ROOT_DIR = join(BENCH_DIR, "..");
const PEERS_DIR = join(BENCH_DIR, "node_modules");
const TOKEN = randomBytes(24).toString("hex");
const SERVER_COMMAND = [process.execPath, join(BENCH_DIR, "echo-child.js")];

/** Returns this build and the peers. Installs the peers if they are needed for the first time. */
export function thisAndPeers(): Target[] {
  if (!existsSync(PEERS_DIR)) execFileSync("npm", ["ci", "--ignore-scripts"], { cwd: BENCH_DIR, stdio: ["ignore", "inherit", "inherit"] });
  return [claw("claw", MAIN), supergateway(), mcpProxy()];
}

/** Returns this build, and the one before it. @param before the main.js of a build, or a commit to build. */
export function thisAndBefore(before = BASELINE, flags: readonly string[] = [], beforeFlags = flags): [Target, Target] {
  const main = before.endsWith(".js") ? resolve(before) : buildCommit(before);
  return [claw("this", MAIN, flags), claw("before", main, beforeFlags)];
}

/** Builds a commit with the packages that are installed here. @returns its main.js, which is deleted at the end of this process. */
function buildCommit(commit: string): string {
  const directory = mkdtempSync(join(tmpdir(), "bench-before-"));
  process.on("exit", () => rmSync(directory, { recursive: true, force: true }));
  const archive = execFileSync("git", ["archive", commit], { cwd: ROOT_DIR, maxBuffer: 2 ** 30 });
  execFileSync("tar", ["-x", "-C", directory], { input: archive });
  symlinkSync(join(ROOT_DIR, "node_modules"), join(directory, "node_modules"));
  execFileSync(process.execPath, ["build/run.ts"], { cwd: directory, stdio: ["ignore", "ignore", "inherit"] });
  return join(directory, "dist", "main.js");
}

function claw(name: string, main: string, flags: readonly string[] = []): Target {
  return {
    name,
    token: TOKEN,
    environment: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN },
    healthPath: "/healthz",
    nodeArgs: (port) => [main, "--addr", `127.0.0.1:${port}`, ...flags, "--", ...SERVER_COMMAND],
  };
}

function peer(name: string, healthPath: string, nodeArgs: Target["nodeArgs"]): Target {
  return { name, token: undefined, environment: {}, healthPath, nodeArgs };
}

function supergateway(): Target {
  const main = join(PEERS_DIR, "supergateway", "dist", "index.js");
  // This option is a command for a shell.
  const stdio = SERVER_COMMAND.map((part) => `"${part}"`).join(" ");
  const fixed = ["--stdio", stdio, "--outputTransport", "streamableHttp", "--stateful", "--healthEndpoint", "/healthz"];
  return { ...peer("supergateway", "/healthz", (port) => [main, ...fixed, "--port", String(port)]), hasServerPerSession: true };
}

function mcpProxy(): Target {
  const main = join(PEERS_DIR, "mcp-proxy", "dist", "bin", "mcp-proxy.mjs");
  const fixed = ["--server", "stream", "--host", "127.0.0.1"];
  return peer("mcp-proxy", "/ping", (port) => [main, ...fixed, "--port", String(port), "--", ...SERVER_COMMAND]);
}
