// Ids, tokens, names and URIs of any length, and batches of any size.

import { times } from "../attacker.ts";
import type { Attack } from "../stage.ts";

const KIB = 1024;
/** Lengths on both sides of each limit, with and without the quotes. */
const LENGTHS = [KIB - 2, KIB - 1, KIB, KIB + 1, 8 * KIB, 8 * KIB + 1, KIB * KIB];
const AT_ONCE = 200;
/** A revision with batches. */
const OLDER = "2025-03-26";
const ECHO = { name: "echo", arguments: { text: "t" } };

/** Messages with a text of any length. */
const MESSAGES: Readonly<Record<string, (text: string) => object>> = {
  ids: (id) => ({ id, method: "tools/call", params: ECHO }),
  "progress tokens": (progressToken) => ({ id: 3, method: "tools/call", params: { ...ECHO, _meta: { progressToken } } }),
  "method names": (method) => ({ id: 3, method, params: {} }),
  "method names of notifications": (method) => ({ method: `notifications/${method}`, params: {} }),
  "tool names": (name) => ({ id: 3, method: "tools/call", params: { name, arguments: {} } }),
  "subscription URIs": (uri) => ({ id: 3, method: "resources/subscribe", params: { uri: `file:///${uri}` } }),
  "ids of cancelled requests": (requestId) => ({ method: "notifications/cancelled", params: { requestId } }),
  "progress tokens of notifications": (progressToken) => ({ method: "notifications/progress", params: { progressToken, progress: 1 } }),
  "log levels": (level) => ({ id: 3, method: "logging/setLevel", params: { level } }),
};

function batchOf(count: number, message: (index: number) => object): string {
  return JSON.stringify(Array.from({ length: count }, (_, index) => ({ jsonrpc: "2.0", ...message(index) })));
}

const echo = (id: string | number): object => ({ id, method: "tools/call", params: ECHO });

const BATCHES: Readonly<Record<string, () => readonly string[]>> = {
  "100 and 101 calls": () => [batchOf(100, echo), batchOf(101, echo)],
  "1,000,000 empty objects, of 100 ids of 40 KB": () => [
    `[${"{},".repeat(1_000_000)}{}]`,
    batchOf(100, (index) => echo(`${index}${"i".repeat(40_000)}`)),
  ],
};

export const NAME_ATTACKS: readonly Attack[] = [
  ...Object.entries(MESSAGES).map(([what, messageOf]): Attack => ({
    name: `name: ${what} of 1 KiB to 1 MiB`,
    run: async ({ attacker }) => {
      const send = (text: string): Promise<unknown> => attacker.post({ jsonrpc: "2.0", ...messageOf(text) });
      for (const length of LENGTHS) {
        await send("n".repeat(length));
        await send("ü\\u0061\u2028".repeat(length >> 3));
      }
      await times(AT_ONCE, (index) => send(`${index}${"n".repeat(64 * KIB)}`));
    },
  })),
  ...Object.entries(BATCHES).map(([what, bodies]): Attack => ({
    name: `name: batches of ${what}`,
    run: async ({ attacker }) => {
      await attacker.open(OLDER);
      for (const body of bodies()) await attacker.post(body);
    },
  })),
];
