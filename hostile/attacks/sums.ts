// Many uses of memory, each allowed by itself, from one client or from twenty. Their sum has the memory budget as its limit.

import { type Attacker, times } from "../attacker.ts";
import type { ServerEra } from "../contract.ts";
import type { Attack, Scene } from "../stage.ts";

const MIB = 1024 * 1024;
const BUDGET_BYTES = 64 * MIB;
const FLAGS = ["--memory-budget-bytes", String(BUDGET_BYTES)];
const SLOW_MS = 4000;
/** The requests on one connection that do not wait for responses. */
const PIPELINED = 500;

/** Does something many times, shared among clients. */
type Use = (attacker: Attacker, count: number) => Promise<void>;

interface Sum {
  readonly name: string;
  readonly era?: ServerEra;
  /** The number of uses, by all clients together. */
  readonly count: number;
  readonly use: Use;
}

function call(id: string | number, name: string, args: object): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } };
}

/** Calls a tool on a connection of its own, so that all calls are in flight at once. */
function callAlone(attacker: Attacker, message: object | string): Promise<unknown> {
  return attacker.writeRaw(attacker.rawPost(typeof message === "string" ? message : JSON.stringify(message)));
}

const SUMS: readonly Sum[] = [
  {
    name: "1,000 calls in flight with ids of 1 KiB",
    count: 1000,
    use: async (attacker, count) => {
      await times(count, (index) => callAlone(attacker, call(`${index}${"i".repeat(1000)}`, "echo", { text: "t", delayMs: SLOW_MS })));
    },
  },
  {
    name: "1,000 calls in flight with 60 KB",
    count: 1000,
    use: async (attacker, count) => {
      const args = { text: "t", delayMs: SLOW_MS, padding: "p".repeat(60_000) };
      await times(count, (index) => callAlone(attacker, call(index, "echo", args)));
    },
  },
  {
    name: "100 bodies of 4 MB that stall",
    count: 100,
    use: async (attacker, count) => {
      const start = attacker.head(["Content-Length: 4000000"]) + " ".repeat(3_900_000);
      await times(count, () => attacker.writeRaw(start, SLOW_MS));
    },
  },
  {
    name: "60 results of 4 MB that are not read",
    count: 60,
    use: async (attacker, count) => {
      await times(count, async (index) => {
        const body = JSON.stringify(call(index, "trick", { trick: "line", shape: "plain", as: "result", bytes: 4_000_000 }));
        await attacker.writeUnread(attacker.rawPost(body));
      });
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
        await times(Math.min(400, count - done), (index) => {
          const uri = `x://${done + index}/${"u".repeat(8000)}`;
          return attacker.request("resources/subscribe", { uri });
        });
      }
    },
  },
  {
    name: "100 events of 1 MB for replay",
    count: 100,
    use: async (attacker, count) => {
      for (let index = 0; index < count; index++) {
        const args = { trick: "line", shape: "plain", as: "progress", bytes: MIB };
        await attacker.request("tools/call", { name: "trick", arguments: args, _meta: { progressToken: index } });
      }
    },
  },
  {
    name: "20,000 pipelined calls of which nothing is read",
    count: 20_000,
    use: async (attacker, count) => {
      for (let done = 0; done < count; done += PIPELINED) {
        const bodies = Array.from({ length: PIPELINED }, (_, index) =>
          JSON.stringify(call(done + index, "echo", { text: "t".repeat(1000) })),
        );
        await attacker.writeUnread(bodies.map((body) => attacker.rawPost(body)).join(""));
      }
      await attacker.callTool("echo", { text: "t", delayMs: SLOW_MS });
    },
  },
  {
    name: "60 bodies of 1 MB in which each character is escaped",
    count: 60,
    use: async (attacker, count) => {
      const escaped = String.raw`\u0061`.repeat(160_000);
      await times(count, (index) =>
        callAlone(
          attacker,
          `{"jsonrpc":"2.0","id":${index},"method":"tools/call","params":{"name":"echo","arguments":{"delayMs":${SLOW_MS},"text":"t","padding":"${escaped}"}}}`,
        ),
      );
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
      await attacker.close();
    },
  },
  {
    name: "20 lines of 60 MB",
    count: 20,
    use: async (attacker, count) => {
      for (let index = 0; index < count; index++)
        await attacker.callTool("trick", { trick: "line", shape: "plain", as: "result", bytes: 60_000_000 });
    },
  },
];

function attack({ name, count, use, era = "legacy" }: Sum, clients: "one client" | "twenty clients"): Attack {
  return {
    name: `sum: ${name}, ${clients}`,
    flags: FLAGS,
    era,
    budgetBytes: BUDGET_BYTES,
    run: async ({ attacker, others }: Scene) => {
      const users = clients === "one client" ? [attacker] : others;
      await Promise.all(
        users.map(async (user) => {
          await user.open();
          await use(user, count / users.length);
        }),
      );
    },
  };
}

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

export const SUM_ATTACKS: readonly Attack[] = [LOAD, ...SUMS.flatMap((sum) => [attack(sum, "one client"), attack(sum, "twenty clients")])];
