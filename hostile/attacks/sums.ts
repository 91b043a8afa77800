// Many uses of memory, each allowed by itself, from one client or from twenty. Their sum has the memory budget as its limit.

import { type Attacker, times } from "../attacker.ts";
import type { ServerEra } from "../contract.ts";
import type { Attack } from "../stage.ts";

const BUDGET_BYTES = 64 * 1024 * 1024;
const FLAGS = ["--memory-budget-bytes", String(BUDGET_BYTES)];
const SLOW_MS = 4000;
/** The requests on one connection that do not wait for responses. */
const PIPELINED = 500;

interface Sum {
  readonly name: string;
  readonly era?: ServerEra;
  /** The number of uses, by all clients together. */
  readonly count: number;
  readonly use: (attacker: Attacker, count: number) => Promise<unknown>;
}

function call(id: string | number, name: string, args: object): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } };
}

/** Calls a tool on connections of their own, so that all calls are in flight at once. */
function callAtOnce(attacker: Attacker, count: number, messageOf: (index: number) => object): Promise<unknown> {
  return times(count, (index) => attacker.writeRaw(attacker.rawPost(JSON.stringify(messageOf(index)))));
}

function lineOf(bytes: number, as: string): object {
  return { trick: "line", shape: "plain", as, bytes };
}

const SUMS: readonly Sum[] = [
  {
    name: "1,000 calls in flight with 60 KB",
    count: 1000,
    use: (attacker, count) =>
      callAtOnce(attacker, count, (index) => call(index, "echo", { text: "t", delayMs: SLOW_MS, padding: "p".repeat(60_000) })),
  },
  {
    name: "100 bodies of 4 MB that stall",
    count: 100,
    use: (attacker, count) => {
      const start = attacker.head(["Content-Length: 4000000"]) + " ".repeat(3_900_000);
      return times(count, () => attacker.writeRaw(start, SLOW_MS));
    },
  },
  {
    name: "60 results of 4 MB that are not read",
    count: 60,
    use: async (attacker, count) => {
      await times(count, (index) =>
        attacker.writeUnread(attacker.rawPost(JSON.stringify(call(index, "trick", lineOf(4_000_000, "result"))))),
      );
      // A response shows that the server has handled the calls before.
      await attacker.callTool("echo", { text: "t", delayMs: SLOW_MS });
    },
  },
  {
    name: "8,000 subscriptions to URIs of 8 KB",
    count: 8000,
    use: async (attacker, count) => {
      for (let done = 0; done < count; done += 400) {
        if (done % 1000 === 0) await attacker.open();
        const uri = (index: number): string => `x://${done + index}/${"u".repeat(8000)}`;
        await times(Math.min(400, count - done), (index) => attacker.request("resources/subscribe", { uri: uri(index) }));
      }
    },
  },
  {
    name: "100 events of 1 MB for replay",
    count: 100,
    use: async (attacker, count) => {
      for (let index = 0; index < count; index++) {
        const params = { name: "trick", arguments: lineOf(1024 * 1024, "progress"), _meta: { progressToken: index } };
        await attacker.request("tools/call", params);
      }
    },
  },
  {
    name: "20,000 pipelined calls of which nothing is read",
    count: 20_000,
    use: async (attacker, count) => {
      const args = { text: "t".repeat(1000) };
      for (let done = 0; done < count; done += PIPELINED) {
        const requests = Array.from({ length: PIPELINED }, (_, index) =>
          attacker.rawPost(JSON.stringify(call(done + index, "echo", args))),
        );
        await attacker.writeUnread(requests.join(""));
      }
      await attacker.callTool("echo", { text: "t", delayMs: SLOW_MS });
    },
  },
  {
    name: "1,000 calls of 60 KB that ask their clients",
    era: "modern",
    count: 1000,
    use: async (attacker, count) => {
      await attacker.open("2025-11-25", { elicitation: {} });
      const question = { method: "elicitation/create", params: { message: "m".repeat(1000), requestedSchema: {} } };
      const args = { trick: "input", members: `"inputRequests":${JSON.stringify({ q: question })}`, padding: "p".repeat(60_000) };
      await times(count, (index) => attacker.post(call(index, "trick", args), { limitMs: SLOW_MS }));
      await attacker.end();
    },
  },
  {
    name: "20 lines of 60 MB",
    count: 20,
    use: async (attacker, count) => {
      for (let index = 0; index < count; index++) await attacker.callTool("trick", lineOf(60_000_000, "result"));
    },
  },
];

/** The load that a sidecar has in ordinary use. Its memory is the base for the sums. */
const LOAD: Attack = {
  name: "sum: an ordinary load, 400 results of 1 MB for twenty clients",
  flags: FLAGS,
  isLoadBase: true,
  run: async ({ others }) => {
    const text = "t".repeat(1_000_000);
    await Promise.all(
      others.map(async (other) => {
        await other.open();
        for (let count = 0; count < 20; count++) await other.callTool("echo", { text });
      }),
    );
  },
};

export const SUM_ATTACKS: readonly Attack[] = [
  LOAD,
  ...SUMS.flatMap(({ name, count, use, era = "legacy" }) =>
    ["one client", "twenty clients"].map((clients): Attack => ({
      name: `sum: ${name}, ${clients}`,
      flags: FLAGS,
      era,
      budgetBytes: BUDGET_BYTES,
      run: async ({ attacker, others }) => {
        const users = clients === "one client" ? [attacker] : others;
        await Promise.all(
          users.map(async (user) => {
            await user.open();
            await use(user, count / users.length);
          }),
        );
      },
    })),
  ),
];
