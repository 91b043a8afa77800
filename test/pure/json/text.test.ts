import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { beginning, escapeInvisible, plainText, shorten, utf8Length } from "../../../src/json/text.ts";

const ESC = "\u001B";

describe("plainText", () => {
  it.each([
    ["colours", `${ESC}[1;31mred${ESC}[0m`, "red"],
    ["the eight-bit form", "\u009B2Ja\u009D0;title\u009Cb", "ab"],
    ["a title, with either end", `a${ESC}]0;title\u0007b${ESC}]0;title${ESC}\\c`, "abc"],
    ["the clipboard", `a${ESC}]52;c;ZXZpbA==\u0007b`, "ab"],
    ["the start of an unterminated sequence, but no text", `a${ESC}]0;title`, "a0;title"],
    ["an escape in an escape", `a${ESC}${ESC}[2Jb`, "a b"],
    ["line ends, backspaces, direction marks", "a\r\nb\bc\u202Ed", "a  b c d"],
  ])("the removed sequence is %s", (_what, text, plain) => {
    expect(plainText(text)).toBe(plain);
  });

  // In quadratic time, the first case would take a minute.
  it.each([`${ESC}]`, `${ESC}[`, `${ESC}]x;`, `${ESC}[1;`, "\u009D", "\u009D1", `${ESC}P`, ESC, `${ESC}(`])(
    "many %j take linear time",
    (text) => {
      expect(plainText(text.repeat(200_000))).not.toMatch(/\p{Cc}/u);
    },
  );
});

describe("utf8Length", () => {
  it("the length of any text is that of its bytes, lone surrogates included", () => {
    const edges = fc.constantFrom(0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000);
    const units = fc.array(fc.oneof(edges, fc.integer({ min: 0, max: 0xffff })));
    fc.assert(
      fc.property(units, (codes) => {
        const text = String.fromCharCode(...codes);
        expect(utf8Length(text)).toBe(Buffer.byteLength(text));
      }),
    );
  });
});

describe("invisible characters", () => {
  const INVISIBLE = "\u0000 \u001F \u007F \u0085 \u00AD \u115F \u200B \u2028 \u202E \uFEFF \u{E0041} \uD800".split(" ");

  it.each(INVISIBLE)("%j is invisible in a terminal and in a review", (character) => {
    expect(plainText(`a${character}b`)).toBe("a b");
    const escaped = escapeInvisible(`a${character}b`);
    expect(escaped).toMatch(/^a(?:\\u[\da-f]{4}){1,2}b$/);
    expect(JSON.parse(`"${escaped}"`)).toBe(`a${character}b`);
  });

  it.each(["a", "é", "e\u0301", "😀", "❤\uFE0F", "\u00A0", "日本"])("%j is not invisible", (text) => {
    expect([plainText(text), escapeInvisible(text)]).toEqual([text, text]);
  });
});

describe("a truncated text", () => {
  it.each([
    ["abc", 3, "abc"],
    ["abcd", 3, "abc…"],
    ["ab😀d", 3, "ab…"],
    ["ab😀d", 4, "ab😀…"],
    ["a\uD83Dcd", 2, "a\uD83D…"],
    ["", 0, ""],
    ["a", 0, "…"],
  ])("the text ends at a whole character with an ellipsis: %j at %i", (text, maxLength, shortened) => {
    expect(shorten(text, maxLength)).toBe(shortened);
    expect(beginning(text, maxLength)).toBe(shortened.replace("…", ""));
  });
});
