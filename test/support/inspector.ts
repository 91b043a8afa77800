import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { TempDir } from "./temp-dir.ts";

const require = createRequire(import.meta.url);
const manifestPath = require.resolve("@modelcontextprotocol/inspector/package.json");
const { bin } = JSON.parse(readFileSync(manifestPath, "utf8")) as { readonly bin: { readonly inspector: string } };
const INSPECTOR = join(dirname(manifestPath), bin.inspector);

/** Only a hang reaches it. */
const RUN_TIMEOUT_MS = 120_000;

/** Runs the official inspector's command line against the endpoint, in a home directory of its own. */
export async function inspect(url: string, ...args: readonly string[]) {
  await using home = await TempDir.create();
  const child = spawn(process.execPath, [INSPECTOR, "--cli", url, "--transport", "http", ...args], {
    env: { ...process.env, HOME: home.path },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: RUN_TIMEOUT_MS,
  });
  const closed = once(child, "close") as Promise<[code: number | null]>;
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
  return { code, stdout, stderr };
}
