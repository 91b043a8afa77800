// Ids, tokens, names and URIs of any length, and batches of any size.

import { times } from "../attacker.ts";
import type { Attack } from "../stage.ts";

const KIB = 1024;
/** Lengths on both sides of each limit, with and without the quotes. */
const LENGTHS = [KIB - 2, KIB - 1, KIB, KIB + 1, 8 * KIB, 8 * KIB + 1, KIB * KIB];
const AT_ONCE = 200;
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
  {
    name: "name: batches of 100 calls with ids of 40 KB, and of 1,000,000 empty objects",
    run: async ({ attacker }) => {
      await attacker.open(OLDER);
      const idOf = (index: number): string => `${index}${"i".repeat(40_000)}`;
      await attacker.post(
        Array.from({ length: 100 }, (_, index) => ({ jsonrpc: "2.0", id: idOf(index), method: "tools/call", params: ECHO })),
      );
      await attacker.post(`[${"{},".repeat(1_000_000)}{}]`);
    },
  },
];
