// What sessions of editors cost, which declare roots, sampling and elicitation: the time to open many, beside sessions without capabilities,
// and the memory of five beside that of one. `node bench/editors.ts`, after `npm run build`.

import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ASKABLE, McpClient } from "../test/support/mcp-client.ts";
import { Sidecar } from "../test/support/sidecar.ts";
import { EVERYTHING } from "../test/support/real-servers.ts";
import { readStatus } from "../test/support/status.ts";
import { treeMemoryBytes } from "./proc.ts";
import { median } from "./statistics.ts";

const ROUNDS = 7;
const SESSIONS = 200;
/** The numbers of sessions that are opened at once. */
const AT_ONCE = [1, 16];
const EDITORS = 5;
const SETTLE_MS = 2000;
const ECHO = [process.execPath, fileURLToPath(new URL("echo-child.js", import.meta.url))];

async function openMs(capabilities: object, atOnce: number): Promise<number> {
  await using sidecar = await Sidecar.start({ command: ECHO });
  const startedAtMs = performance.now();
  let left = SESSIONS;
  const open = async (): Promise<void> => {
    while (left-- > 0) await new McpClient(sidecar.url, { capabilities }).open();
  };
  await Promise.all(Array.from({ length: atOnce }, open));
  const takenMs = performance.now() - startedAtMs;
  const { lanes } = await readStatus(sidecar);
  if (lanes.private.servers > 1) throw new Error(`${lanes.private.servers} private servers`);
  return takenMs;
}

async function editorsBytes(count: number, command: readonly string[]): Promise<number> {
  await using sidecar = await Sidecar.start({ command });
  for (let opened = 0; opened < count; opened++) {
    const client = await new McpClient(sidecar.url, { capabilities: ASKABLE }).open();
    await client.request("tools/list");
  }
  await sleep(SETTLE_MS);
  return treeMemoryBytes(sidecar.process.pid ?? 0);
}

for (const atOnce of AT_ONCE) {
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const [plain, askable] = [await openMs({}, atOnce), await openMs(ASKABLE, atOnce)];
    ratios.push(askable / plain);
    console.log(`${SESSIONS} sessions, ${atOnce} at once: ${plain.toFixed(0)} ms without capabilities, ${askable.toFixed(0)} ms with them`);
  }
  console.log(`median of the ratios: ${median(ratios).toFixed(2)}`);
}
for (const [name, command] of Object.entries({ "a server that never asks": ECHO, "server-everything, which asks": EVERYTHING })) {
  const [one, five] = [await editorsBytes(1, command), await editorsBytes(EDITORS, command)];
  console.log(
    `${name}: one editor ${(one / 1e6).toFixed(0)} MB, ${EDITORS} editors ${(five / 1e6).toFixed(0)} MB, ratio ${(five / one).toFixed(2)}`,
  );
}
