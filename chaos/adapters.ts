// How each wrapper is started, where it answers, and what it is known not to do.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Adapter {
  readonly name: string;
  /** Where its package.json is. */
  readonly packageDir: string;
  readonly token: string | undefined;
  readonly environment: Readonly<Record<string, string>>;
  readonly path: string;
  readonly healthPath: string;
  /** Its own counters as JSON, where it has such. */
  readonly statusPath: string | undefined;
  /** Shown beside its figures. */
  readonly notes: readonly string[];
  /** Whether anything but zero in the rows of what must not be is a failure of the run. */
  readonly isSubject: boolean;
  /** Arguments for Node. */
  readonly nodeArgs: (port: number) => string[];
}

const ROOT_DIR = join(import.meta.dirname, "..");
const PEERS_DIR = join(ROOT_DIR, "bench", "node_modules");
const SERVER_COMMAND = [process.execPath, join(import.meta.dirname, "server", "main.ts")];
const TOKEN = randomBytes(24).toString("hex");

/** Shorter than the defaults, so that a minute sees many of them. */
const CLAW_FLAGS = [
  ["--request-timeout-ms", "3000"],
  ["--hold-timeout-ms", "3000"],
  ["--ready-timeout-ms", "3000"],
  ["--drain-timeout-ms", "3000"],
  ["--restart-backoff-ms", "50"],
  ["--restart-max-ms", "1000"],
  ["--crash-loop-period-ms", "3000"],
  ["--stream-after-ms", "200"],
  ["--replay-max-age-ms", "15000"],
  ["--max-line-bytes", String(8 * 1024 * 1024)],
].flat();

export const ADAPTERS: readonly Adapter[] = [
  {
    name: "claw",
    packageDir: ROOT_DIR,
    token: TOKEN,
    environment: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN },
    path: "/mcp",
    healthPath: "/readyz",
    statusPath: "/status",
    notes: [],
    isSubject: true,
    nodeArgs: (port) => [join(ROOT_DIR, "dist", "main.js"), "--addr", `127.0.0.1:${port}`, ...CLAW_FLAGS, "--", ...SERVER_COMMAND],
  },
  {
    name: "supergateway",
    packageDir: join(PEERS_DIR, "supergateway"),
    token: undefined,
    environment: {},
    path: "/mcp",
    healthPath: "/healthz",
    statusPath: undefined,
    notes: [
      "a server process for each session: no lane is shared, and a crash ends the session",
      "no time limit for requests, no limit for the length of a line: one of 64 MB keeps it busy for many seconds, without a word to anybody",
    ],
    isSubject: false,
    nodeArgs: (port) => [
      join(PEERS_DIR, "supergateway", "dist", "index.js"),
      "--stdio",
      // It hands the command to a shell.
      SERVER_COMMAND.map((part) => `"${part}"`).join(" "),
      "--outputTransport",
      "streamableHttp",
      "--stateful",
      "--healthEndpoint",
      "/healthz",
      "--port",
      String(port),
      "--logLevel",
      "none",
    ],
  },
  {
    name: "mcp-proxy",
    packageDir: join(PEERS_DIR, "mcp-proxy"),
    token: undefined,
    environment: {},
    path: "/mcp",
    healthPath: "/ping",
    statusPath: undefined,
    notes: [
      "one server process for all: no private lanes, questions of the server are refused",
      "does not start the server again when it has ended; says so to every request, and goes on calling itself healthy",
    ],
    isSubject: false,
    nodeArgs: (port) => [
      join(PEERS_DIR, "mcp-proxy", "dist", "bin", "mcp-proxy.mjs"),
      "--server",
      "stream",
      "--host",
      "127.0.0.1",
      "--port",
      String(port),
      "--requestTimeout",
      "3000",
      "--",
      ...SERVER_COMMAND,
    ],
  },
];

export function versionOf({ packageDir }: Adapter): string {
  return (JSON.parse(readFileSync(join(packageDir, "package.json"), "utf8")) as { version: string }).version;
}
