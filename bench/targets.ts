// The compared targets: their commands and addresses.

import { randomBytes } from "node:crypto";
import { join } from "node:path";

export interface Target {
  name: string;
  /** The subject is claw. Guarded is claw with every rule of the tool policy on. The ceiling is not a product. */
  role: "subject" | "guarded" | "peer" | "ceiling";
  healthPath: string;
  token: string | null;
  /** True if all sessions share one server. Otherwise, the number of sessions is limited. */
  hasOneChild: boolean;
  /** Arguments for the Node binary that also runs this bench. */
  nodeArgs: (port: number) => string[];
}

const BENCH_DIR = import.meta.dirname;
const MAIN = join(BENCH_DIR, "..", "dist", "main.js");
const BARE_BRIDGE = join(BENCH_DIR, "bare-bridge.ts");
const BEHIND_HAPROXY = join(BENCH_DIR, "behind-haproxy.ts");
const SUPERGATEWAY = join(BENCH_DIR, "node_modules", "supergateway", "dist", "index.js");
const MCP_PROXY = join(BENCH_DIR, "node_modules", "mcp-proxy", "dist", "bin", "mcp-proxy.mjs");
export const CHILD_COMMAND = [process.execPath, join(BENCH_DIR, "echo-child.js")];

/** All rules of the tool policy. Each permits the calls of the load, so that only the cost of the rules is measured. */
const EVERY_POLICY = [
  ["allow-tools", "echo,progress,change-*"],
  ["deny-tools", "secret_*,*_admin"],
  ["read-only", "on"],
  ["descriptor", join(BENCH_DIR, "echo-child.claw-describe.json")],
  ["descriptor-mode", "enforce"],
  ["argument-check", "enforce"],
  ["tool-timeouts-ms", "echo=60000"],
  ["tool-concurrency", "echo=1000"],
  ["tool-calls-per-minute", "*=1000000"],
  ["session-calls-per-minute", "1000000"],
  ["sessions-per-minute", "1000000"],
  ["max-result-bytes", "16000000"],
].map(([flag, value]) => `--${flag}=${value}`);

const TOKEN = randomBytes(24).toString("hex");

/** The default of --targets. */
export const DEFAULT_TARGET_NAMES = ["claw", "claw-policy", "supergateway", "mcp-proxy", "bare"];

export const TARGETS: readonly Target[] = [
  thisBuild(),
  {
    name: "claw-policy",
    role: "guarded",
    healthPath: "/healthz",
    token: TOKEN,
    hasOneChild: true,
    nodeArgs: (port) => [MAIN, "--addr", `127.0.0.1:${port}`, ...EVERY_POLICY, "--", ...CHILD_COMMAND],
  },
  supergateway("supergateway", []),
  // By default, it logs every message in full. This shows the cost of the log.
  supergateway("supergateway-quiet", ["--logLevel", "none"]),
  mcpProxy("mcp-proxy", []),
  // By default, it keeps every event for replay. This shows the cost of the store.
  mcpProxy("mcp-proxy-no-store", ["--no-eventStore"]),
  {
    name: "bare",
    role: "ceiling",
    healthPath: "/healthz",
    token: null,
    hasOneChild: true,
    nodeArgs: (port) => [BARE_BRIDGE, String(port), ...CHILD_COMMAND],
  },
];

/** Returns this build of claw. @param flags its options. */
export function thisBuild(flags: readonly string[] = []): Target {
  return otherBuild("claw", MAIN, flags);
}

/** Returns another build of claw, for example that before a change. @param main its main module. */
export function otherBuild(name: string, main: string, flags: readonly string[] = []): Target {
  return {
    name,
    role: "subject",
    healthPath: "/healthz",
    token: TOKEN,
    hasOneChild: true,
    nodeArgs: (port) => [main, "--addr", `127.0.0.1:${port}`, ...flags, "--", ...CHILD_COMMAND],
  };
}

/** Returns this build of claw in front of a server without sessions (MCP 2026-07-28). */
export function withModernChild(): Target {
  return {
    ...thisBuild(),
    nodeArgs: (port) => [MAIN, "--addr", `127.0.0.1:${port}`, "--child-era=modern", "--", ...CHILD_COMMAND, "modern"],
  };
}

/** Returns replicas of this build behind HAProxy. They accept the sessions of each other, since their token is the same. */
export function behindHaproxy(count: number): Target {
  const name = `${count} behind HAProxy`;
  return { ...thisBuild(), name, healthPath: "/readyz", nodeArgs: (port) => [BEHIND_HAPROXY, String(port), String(count)] };
}

/** The environment of all targets. Only claw uses the token. */
export const TARGET_ENV = { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN };

function supergateway(name: string, extraArgs: string[]): Target {
  // This option is a command for a shell.
  const stdio = CHILD_COMMAND.map((part) => `"${part}"`).join(" ");
  return {
    name,
    role: "peer",
    healthPath: "/healthz",
    token: null,
    hasOneChild: false,
    nodeArgs: (port) => [
      SUPERGATEWAY,
      "--stdio",
      stdio,
      "--outputTransport",
      "streamableHttp",
      "--stateful",
      "--healthEndpoint",
      "/healthz",
      "--port",
      String(port),
      ...extraArgs,
    ],
  };
}

function mcpProxy(name: string, extraArgs: string[]): Target {
  return {
    name,
    role: "peer",
    healthPath: "/ping",
    token: null,
    hasOneChild: true,
    nodeArgs: (port) => [
      MCP_PROXY,
      "--server",
      "stream",
      "--host",
      "127.0.0.1",
      "--port",
      String(port),
      ...extraArgs,
      "--",
      ...CHILD_COMMAND,
    ],
  };
}
