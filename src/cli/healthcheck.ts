import { readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { get } from "node:http";
import { endianness } from "node:os";
import { extname, join, resolve } from "node:path";
import type { Config, Environment } from "../config/load.ts";
import { OPTIONS } from "../config/options.ts";
import { bracketed, type ListenAddress } from "../config/authority.ts";
import { ROUTES } from "../routes.ts";

const TIMEOUT_MS = 3000;

/** Requests `/healthz` of the sidecar at this address. @returns 0 if it is ready, else 1, and a line with the reason. */
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

/** The namespace of the processes outside all containers: PROC_PID_INIT_INO of Linux. */
const NAMESPACE_OF_MACHINE = "pid:[4026531836]";
/** TCP_LISTEN in /proc/net/tcp. */
const LISTENING = "0A";
/** The words of a command line in which the script is searched. */
const MAX_WORDS = 16;
/** Of /proc/PID/stat, after the name. */
const START_TICKS_FIELD = 19;
const ADDRESS_VARIABLES = [OPTIONS.addr.variable, OPTIONS.port.variable];

/**
 * Returns the address of the sidecar that runs in this container, by the account of the kernel. So it cannot be out of date, and no
 * directory has to be writable. Of several, it is that of the oldest process: a server starts after its sidecar, and may run this program
 * too.
 *
 * @param script the script of this program, as in `process.argv`.
 * @param root replaces the root directory in tests.
 * @returns undefined outside containers, if that process has not exactly one address, and if a variable names another sidecar.
 */
export function runningAddress(script: string, environment: Environment, root = "/"): ListenAddress | undefined {
  const namespace = readLink(join(root, "proc/self/ns/pid"));
  if (namespace === undefined || namespace === NAMESPACE_OF_MACHINE) return undefined;
  const program = realPath(script);
  if (program === undefined) return undefined;
  const found = list(join(root, "proc")).flatMap((pid) => {
    const process = join(root, "proc", pid);
    if (!/^\d+$/.test(pid) || !runs(process, program)) return [];
    // A variable of the whole container does not show where a sidecar with flags listens.
    const variables = readText(join(process, "environ")).split("\0");
    const areSame = ADDRESS_VARIABLES.every(
      (name) => (environment[name] ?? "") === "" || variables.includes(`${name}=${environment[name]}`),
    );
    if (!areSame) return [];
    const addresses = listenAddresses(process);
    return addresses.length === 0 ? [] : [{ addresses, startTicks: startTicks(process) }];
  });
  const oldest = found.toSorted((a, b) => a.startTicks - b.startTicks).at(0)?.addresses ?? [];
  return oldest.length === 1 ? oldest[0] : undefined;
}

/** True if a process of Node runs this script. Its path may come after flags with values, and may lack its ending. */
function runs(process: string, program: string): boolean {
  const [, ...words] = readText(join(process, "cmdline")).split("\0");
  const cwd = readLink(join(process, "cwd"));
  if (cwd === undefined) return false;
  return words
    .slice(0, MAX_WORDS)
    .some((word) => word !== "" && [word, `${word}${extname(program)}`].some((path) => realPath(resolve(cwd, path)) === program));
}

/** Returns the start of a process, in ticks since the start of the machine: field 22 of proc(5), counted after the name in parentheses. */
function startTicks(process: string): number {
  const stat = readText(join(process, "stat"));
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(fields[START_TICKS_FIELD] ?? Number.POSITIVE_INFINITY);
}

function listenAddresses(process: string): ListenAddress[] {
  const folder = join(process, "fd");
  const sockets = new Set(list(folder).map((fd) => readLink(join(folder, fd))));
  return ["tcp", "tcp6"].flatMap((family) =>
    readText(join(process, "net", family))
      .split("\n")
      .flatMap((line) => {
        // proc(5): number, local address, remote address, state, …, inode as the tenth.
        const [, local = "", , state, , , , , , inode] = line.trim().split(/\s+/);
        return state === LISTENING && sockets.has(`socket:[${inode}]`) ? [parseAddress(local)] : [];
      }),
  );
}

/** Parses an address in hexadecimal digits, in words of four bytes. All zeros are all interfaces, of both versions of IP. */
function parseAddress(text: string): ListenAddress {
  const [digits = "", portDigits = ""] = text.split(":");
  const bytes = Buffer.from(digits, "hex");
  if (endianness() === "LE") bytes.swap32();
  const groups = bytes.length === 4 ? [...bytes].join(".") : (bytes.toString("hex").match(/.{4}/g) ?? []).join(":");
  return { host: bytes.some((byte) => byte !== 0) ? groups : undefined, port: Number.parseInt(portDigits, 16) };
}

/** Returns undefined if it fails: for a process of another user, or one that has ended. */
function attempt<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

const list = (folder: string): string[] => attempt(() => readdirSync(folder)) ?? [];
const readText = (file: string): string => attempt(() => readFileSync(file, "utf8")) ?? "";
const readLink = (path: string): string | undefined => attempt(() => readlinkSync(path));
const realPath = (path: string): string | undefined => attempt(() => realpathSync(path));
