// The wrappers under test: commands, addresses and known missing features.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Adapter {
  readonly name: string;
  /** The directory of its package.json. */
  readonly packageDir: string;
  readonly token: string | undefined;
  readonly environment: Readonly<Record<string, string>>;
  readonly path: string;
  readonly healthPath: string;
  /** The path of its own counters as JSON; undefined if it has none. */
  readonly statusPath: string | undefined;
  /** The path of its metrics in the text format of Prometheus, if it has any. */
  readonly metricsPath?: string;
  /** Known missing features, shown with the results. */
  readonly notes: readonly string[];
  /** True if the run fails when an offence of this wrapper is not zero. */
  readonly isSubject: boolean;
  /** Arguments for Node. */
  readonly nodeArgs: (port: number) => string[];
}

const ROOT_DIR = join(import.meta.dirname, "..");
const PEERS_DIR = join(ROOT_DIR, "bench", "node_modules");
const SERVER_COMMAND = [process.execPath, join(import.meta.dirname, "server", "main.ts")];
const TOKEN = randomBytes(24).toString("hex");

/** Times shorter than the defaults, so that many of them pass within a minute. A start is never cut off, because a busy machine is slow at it. */
const CLAW_FLAGS = [
  ["--request-timeout-ms", "3000"],
  ["--hold-timeout-ms", "3000"],
  ["--drain-timeout-ms", "3000"],
  ["--restart-backoff-ms", "50"],
  ["--restart-max-ms", "1000"],
  ["--crash-loop-period-ms", "3000"],
  ["--stream-after-ms", "200"],
  ["--replay-max-age-ms", "15000"],
  ["--park-timeout-ms", "1000"],
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
    metricsPath: "/metrics",
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
      "one server process per session: sessions share nothing, and a crash ends the session",
      "no time limit for requests, and no limit for the length of a line: a line of 64 MB blocks all clients for many seconds",
    ],
    isSubject: false,
    nodeArgs: (port) => [
      join(PEERS_DIR, "supergateway", "dist", "index.js"),
      "--stdio",
      // This option is a command for a shell.
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
      "one server process for all clients: no private servers, and server requests are rejected",
      "does not restart the server after an exit; answers each request with an error, and still reports that it is healthy",
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
