// The settings: environment variables, checked before anything starts.

import { isIP } from "node:net";
import { readTokens, toolPatterns } from "./gateway/known-devices.ts";
import { SettingError } from "./setting-error.ts";

/** Limits and their defaults. The variable of `callTimeoutMs` is CALL_TIMEOUT_MS. */
export const LIMITS = {
  /** The time for the answer to a call: "Remote Tool Call Mechanism", RemoteTool. */
  callTimeoutMs: 30_000,
  /** The time of each hook. */
  hookTimeoutMs: 5000,
  /** A device that has not answered a ping by the next one is disconnected. */
  pingIntervalMs: 15_000,
  /** A device that has not sent `register_tools` by then is disconnected. */
  registrationTimeoutMs: 10_000,
  maxDevices: 50,
  maxToolsPerDevice: 64,
  /** Calls in flight. */
  maxCalls: 128,
  maxCallsPerDevice: 16,
  /** The output of a call, and its arguments. A message may have twice as much, as JSON escapes characters. */
  maxOutputBytes: 1_048_576,
};
export type Limits = typeof LIMITS;
/** A message of twice as many bytes is still a small part of the memory. */
const MAX_LIMIT = 16_777_216;

export type Settings = ReturnType<typeof readSettings>;

/** @throws SettingError that names the variable. */
export function readSettings(env: NodeJS.ProcessEnv) {
  const address = env["GATEWAY_ADDR"] || "127.0.0.1:8790";
  const [, ipv6, name = ipv6 ?? "", port = ""] = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(address) ?? [];
  if (name === "" || Number(port) > 65_535)
    throw new SettingError(`GATEWAY_ADDR must be HOST:PORT, such as 127.0.0.1:8790, and is ${address}`);
  const isLoopback = name === "localhost" || name === "::1" || (isIP(name) === 4 && name.startsWith("127."));
  const tokensFile = env["DEVICE_TOKENS_FILE"] || undefined;
  if (tokensFile === undefined && !isLoopback) {
    throw new SettingError(`GATEWAY_ADDR ${address} can be reached from other machines: set DEVICE_TOKENS_FILE, or use 127.0.0.1`);
  }
  return {
    host: name,
    port: Number(port),
    /** Undefined if devices need no token. */
    knownDevices: tokensFile === undefined ? undefined : readTokens(tokensFile),
    allowedTools: toolPatterns(env["ALLOWED_TOOLS"] || "*", "ALLOWED_TOOLS"),
    hooks: (env["HOOKS"] ?? "").split(",").filter((path) => path !== ""),
    limits: Object.fromEntries(Object.entries(LIMITS).map(([limit, value]) => [limit, readLimit(env, limit, value)])) as Limits,
  };
}

function readLimit(env: NodeJS.ProcessEnv, limit: string, fallback: number): number {
  const variable = limit.replaceAll(/[A-Z]/g, "_$&").toUpperCase();
  const text = env[variable] || String(fallback);
  if (!/^[1-9]\d*$/.test(text) || Number(text) > MAX_LIMIT)
    throw new SettingError(`${variable} must be a whole number from 1 to ${MAX_LIMIT}`);
  return Number(text);
}
