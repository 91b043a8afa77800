import { describe, expect, it } from "vitest";
import { escapeEnd, isWhitespace, numberEnd, skipWhitespace } from "../../../src/json/tokens.ts";

describe("numberEnd", () => {
  it.each(["0", "-0", "7", "10", "-1.5", "0.10", "1e5", "1E+5", "1e-05", "-0.0e0", "12345678901234567890123", "1e400"])(
    "the end is after the last character of %s, before any other text",
    (number) => {
      for (const next of ["", ",", "]", " ", "x", "-"]) expect(numberEnd(`[${number}${next}`, 1)).toBe(1 + number.length);
    },
  );

  it.each(["", "-", "+1", ".5", "-.5", "1.", "1.e5", "1e", "1e+", "1e-x", "a", "Infinity", "NaN"])("%j is not a number", (text) => {
    expect(numberEnd(text, 0)).toBe(-1);
  });

  it("the end is after the first digit of a number that begins with zero", () => {
    expect([numberEnd("01", 0), numberEnd("-00", 0), numberEnd("0x1", 0)]).toEqual([1, 2, 1]);
  });
});

describe("escapeEnd", () => {
  it.each(['"', "\\", "/", "b", "f", "n", "r", "t", "u0069", "uABCD", "uabcd"])("the end is after \\\\%s", (escape) => {
    expect(escapeEnd(`"\\${escape}x`, 2)).toBe(2 + escape.length);
  });

  it.each(["", "a", "x41", "u", "u12", "u123g", "u 123", "'", "0", "U0069", "\n"])("\\\\%j is not an escape", (escape) => {
    expect(escapeEnd(`"\\${escape}`, 2)).toBe(-1);
  });
});

describe("white space", () => {
  it("the white space of JSON, and no other, is recognized", () => {
    const all = Array.from({ length: 0x10000 }, (_, code) => code);
    expect(all.filter((code) => isWhitespace(code))).toEqual([9, 10, 13, 32]);
    expect([skipWhitespace(" \t\r\n x ", 0), skipWhitespace("x", 0), skipWhitespace("  ", 0)]).toEqual([5, 0, 2]);
  });
});
