import { readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { get } from "node:http";
import { extname, join, resolve } from "node:path";
import { readCommandLine } from "../config/command-line.ts";
import { type Config, type Environment, loadConfig } from "../config/load.ts";
import { OPTIONS } from "../config/options.ts";
import { bracketed, type ListenAddress } from "../config/authority.ts";
import { ROUTES } from "../routes.ts";

const TIMEOUT_MS = 3000;

/** @returns 0 if the sidecar is ready, else 1, and a line with the reason. */
export async function healthcheck(config: Pick<Config, "host" | "port">): Promise<{ readonly exitCode: 0 | 1; readonly text: string }> {
  const host = config.host === undefined || config.host === "0.0.0.0" ? "127.0.0.1" : config.host === "::" ? "::1" : config.host;
  return new Promise((done) => {
    const request = get(
      { host, port: config.port, path: ROUTES.health.path, signal: AbortSignal.timeout(TIMEOUT_MS), agent: false },
      (response) => {
        response.resume();
        const isReady = response.statusCode === 200;
        done({ exitCode: isReady ? 0 : 1, text: isReady ? "ready" : `not ready (HTTP ${response.statusCode})` });
      },
    );
    request.on("error", (error) => done({ exitCode: 1, text: `not reachable at ${bracketed(host)}:${config.port} (${error.message})` }));
  });
}

/** PROC_PID_INIT_INO of Linux: outside all containers. */
const NAMESPACE_OF_MACHINE = "pid:[4026531836]";
/** The words of a command line in which the script is searched. */
const MAX_WORDS = 16;
const ADDRESS_VARIABLES = [OPTIONS.addr.variable, OPTIONS.port.variable];

/**
 * Finds the sidecar of this container by its command line and environment in /proc, which are never out of date. The first process counts:
 * a server may run this program too.
 * @param root replaces the root directory in tests.
 * @returns undefined outside containers, and if a variable names another sidecar.
 */
export function runningAddress(script: string, environment: Environment, root = "/"): ListenAddress | undefined {
  const folder = join(root, "proc");
  const namespace = readLink(join(folder, "self/ns/pid"));
  const program = realPath(script);
  if (namespace === undefined || namespace === NAMESPACE_OF_MACHINE || program === undefined) return undefined;
  const pids = (attempt(() => readdirSync(folder)) ?? []).map(Number).filter(Number.isInteger);
  for (const pid of pids.toSorted((a, b) => a - b)) {
    const address = addressOf(join(folder, String(pid)), program, environment);
    if (address !== undefined) return address;
  }
  return undefined;
}

/** @returns undefined if the process does not run this program, or a variable of the health check differs from its own. */
function addressOf(process: string, program: string, environment: Environment): ListenAddress | undefined {
  const cwd = readLink(join(process, "cwd"));
  if (cwd === undefined) return undefined;
  const words = readText(join(process, "cmdline")).split("\0").slice(0, -1);
  // The script comes after flags of Node with values, and may lack its ending.
  const isScript = (word: string): boolean => [word, `${word}${extname(program)}`].some((path) => realPath(resolve(cwd, path)) === program);
  const index = words.slice(0, MAX_WORDS).findIndex(isScript);
  if (index === -1) return undefined;
  const variables = readText(join(process, "environ")).split("\0");
  // A variable of the whole container does not show where a sidecar with flags listens.
  if (!ADDRESS_VARIABLES.every((name) => (environment[name] ?? "") === "" || variables.includes(`${name}=${environment[name]}`)))
    return undefined;
  const own = Object.fromEntries(variables.map((text) => [text.replace(/=.*/s, ""), text.replace(/^[^=]*=/, "")]));
  const argv = words.slice(index + (words[index + 1] === "serve" ? 2 : 1));
  return loadConfig(readCommandLine(argv), own, false).config;
}

/** Fails for a process of another user, or one that has ended. */
function attempt<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

const readText = (file: string): string => attempt(() => readFileSync(file, "utf8")) ?? "";
const readLink = (path: string): string | undefined => attempt(() => readlinkSync(path));
const realPath = (path: string): string | undefined => attempt(() => realpathSync(path));
