// The sidecar under attack, with little memory.

import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Adapter } from "../chaos/adapters.ts";
import type { Attack } from "./attack.ts";
import { SERVER_FILE } from "./contract.ts";

const ROOT_DIR = join(import.meta.dirname, "..");
export const TOKEN = newToken();
export const BYSTANDER_TOKEN = newToken();
export const OTHER_TOKENS: readonly string[] = Array.from({ length: 20 }, newToken);

function newToken(): string {
  return randomBytes(24).toString("hex");
}

const DIRECTORY = mkdtempSync(join(tmpdir(), "hostile-"));
const TOKEN_FILE = join(DIRECTORY, "tokens");
writeFileSync(TOKEN_FILE, [TOKEN, BYSTANDER_TOKEN, ...OTHER_TOKENS].join("\n"));
process.on("exit", () => rmSync(DIRECTORY, { recursive: true, force: true }));

/** Times shorter than the defaults, so that each attack ends soon. */
const TIMES = [
  ["--request-timeout-ms", "20000"],
  ["--hold-timeout-ms", "10000"],
  ["--ready-timeout-ms", "10000"],
  ["--drain-timeout-ms", "1000"],
  ["--restart-backoff-ms", "50"],
  ["--restart-max-ms", "1000"],
  ["--reader-timeout-ms", "5000"],
  ["--headers-timeout-ms", "3000"],
  ["--body-timeout-ms", "10000"],
].flat();

export function sidecarUnderAttack({
  flags = [],
  environment = {},
  tools = "plain",
  era = "legacy",
}: Pick<Attack, "flags" | "environment" | "tools" | "era">): Adapter {
  return {
    name: "claw",
    packageDir: ROOT_DIR,
    token: TOKEN,
    // With this secret of the server, the sidecar searches all forwarded text for it.
    environment: { CLAW_MCP_STDIO_AUTH_TOKEN_FILE: TOKEN_FILE, API_KEY: "hostile-secret-0123456789", ...environment },
    path: "/mcp",
    healthPath: "/readyz",
    statusPath: "/status",
    notes: [],
    isSubject: true,
    nodeArgs: (port) => [
      "--max-old-space-size=256",
      "--max-semi-space-size=8",
      join(ROOT_DIR, "dist", "main.js"),
      "--addr",
      `127.0.0.1:${port}`,
      ...TIMES,
      ...flags,
      "--",
      process.execPath,
      SERVER_FILE,
      tools,
      era,
    ],
  };
}
