// Lines of the server of the largest length that are costly to parse.

import type { Attack } from "../attack.ts";
import { LONG_LINE_BYTES } from "../contract.ts";
import { SHAPES, type Shape } from "../shapes.ts";

const KINDS = ["result", "notification", "error", "request", "batch", "noise", "text"] as const;
const HARDEST: readonly Shape[] = ["objects", "deep-arrays", "plain", "non-ascii", "escapes", "members", "line-breaks"];

function longLine(shape: Shape, as: (typeof KINDS)[number], flags: readonly string[] = []): Attack {
  return {
    name: `line: 60 MiB of ${shape} as ${as}${flags.length === 0 ? "" : `, ${flags.join(" ")}`}`,
    flags,
    mayRefuse: true,
    run: async ({ attacker }) => {
      await attacker.open();
      await attacker.callTool("trick", { trick: "line", shape, as, bytes: LONG_LINE_BYTES });
    },
  };
}

const asResult = SHAPES.map((shape) => longLine(shape, "result"));
const asOthers = KINDS.filter((as) => as !== "result").flatMap((as) => HARDEST.map((shape) => longLine(shape, as)));

/** Calls the tool `trick` with each of the arguments in turn. */
function tricks(name: string, calls: readonly object[], flags: readonly string[] = []): Attack {
  return {
    name: `line: ${name}`,
    flags,
    mayRefuse: true,
    run: async ({ attacker }) => {
      await attacker.open();
      for (const args of calls) await attacker.callTool("trick", args);
    },
  };
}

export const LINE_ATTACKS: readonly Attack[] = [
  ...asResult,
  ...asOthers,
  tricks("200 MiB without an end of line", [{ trick: "endless", bytes: 200 * 1024 * 1024 }]),
  tricks("65 MiB of objects, more than MAX_LINE_BYTES", [{ trick: "line", shape: "objects", as: "result", bytes: 65 * 1024 * 1024 }]),
  tricks("1,000,000 empty lines", [{ trick: "tiny", line: "", count: 1_000_000 }]),
  tricks("1,000,000 lines {}", [{ trick: "tiny", line: "{}", count: 1_000_000 }]),
  tricks("1,000,000 lines x", [{ trick: "tiny", line: "x", count: 1_000_000 }]),
  tricks("300,000 answers to nothing", [{ trick: "tiny", line: '{"jsonrpc":"2.0","id":-1,"result":{}}', count: 300_000 }]),
  tricks("300,000 notifications of nothing", [
    { trick: "tiny", line: '{"jsonrpc":"2.0","method":"notifications/progress"}', count: 300_000 },
  ]),
  tricks("300,000 requests of the server", [
    { trick: "tiny", line: '{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}', count: 300_000 },
  ]),
  tricks("100,000 lines tools/list_changed", [
    { trick: "tiny", line: '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', count: 100_000 },
  ]),
  tricks(
    "lines of objects of 60 KiB to 60 MiB in turn",
    [60, 65, 1024, 2048, 4096, 8192, 16384, 61440].map((kib) => ({ trick: "line", shape: "objects", as: "result", bytes: kib * 1024 })),
  ),
];

const DEPTHS = [8000, 1_000_000];

/** Errors with deeply nested data, in which the sidecar has to replace secrets. */
const deepErrors: readonly Attack[] = [
  tricks(
    "errors to a call, data nested 8,000 and 1,000,000 deep",
    DEPTHS.map((depth) => ({ trick: "error", depth })),
  ),
  {
    name: "line: a request 100,000 deep that the server echoes in its error",
    run: async ({ attacker }) => {
      await attacker.open();
      for (const depth of [8000, 100_000, 500_000]) {
        await attacker.post(`{"jsonrpc":"2.0","id":6,"method":"x/echo","params":{"deep":${"[".repeat(depth)}${"]".repeat(depth)}}}`);
      }
    },
  },
  {
    name: "line: errors to initialize at a restart, data nested 8,000 and 1,000,000 deep",
    mayRefuse: true,
    run: async ({ attacker, setSwitch, removeSwitch }) => {
      for (const depth of DEPTHS) {
        await attacker.open();
        setSwitch("initialize", String(depth));
        await attacker.callTool("exit");
        // This call waits for a server that does not become ready.
        await attacker.callTool("echo", { text: "t" }, { limitMs: 4000 });
        removeSwitch("initialize");
        await attacker.callTool("echo", { text: "t" });
      }
    },
  },
  {
    name: "line: errors to initialize of a client with a server of its own, nested 8,000 and 1,000,000 deep",
    run: async ({ attacker, setSwitch, removeSwitch }) => {
      const params = { protocolVersion: "2025-11-25", capabilities: { sampling: {}, roots: {} }, clientInfo: { name: "a", version: "1" } };
      for (const depth of DEPTHS) {
        setSwitch("initialize", String(depth));
        await attacker.request("initialize", params, { sessionId: undefined });
        removeSwitch("initialize");
      }
      await attacker.request("initialize", params, { sessionId: undefined });
    },
  },
];

export const ERROR_ATTACKS: readonly Attack[] = deepErrors;
