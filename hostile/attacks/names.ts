// Ids, tokens, names and URIs of any length, and batches of any size.

import { times } from "../attacker.ts";
import type { Attack } from "../stage.ts";

const KIB = 1024;
/** Lengths on both sides of each limit, with and without the quotes. */
const LENGTHS = [KIB - 2, KIB - 1, KIB, KIB + 1, 8 * KIB, 8 * KIB + 1, KIB * KIB];
const AT_ONCE = 200;

/** Sends messages with a string of each length, and then many long ones at once. */
function lengths(what: string, messageOf: (text: string) => unknown, notification = false): Attack {
  return {
    name: `name: ${what} of 1 KiB to 1 MiB${notification ? ", in notifications" : ""}`,
    run: async ({ attacker }) => {
      await attacker.open();
      for (const length of LENGTHS) {
        await attacker.post(messageOf("n".repeat(length)));
        await attacker.post(messageOf("ü\\u0061\u2028".repeat(length >> 3)));
      }
      await times(AT_ONCE, (index) => attacker.post(messageOf(`${index}${"n".repeat(64 * KIB)}`)));
    },
  };
}

const call = (params: object): unknown => ({ jsonrpc: "2.0", id: 3, method: "tools/call", params });

/** A revision with batches. */
const OLDER = "2025-03-26";

function batches(name: string, bodies: () => readonly string[]): Attack {
  return {
    name: `name: batches ${name}`,
    run: async ({ attacker }) => {
      await attacker.open(OLDER);
      for (const body of bodies()) await attacker.post(body);
    },
  };
}

function batchOf(count: number, message: (index: number) => object): string {
  return JSON.stringify(Array.from({ length: count }, (_, index) => ({ jsonrpc: "2.0", ...message(index) })));
}

const echo = (id: string | number): object => ({ id, method: "tools/call", params: { name: "echo", arguments: { text: "t" } } });

export const NAME_ATTACKS: readonly Attack[] = [
  lengths("ids", (id) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "echo", arguments: { text: "t" } } })),
  lengths("progress tokens", (progressToken) => call({ name: "echo", arguments: { text: "t" }, _meta: { progressToken } })),
  lengths("method names", (method) => ({ jsonrpc: "2.0", id: 3, method, params: {} })),
  lengths("method names", (method) => ({ jsonrpc: "2.0", method: `notifications/${method}`, params: {} }), true),
  lengths("tool names", (name) => call({ name, arguments: {} })),
  lengths("subscription URIs", (uri) => ({ jsonrpc: "2.0", id: 3, method: "resources/subscribe", params: { uri: `file:///${uri}` } })),
  lengths("ids of cancelled requests", (requestId) => ({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } }), true),
  lengths(
    "progress tokens",
    (progressToken) => ({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken, progress: 1 } }),
    true,
  ),
  lengths("log levels", (level) => ({ jsonrpc: "2.0", id: 3, method: "logging/setLevel", params: { level } })),
  {
    name: "name: 20,000 subscriptions of 8 KiB each",
    run: async ({ attacker }) => {
      await attacker.open();
      for (let round = 0; round < 200 && !attacker.isOver; round++) {
        await times(100, (index) =>
          attacker.request("resources/subscribe", { uri: `file:///${round}/${index}/${"u".repeat(8 * KIB - 40)}` }),
        );
      }
    },
  },
  {
    name: "name: 60 sessions with 1,000 subscriptions of 8 KiB each, in batches",
    run: async ({ attacker }) => {
      for (let session = 0; session < 60 && !attacker.isOver; session++) {
        await attacker.open(OLDER);
        for (let batch = 0; batch < 10; batch++) {
          const uri = (id: number): string => `file:///${batch}/${id}/${"u".repeat(8 * KIB - 40)}`;
          await attacker.post(batchOf(100, (id) => ({ id, method: "resources/subscribe", params: { uri: uri(id) } })));
        }
      }
    },
  },
  batches("of 100 and 101 calls", () => [batchOf(100, echo), batchOf(101, echo)]),
  batches("of 100 calls with the same id", () => [batchOf(100, () => echo(1))]),
  batches("of 100 initializes and of 100 batches", () => [
    batchOf(100, (id) => ({
      id,
      method: "initialize",
      params: { protocolVersion: OLDER, capabilities: {}, clientInfo: { name: "a", version: "1" } },
    })),
    `[${"[".repeat(99)}${"]".repeat(99)}]`,
    "[]",
    `[${"[],".repeat(99)}[]]`,
  ]),
  batches("of 1,000,000 empty objects, of 100 ids of 40 KB", () => [
    `[${"{},".repeat(1_000_000)}{}]`,
    batchOf(100, (index) => echo(`${index}${"i".repeat(40_000)}`)),
  ]),
];
