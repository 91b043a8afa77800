import { describe, expect, it } from "vitest";
import { escapeEnd, isWhitespace, numberEnd, skipWhitespace } from "../../../src/json/tokens.ts";

describe("numberEnd", () => {
  it.each(["0", "-0", "7", "10", "-1.5", "0.10", "1e5", "1E+5", "1e-05", "-0.0e0", "12345678901234567890123", "1e400"])(
    "is behind the last character of %s, whatever follows",
    (number) => {
      for (const behind of ["", ",", "]", " ", "x", "-"]) expect(numberEnd(`[${number}${behind}`, 1)).toBe(1 + number.length);
    },
  );

  it.each(["", "-", "+1", ".5", "-.5", "1.", "1.e5", "1e", "1e+", "1e-x", "a", "Infinity", "NaN"])("is none of %j", (text) => {
    expect(numberEnd(text, 0)).toBe(-1);
  });

  it("is behind the first digit of a number that begins with a zero", () => {
    expect([numberEnd("01", 0), numberEnd("-00", 0), numberEnd("0x1", 0)]).toEqual([1, 2, 1]);
  });
});

describe("escapeEnd", () => {
  it.each(['"', "\\", "/", "b", "f", "n", "r", "t", "u0069", "uABCD", "uabcd"])("is behind \\%s", (escape) => {
    expect(escapeEnd(`"\\${escape}x`, 2)).toBe(2 + escape.length);
  });

  it.each(["", "a", "x41", "u", "u12", "u123g", "u 123", "'", "0", "U0069", "\n"])("is none of \\%j", (escape) => {
    expect(escapeEnd(`"\\${escape}`, 2)).toBe(-1);
  });
});

describe("white space", () => {
  it("is what JSON takes for it, and nothing else", () => {
    const all = Array.from({ length: 0x10000 }, (_, code) => code);
    expect(all.filter((code) => isWhitespace(code))).toEqual([9, 10, 13, 32]);
    expect([skipWhitespace(" \t\r\n x ", 0), skipWhitespace("x", 0), skipWhitespace("  ", 0)]).toEqual([5, 0, 2]);
  });
});
