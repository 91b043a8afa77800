import { describe, expect, it } from "vitest";
import { decodeString, detached, plainName } from "../../../src/json/strings.ts";

describe("decodeString", () => {
  it.each([
    ['""', ""],
    ['"a b"', "a b"],
    [String.raw`"\u0069\u0064"`, "id"],
    [String.raw`"\"\\\/\b\f\n\r\t"`, '"\\/\b\f\n\r\t'],
    [String.raw`"\ud83d\ude00\ud83d"`, "😀\ud83d"],
  ])("%s is decoded, wherever it is in the text", (text, value) => {
    expect(decodeString(text, 0, text.length)).toBe(value);
    expect(decodeString(`{"x":${text}}`, 5, 5 + text.length)).toBe(value);
  });
});

describe("plainName", () => {
  it.each([
    [String.raw`"\u0069d"`, '"id"'],
    [String.raw`"i\u0064"`, '"id"'],
    [String.raw`"\/a"`, '"/a"'],
    [String.raw`"\u00e9\u20ac\ud83d\ude00\u007f"`, '"é€😀\u007f"'],
    [String.raw`"\u2028\u2029"`, '"\u2028\u2029"'],
    [String.raw`"\u005f_proto__"`, '"__proto__"'],
  ])("the plain spelling of %s is returned", (text, plain) => {
    expect(plainName(text, 0, text.length)).toBe(plain);
  });

  it.each([
    String.raw`"i\n"`,
    String.raw`"a\"b"`,
    String.raw`"\\"`,
    String.raw`"\u0000"`,
    String.raw`"\u001f\u0061"`,
    String.raw`"\ud83d"`,
  ])("%s has no plain spelling", (text) => {
    expect(plainName(text, 0, text.length)).toBeUndefined();
  });
});

it("a detached part is equal to the part of the text", () => {
  for (const text of ["abé😀def", `abé😀def${"x".repeat(20_000)}`]) expect(detached(text.slice(2, 5), text)).toBe("é😀");
});
