import { describe, expect, it } from "vitest";
import { decodeHeaderValue } from "../../../src/era/checks/header-value.ts";

describe("the value of a header", () => {
  it.each([
    ["echo", "echo"],
    ["  echo\t", "echo"],
    ["a b", "a b"],
    ["", ""],
    ["=?base64?SGVsbG8=?=", "Hello"],
    ["=?BASE64?SGVsbG8=?=", "Hello"],
    ["=?base64?w6Q=?=", "ä"],
    ["=?base64??=", ""],
    ["SGVsbG8=", "SGVsbG8="],
    ["=?base64?SGVsbG8=", "=?base64?SGVsbG8="],
  ])("%j is %j", (header, value) => {
    expect(decodeHeaderValue(header)).toBe(value);
  });

  it.each(["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?SGVsbG9=?=", "=?base64?/w==?=", "ä", "a\u0001b"])(
    "%j is malformed",
    (header) => {
      expect(decodeHeaderValue(header)).toBeUndefined();
    },
  );
});
