import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutString } from "../../../src/policy/result-limit/cut.ts";
import { stringText } from "../../support/json-text.ts";

function cut(value: string, maxBytes: number): string {
  return cutString(value, { start: 0, end: value.length }, maxBytes);
}

describe("cutString", () => {
  it.each([
    ["abcdef", 3, "abc"],
    ["é€😀", 4, "é"],
    ["é€😀", 8, "é€"],
    ["é€😀", 9, "é€😀"],
    // Escapes stay whole.
    [String.raw`a\nb`, 2, "a"],
    [String.raw`a\nb`, 3, String.raw`a\n`],
    [String.raw`\u0041\u0042`, 11, String.raw`\u0041`],
    [String.raw`\\\\\\`, 5, String.raw`\\\\`],
    [String.raw`\\u0041`, 4, String.raw`\\u0`],
    // Pairs stay whole, and half of a pair alone is a character.
    [String.raw`\ud83d\ude00a`, 11, ""],
    [String.raw`\ud83d\ude00a`, 12, String.raw`\ud83d\ude00`],
    [String.raw`\ud83d\u0041`, 6, String.raw`\ud83d`],
    [String.raw`\\ud83d\ude00`, 7, String.raw`\\ud83d`],
    // A letter and its accent are two characters.
    ["ae\u0301b", 2, "ae"],
    [String.raw`a\r\nb`, 4, String.raw`a\r`],
    [String.raw`${"\\\\".repeat(40)}`, 79, "\\\\".repeat(39)],
  ])("%s in %i bytes becomes %s", (inner, maxBytes, expected) => {
    expect(cut(`"${inner}"`, maxBytes)).toBe(expected);
  });

  it("the cut text is a beginning in whole characters that nearly fills the limit", () => {
    fc.assert(
      fc.property(fc.array(stringText, { maxLength: 20 }), fc.nat({ max: 300 }), (parts, maxBytes) => {
        const inner = parts.map((part) => part.slice(1, -1)).join("");
        const kept = cut(`"${inner}"`, maxBytes);
        expect(inner.startsWith(kept)).toBe(true);
        expect(Buffer.byteLength(kept)).toBeLessThanOrEqual(maxBytes);
        expect(kept === inner).toBe(Buffer.byteLength(inner) <= maxBytes);
        const whole = JSON.parse(`"${inner}"`) as string;
        const beginning = JSON.parse(`"${kept}"`) as string;
        expect(whole.startsWith(beginning)).toBe(true);
        // Of these texts, only surrogate pairs, possibly as escapes, must not be split.
        expect(kept === inner || Buffer.byteLength(kept) > maxBytes - 12).toBe(true);
      }),
    );
  });
});
