// Results of 60 MiB that the sidecar must truncate, to 1 KiB and to the limit of a common client.

import type { Attack } from "../attack.ts";
import { LONG_LINE_BYTES } from "../contract.ts";
import type { Shape } from "../shapes.ts";

const LIMITS = ["1024", "16384"];
const SHAPES: readonly Shape[] = ["objects", "deep-arrays", "deep-objects", "members", "plain", "escapes"];

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
    ...SHAPES.map((shape) =>
      cut(limit, `60 MiB of ${shape} as structured content`, { trick: "line", shape, as: "result", bytes: LONG_LINE_BYTES }),
    ),
  ];
}

const places = PLACES.map(([name, before, piece, after]) =>
  cut("16384", `60 MiB of ${name}`, { trick: "repeat", before, piece, after, bytes: LONG_LINE_BYTES }),
);

export const RESULT_ATTACKS: readonly Attack[] = [...LIMITS.flatMap(cuts), ...places];
