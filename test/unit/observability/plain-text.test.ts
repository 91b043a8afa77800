import { describe, expect, it } from "vitest";
import { plainText } from "../../../src/observability/plain-text.ts";

const ESC = "\u001B";

describe("plainText", () => {
  it.each([
    ["colours", `${ESC}[1;31mred${ESC}[0m`, "red"],
    ["the eight-bit form", "\u009B2Ja\u009D0;title\u009Cb", "ab"],
    ["a title, with either end", `a${ESC}]0;title\u0007b${ESC}]0;title${ESC}\\c`, "abc"],
    ["the clipboard", `a${ESC}]52;c;ZXZpbA==\u0007b`, "ab"],
    ["a device control string", `a${ESC}P1$r0m${ESC}\\b`, "ab"],
    ["a character set", `a${ESC}(Bb${ESC}7c`, "abc"],
    ["the begin of something that has no end, but no text", `a${ESC}]0;title`, "a0;title"],
    ["an escape in an escape", `a${ESC}${ESC}[2Jb`, "a b"],
    ["line ends, backspaces, direction marks", "a\r\nb\bc\u202Ed", "a  b c d"],
  ])("takes out %s", (_what, text, plain) => {
    expect(plainText(text)).toBe(plain);
  });

  // In quadratic time the first would take a minute.
  it.each([`${ESC}]`, `${ESC}[`, `${ESC}]x;`, `${ESC}[1;`, "\u009D", "\u009D1", `${ESC}P`, ESC, `${ESC}(`])(
    "is not held up by many %j",
    (text) => {
      expect(plainText(text.repeat(200_000))).not.toMatch(/\p{Cc}/u);
    },
  );
});
