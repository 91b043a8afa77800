import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventReader } from "../../../src/commands/discover-events.ts";

function read(chunks: readonly Buffer[]): string[] {
  const found: string[] = [];
  const reader = new EventReader((data) => found.push(data));
  for (const chunk of chunks) reader.push(chunk);
  return found;
}

describe("an event stream", () => {
  it.each([
    ["data: a\n\n", ["a"]],
    ["data:a\ndata:  b\n\ndata: c\n\n", ["a\n b", "c"]],
    [": comment\nid: 1\nretry: 5\n\nevent: message\ndata\ndata: x\n\n", ["\nx"]],
    ["data: a\r\rdata: b\r\n\r\n", ["a", "b"]],
    ["database: a\n\n", []],
    ["data: not complete\n", []],
  ])("%j holds %j", (text, expected) => {
    expect(read([Buffer.from(text)])).toEqual(expected);
  });

  it("is the same however it is cut, with whatever line ends", () => {
    const lineEnd = fc.constantFrom("\n", "\r\n", "\r");
    // An event of one CR-ended line and an empty one that begins with LF would read as one line end: one kind for each stream.
    const stream = fc.tuple(fc.array(fc.array(fc.string({ unit: "grapheme", maxLength: 8 }), { minLength: 1, maxLength: 3 })), lineEnd);
    fc.assert(
      fc.property(stream, fc.infiniteStream(fc.integer({ min: 1, max: 7 })), ([events, end], lengths) => {
        const clean = events.map((lines) => lines.map((line) => line.replaceAll(/[\r\n]/g, "")));
        const text = clean.map((lines) => `${lines.map((line) => `data: ${line}${end}`).join("")}${end}`).join("");
        const bytes = Buffer.from(text);
        const chunks: Buffer[] = [];
        for (let from = 0; from < bytes.length;) {
          const length = Number(lengths.next().value);
          chunks.push(bytes.subarray(from, from + length));
          from += length;
        }
        expect(read(chunks)).toEqual(clean.map((lines) => lines.join("\n")));
      }),
    );
  });
});
