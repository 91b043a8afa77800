import { existsSync, mkdirSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";

/** The settings of the server. Threads get a copy. */
export interface Settings {
  /** The real path of the folder for files. */
  readonly folder: string;
  /** The tools that the agent may use. */
  readonly tools: ReadonlySet<string>;
  readonly permissions: ReadonlySet<string>;
  readonly questionTimeoutMs: number;
  readonly maxThreads: number;
  readonly maxFileBytes: number;
  readonly maxResponseBytes: number;
  readonly allowsPrivateAddresses: boolean;
}

const MIB = 1024 * 1024;

/** Reads the variables that begin with ONECLAW_. An empty one counts as unset. @throws Error that names the variable. */
export function readSettings(env: NodeJS.ProcessEnv, tools: readonly { name: string; permissions: readonly string[] }[]): Settings {
  const names = tools.map(({ name }) => name);
  const permissions = [...new Set(["INTERNET", ...tools.flatMap((tool) => tool.permissions)])];
  const unread = new Set(Object.keys(env).filter((name) => name.startsWith("ONECLAW_")));
  const read = (name: string, fallback: string): string => {
    unread.delete(name);
    return env[name]?.trim() || fallback;
  };
  const number = (name: string, fallback: number, most: number): number => wholeNumber(name, read(name, String(fallback)), most);
  const list = (name: string, fallback: string): string[] => {
    const text = read(name, fallback);
    const values = text === "none" ? [] : text.split(",").map((each) => each.trim());
    if (new Set(values).size < values.length) throw new Error(`${name} has a name twice`);
    return values;
  };
  const settings = {
    tools: new Set(list("ONECLAW_TOOLS", names.join()).map((each) => known("ONECLAW_TOOLS", each, names))),
    permissions: new Set(list("ONECLAW_PERMISSIONS", "INTERNET").map((each) => known("ONECLAW_PERMISSIONS", each, permissions))),
    questionTimeoutMs: number("ONECLAW_QUESTION_TIMEOUT_MS", 300_000, 3_600_000),
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
    createMissing(path);
    // An error unless it is a folder.
    statSync(`${path}/.`);
    return realpathSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`ONECLAW_FOLDER ${path} ${code === "ENOTDIR" ? "is not a folder" : `cannot be used: ${code}`}`, { cause: error });
  }
}

/** The `recursive` of mkdirSync does not end in /proc. */
function createMissing(path: string): void {
  if (existsSync(path)) return;
  createMissing(dirname(path));
  mkdirSync(path, 0o700);
}

function wholeNumber(name: string, text: string, most: number): number {
  if (!/^[1-9]\d{0,8}$/.test(text) || Number(text) > most) throw new Error(`${name} must be a number from 1 to ${most}`);
  return Number(text);
}

function known(name: string, given: string, values: readonly string[]): string {
  if (!values.includes(given)) throw new Error(`${name} has ${JSON.stringify(given)}, which is none of ${values.join(", ")}`);
  return given;
}
