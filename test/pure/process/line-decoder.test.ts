import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { OverlongLine } from "../../../src/mcp/message.ts";
import { LineDecoder } from "../../../src/process/stdio.ts";

/** Everything that one stream produces, in order, including its end. Some pieces wait until others have arrived. */
function decode(pieces: readonly (string | Buffer)[], maxLineBytes: number): (string | OverlongLine)[] {
  const decoder = new LineDecoder(maxLineBytes);
  const out: (string | OverlongLine | undefined)[] = [];
  for (const piece of pieces) {
    decoder.push(Buffer.from(piece));
    out.push(decoder.next());
  }
  decoder.push(Buffer.from("\n"));
  do out.push(decoder.next());
  while (out.at(-1) !== undefined);
  return out.filter((line) => line !== undefined);
}

function inPieces(text: fc.Arbitrary<string>): fc.Arbitrary<{ readonly text: string; readonly pieces: readonly Buffer[] }> {
  return text.chain((whole) => {
    const bytes = Buffer.from(whole);
    const cuts = fc.oneof(fc.array(fc.nat({ max: bytes.length }), { maxLength: 12 }), fc.constant(Array.from(bytes, (_, index) => index)));
    return cuts.map((some) => {
      const points = [0, ...some.toSorted((a, b) => a - b), bytes.length];
      return { text: whole, pieces: points.slice(1).map((end, index) => bytes.subarray(points[index], end)) };
    });
  });
}

it("decoders that wait for a line hold no memory, however long the last one was", () => {
  const decoders = Array.from({ length: 3 }, () => new LineDecoder(4_000_000));
  const total = (): number => decoders.reduce((sum, { heldBytes }) => sum + heldBytes, 0);
  for (const length of [10, 70_000, 1_000_000, 3_000_000]) {
    for (const decoder of decoders) decoder.push(Buffer.alloc(length, "x"));
    for (const decoder of decoders) expect(decoder.next()).toBeUndefined();
    expect(total()).toBeGreaterThanOrEqual(3 * length);
    for (const decoder of decoders) decoder.push(Buffer.from("\n"));
    for (const decoder of decoders) expect([decoder.next(), decoder.next()]).toEqual(["x".repeat(length), undefined]);
    expect(total()).toBe(0);
  }
});

describe("a line decoder with a limit", () => {
  it("a line of exactly the limit is delivered, and one byte more discarded", () => {
    expect(decode(["12345\n123456\n12345"], 5)).toEqual([
      "12345",
      { kind: "overlong", bytes: 6, idText: undefined, hasMethod: false, isForMemory: false },
      "12345",
    ]);
  });

  it("any stream in any chunks is split into its lines", () => {
    const limit = 40;
    const id = fc.nat({ max: 99 });
    const line = fc.oneof(
      fc.constant(""),
      fc.string({ unit: fc.constantFrom("x", "\r", "é", "😀", "\u2028", '"', "{"), maxLength: limit }),
      fc.tuple(id, fc.nat({ max: 2 * limit })).map(([each, length]) => `{"id":${each},"result":"${"😀".repeat(length)}"}`),
      fc.tuple(id, fc.nat({ max: 2 * limit })).map(([each, length]) => `{"method":"x","params":"${"é".repeat(length)}","id":${each}}`),
    );
    const stream = fc
      .tuple(fc.array(fc.tuple(line, fc.constantFrom("\n", "\r\n"))), line)
      .map(([lines, last]) => [...lines.flat(), last].join(""));
    fc.assert(
      fc.property(inPieces(stream), ({ text, pieces }) => {
        const expected = text.split("\n").flatMap((each): (string | OverlongLine)[] => {
          if (Buffer.byteLength(each) <= limit) return each === "" || each === "\r" ? [] : [each.endsWith("\r") ? each.slice(0, -1) : each];
          const [, own = ""] = /"id":(\d+)/.exec(each) ?? [];
          return [
            {
              bytes: Buffer.byteLength(each),
              idText: own === "" ? undefined : own,
              hasMethod: each.includes('"method"'),
              kind: "overlong",
              isForMemory: false,
            },
          ];
        });
        expect(decode(pieces, limit)).toEqual(expected);
      }),
      { numRuns: 500 },
    );
  });
});
