// Long lines of the server that are costly to parse, to write into an event stream, or to cut to a limit.

import { type Attacker, within } from "../attacker.ts";
import { LONG_LINE_BYTES } from "../contract.ts";
import { SHAPES, type Shape } from "../shapes.ts";
import type { Attack } from "../stage.ts";

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
  {
    name: "line: a request 100,000 deep that the server echoes in its error",
    run: async ({ attacker }) => {
      await attacker.open();
      for (const depth of [8000, 100_000, 500_000]) {
        await attacker.post(`{"jsonrpc":"2.0","id":6,"method":"x/echo","params":{"deep":${"[".repeat(depth)}${"]".repeat(depth)}}}`);
      }
    },
  },
];

const MIB = 1024 * 1024;
const LINE_BYTES = 20 * MIB;
/** A carriage return ends a line of an event stream too. */
const LINES: readonly Shape[] = ["plain", "line-breaks", "non-ascii"];
const READ_LIMIT_MS = 20_000;

function stream(name: string, run: (attacker: Attacker) => Promise<void>): Attack {
  return {
    name: `line: 20 MiB each of ${LINES.join(", ")} ${name}`,
    run: async ({ attacker }) => {
      await attacker.open();
      await run(attacker);
    },
  };
}

const progress = stream("as progress of a call", async (attacker) => {
  for (const shape of LINES) {
    const args = { trick: "line", shape, as: "progress", bytes: LINE_BYTES };
    const reply = await attacker.request("tools/call", { name: "trick", arguments: args, _meta: { progressToken: shape } });
    attacker.replies.add(`${shape}: ${inMib(Buffer.byteLength(reply?.body ?? ""))} read`);
  }
});

/** Uses a private server, because log messages of a shared server are dropped if they may be about several clients. */
const messages = stream("as log message on a GET stream", async (attacker) => {
  await attacker.open("2025-11-25", { sampling: {} });
  await attacker.request("logging/setLevel", { level: "debug" });
  const socket = await attacker.writeUnread(attacker.streamHead());
  if (socket === undefined) return;
  const chunks = socket.iterator() as AsyncIterator<Buffer, undefined>;
  let received = 0;
  for (const [index, shape] of LINES.entries()) {
    await attacker.callTool("trick", { trick: "late_line", shape, as: "notification", bytes: LINE_BYTES });
    // The next call follows after the whole line. Otherwise, the message could be attributed to that call.
    while (received < (index + 1) * LINE_BYTES) {
      const chunk = await within(chunks.next(), READ_LIMIT_MS).catch(() => undefined);
      if (chunk?.value === undefined) break;
      received += chunk.value.length;
    }
    attacker.replies.add(`${shape}: ${inMib(received)} read in all`);
  }
});

function inMib(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}

export const STREAM_ATTACKS: readonly Attack[] = [progress, messages];

const LIMITS = ["1024", "16384"];
const CUT_SHAPES: readonly Shape[] = ["objects", "deep-arrays", "deep-objects", "members", "plain", "escapes"];

/** The parts of a response that may be as long as the limit. `piece` is repeated between `before` and `after`. */
const PLACES: readonly (readonly [name: string, before: string, piece: string, after: string])[] = [
  ["members beside the result", '{"jsonrpc":"2.0","id":OWN,"result":{"content":[]},', '"":0,', '"z":0}'],
  ["members before the id", "{", '"":0,', '"jsonrpc":"2.0","id":OWN,"result":{"content":[]}}'],
  ["members of a result", '{"jsonrpc":"2.0","id":OWN,"result":{', '"":0,', '"content":[]}}'],
  ["members of _meta", '{"jsonrpc":"2.0","id":OWN,"result":{"content":[],"_meta":{', '"":0,', '"z":0}}}'],
  ["members of an item", '{"jsonrpc":"2.0","id":OWN,"result":{"content":[{', '"":0,', '"type":"text","text":"a"}]}}'],
  ["members of a resource", '{"jsonrpc":"2.0","id":OWN,"result":{"content":[{"type":"resource","resource":{', '"":0,', '"uri":"a:b"}}]}}'],
  ["members of an error", '{"jsonrpc":"2.0","id":OWN,"error":{"code":1,"message":"no",', '"":0,', '"z":0}}'],
  ["base64", '{"jsonrpc":"2.0","id":OWN,"result":{"content":[{"type":"image","data":"', String.raw`\/`, '"}]}}'],
  ["white space", '{"jsonrpc":"2.0","id":OWN,"result":{"content":[', " ", "]}}"],
];

function cut(limit: string, name: string, args: object): Attack {
  return {
    name: `result: ${name}, cut to ${limit} bytes`,
    flags: ["--max-result-bytes", limit],
    mayRefuse: true,
    run: async ({ attacker }) => {
      await attacker.open();
      await attacker.callTool("trick", args);
    },
  };
}

function cuts(limit: string): readonly Attack[] {
  return [
    cut(limit, "60 MiB in 1,500,000 content items", { trick: "contents", count: 1_500_000, length: 10 }),
    cut(limit, "60 MiB in 60 content items", { trick: "contents", count: 60, length: 600_000 }),
    cut(limit, "60 MiB of objects as content", { trick: "line", shape: "objects", as: "content", bytes: LONG_LINE_BYTES }),
    cut(limit, "60 MiB of text as content", { trick: "line", shape: "plain", as: "content", bytes: LONG_LINE_BYTES }),
    ...CUT_SHAPES.map((shape) =>
      cut(limit, `60 MiB of ${shape} as structured content`, { trick: "line", shape, as: "result", bytes: LONG_LINE_BYTES }),
    ),
  ];
}

const places = PLACES.map(([name, before, piece, after]) =>
  cut("16384", `60 MiB of ${name}`, { trick: "repeat", before, piece, after, bytes: LONG_LINE_BYTES }),
);

export const RESULT_ATTACKS: readonly Attack[] = [...LIMITS.flatMap(cuts), ...places];
