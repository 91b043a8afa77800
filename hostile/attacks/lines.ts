// Long lines of the server that are costly to parse, to write into an event stream, or to cut to a limit.

import { LONG_LINE_BYTES } from "../contract.ts";
import { SHAPES, type Shape } from "../shapes.ts";
import type { Attack } from "../stage.ts";

const MIB = 1024 * 1024;
const KINDS = ["notification", "error", "request", "batch", "noise", "text"];
const HARDEST: readonly Shape[] = ["objects", "deep-arrays", "plain", "non-ascii", "escapes", "members", "line-breaks"];

/** Calls the tool `trick` with each of the arguments in turn. */
function tricks(name: string, calls: readonly object[], flags: readonly string[] = []): Attack {
  return {
    name,
    flags,
    mayRefuse: true,
    run: async ({ attacker }) => {
      for (const args of calls) await attacker.callTool("trick", args);
    },
  };
}

function longLine(shape: Shape, as: string): Attack {
  return tricks(`line: 60 MiB of ${shape} as ${as}`, [{ trick: "line", shape, as, bytes: LONG_LINE_BYTES }]);
}

const SHORT_LINES: readonly (readonly [count: number, what: string, line: string])[] = [
  [1_000_000, "empty lines", ""],
  [1_000_000, "lines {}", "{}"],
  [1_000_000, "lines x", "x"],
  [300_000, "answers to nothing", '{"jsonrpc":"2.0","id":-1,"result":{}}'],
  [300_000, "notifications of nothing", '{"jsonrpc":"2.0","method":"notifications/progress"}'],
  [300_000, "requests of the server", '{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}'],
  [100_000, "lines tools/list_changed", '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'],
];

export const LINE_ATTACKS: readonly Attack[] = [
  ...SHAPES.map((shape) => longLine(shape, "result")),
  ...KINDS.flatMap((as) => HARDEST.map((shape) => longLine(shape, as))),
  ...SHORT_LINES.map(([count, what, line]) => tricks(`line: ${count} ${what}`, [{ trick: "tiny", line, count }])),
  tricks("line: 200 MiB without an end of line", [{ trick: "line", shape: "plain", as: "noise", bytes: 200 * MIB }]),
  tricks("line: 65 MiB of objects, more than MAX_LINE_BYTES", [{ trick: "line", shape: "objects", as: "result", bytes: 65 * MIB }]),
  tricks(
    "line: objects of 60 KiB to 60 MiB in turn",
    [60, 65, 1024, 2048, 4096, 8192, 16384, 61440].map((kib) => ({ trick: "line", shape: "objects", as: "result", bytes: kib * 1024 })),
  ),
  {
    name: "line: a request 500,000 deep that the server echoes in its error",
    run: async ({ attacker }) => {
      for (const depth of [8000, 100_000, 500_000]) {
        await attacker.post(`{"jsonrpc":"2.0","id":6,"method":"x/echo","params":{"deep":${"[".repeat(depth)}${"]".repeat(depth)}}}`);
      }
    },
  },
  {
    // A carriage return ends a line of an event stream too.
    name: "line: 20 MiB each of plain, line-breaks, non-ascii as progress of a call",
    run: async ({ attacker }) => {
      for (const shape of ["plain", "line-breaks", "non-ascii"]) {
        const args = { trick: "line", shape, as: "progress", bytes: 20 * MIB };
        const reply = await attacker.request("tools/call", { name: "trick", arguments: args, _meta: { progressToken: shape } });
        attacker.replies.add(`${shape}: ${Math.round(Buffer.byteLength(reply?.body ?? "") / MIB)} MiB read`);
      }
    },
  },
];

const CUT_SHAPES: readonly Shape[] = ["objects", "deep-arrays", "deep-objects", "members", "plain", "escapes"];

/** The parts of a response that may be as long as the limit. `piece` is repeated between `before` and `after`. */
const PLACES: readonly (readonly [name: string, before: string, piece: string, after: string])[] = [
  ["content items", '"result":{"content":[', '{"type":"text","text":"tttttttttt"},', '{"type":"text","text":""}]}}'],
  ["members beside the result", '"result":{"content":[]},', '"":0,', '"z":0}'],
  ["members of a result", '"result":{', '"":0,', '"content":[]}}'],
  ["members of _meta", '"result":{"content":[],"_meta":{', '"":0,', '"z":0}}}'],
  ["members of an item", '"result":{"content":[{', '"":0,', '"type":"text","text":"a"}]}}'],
  ["members of an error", '"error":{"code":1,"message":"no",', '"":0,', '"z":0}}'],
  ["base64", '"result":{"content":[{"type":"image","data":"', String.raw`\/`, '"}]}}'],
  ["white space", '"result":{"content":[', " ", "]}}"],
];

function cut(what: string, args: object): Attack {
  return tricks(`result: 60 MiB of ${what}, cut to 16384 bytes`, [{ ...args, bytes: LONG_LINE_BYTES }], ["--max-result-bytes", "16384"]);
}

export const RESULT_ATTACKS: readonly Attack[] = [
  ...["objects", "plain"].map((shape) => cut(`${shape} as content`, { trick: "line", shape, as: "content" })),
  ...CUT_SHAPES.map((shape) => cut(`${shape} as structured content`, { trick: "line", shape, as: "result" })),
  ...PLACES.map(([what, before, piece, after]) =>
    cut(what, { trick: "repeat", before: `{"jsonrpc":"2.0","id":OWN,${before}`, piece, after }),
  ),
];
