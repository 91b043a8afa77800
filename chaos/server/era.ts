// The protocol era of the process: sessions, or MCP 2026-07-28.

import { META, MODERN_VERSION } from "../../test/support/modern-client.ts";
import { ERA_FILE, ERA_VARIABLE, SERVER_NAME } from "../contract.ts";
import { readSwitch } from "./records.ts";

const option = process.env[ERA_VARIABLE];
const mode = option === "changing" ? readSwitch(ERA_FILE) : option;
let era: "legacy" | "modern" | "open" = mode === "modern" ? "modern" : mode === "dual" ? "open" : "legacy";

export function isModern(): boolean {
  return era === "modern";
}

/** Decides an open era by the first request. A discovery decides nothing. */
export function decideEra(method: string, params: Readonly<Record<string, unknown>> | undefined): void {
  if (era !== "open" || method === "server/discover") return;
  const meta = params?.["_meta"] as Readonly<Record<string, unknown>> | undefined;
  era = meta?.[META.protocolVersion] === MODERN_VERSION ? "modern" : "legacy";
}

/** True if the process answers this method of the handshake. */
export function servesHandshake(method: "initialize" | "server/discover"): boolean {
  return method === "initialize" ? era !== "modern" : era !== "legacy";
}

/** The members that each result has. */
export function resultMembers(): object {
  return isModern() ? { resultType: "complete" } : {};
}

export function discoverResult(): object {
  return {
    resultType: "complete",
    supportedVersions: [MODERN_VERSION],
    capabilities: { tools: { listChanged: true }, resources: { subscribe: true }, logging: {} },
    ttlMs: 0,
    cacheScope: "private",
    _meta: { [META.serverInfo]: { name: SERVER_NAME, version: "1.0.0" } },
  };
}
