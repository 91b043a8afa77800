import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** The settings of the server. Threads get a copy. */
export interface Settings {
  /** The real path of the folder for files. */
  readonly folder: string;
  /** The tools that the agent may use. */
  readonly tools: ReadonlySet<string>;
  readonly permissions: ReadonlySet<string>;
  /** True if all clients are one user, so that an answer holds for all of them. */
  readonly isSingleUser: boolean;
  readonly timeoutsMs: ReadonlyMap<string, number>;
  readonly questionTimeoutMs: number;
  readonly maxThreads: number;
  readonly maxFileBytes: number;
  readonly maxResponseBytes: number;
  readonly allowsPrivateAddresses: boolean;
}

const MAX_TIMEOUT_MS = 3_600_000;
const MIB = 1024 * 1024;

/**
 * Reads the variables that begin with ONECLAW_. An empty one counts as unset.
 *
 * @param tools the names of all tools.
 * @param permissions those that tools declare.
 * @throws Error that names the variable.
 */
export function readSettings(env: NodeJS.ProcessEnv, tools: readonly string[], permissions: readonly string[]): Settings {
  const unread = new Set(Object.keys(env).filter((name) => name.startsWith("ONECLAW_")));
  const read = (name: string, fallback: string): string => {
    unread.delete(name);
    return env[name]?.trim() || fallback;
  };
  const number = (name: string, fallback: number, most: number): number => wholeNumber(name, read(name, String(fallback)), most);
  const list = (name: string, fallback: string): string[] => {
    const text = read(name, fallback);
    return text === "none" ? [] : text.split(",").map((each) => each.trim());
  };
  const settings = {
    tools: new Set(list("ONECLAW_TOOLS", tools.join()).map((each) => known("ONECLAW_TOOLS", each, tools))),
    permissions: new Set(list("ONECLAW_PERMISSIONS", "INTERNET").map((each) => known("ONECLAW_PERMISSIONS", each, permissions))),
    isSingleUser: known("ONECLAW_USERS", read("ONECLAW_USERS", "many"), ["many", "one"]) === "one",
    timeoutsMs: new Map(list("ONECLAW_TIMEOUTS_MS", "none").map((each) => timeout("ONECLAW_TIMEOUTS_MS", each, tools))),
    questionTimeoutMs: number("ONECLAW_QUESTION_TIMEOUT_MS", 300_000, MAX_TIMEOUT_MS),
    maxThreads: number("ONECLAW_MAX_THREADS", 4, 64),
    maxFileBytes: number("ONECLAW_MAX_FILE_BYTES", MIB, 4 * MIB),
    maxResponseBytes: number("ONECLAW_MAX_RESPONSE_BYTES", MIB / 4, 4 * MIB),
    allowsPrivateAddresses: known("ONECLAW_PRIVATE_ADDRESSES", read("ONECLAW_PRIVATE_ADDRESSES", "allow"), ["allow", "deny"]) === "allow",
  };
  const path = read("ONECLAW_FOLDER", join(env["XDG_DATA_HOME"] || join(homedir(), ".local", "share"), "oneclaw-tools"));
  for (const name of unread) throw new Error(`${name} is not a setting`);
  return { ...settings, folder: createFolder(path) };
}

function createFolder(path: string): string {
  if (!existsSync("/proc/self/fd")) throw new Error("The file tools need /proc, as on Linux");
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    return realpathSync(path);
  } catch (error) {
    throw new Error(`ONECLAW_FOLDER ${path} cannot be used: ${(error as NodeJS.ErrnoException).code}`, { cause: error });
  }
}

function wholeNumber(name: string, text: string, most: number): number {
  if (!/^[1-9]\d{0,8}$/.test(text) || Number(text) > most) throw new Error(`${name} must be a number from 1 to ${most}`);
  return Number(text);
}

function known(name: string, given: string, values: readonly string[]): string {
  if (!values.includes(given)) throw new Error(`${name} has ${JSON.stringify(given)}, which is none of ${values.join(", ")}`);
  return given;
}

function timeout(name: string, pair: string, tools: readonly string[]): [tool: string, ms: number] {
  const [tool = "", ms = ""] = pair.split("=").map((each) => each.trim());
  return [known(name, tool, tools), wholeNumber(`${name} of ${tool}`, ms, MAX_TIMEOUT_MS)];
}
