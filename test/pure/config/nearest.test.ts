import { expect, it } from "vitest";
import { nearest } from "../../../src/config/nearest.ts";

const KNOWN = ["port", "path", "addr", "read-only", "allow-tools"];

it.each([
  ["prot", "port"],
  ["read-onyl", "read-only"],
  ["alow-tools", "allow-tools"],
  ["adr", "addr"],
  ["x", undefined],
  ["server", undefined],
  ["something-else", undefined],
])("the known word most like %s is %s", (word, expected) => {
  expect(nearest(word, KNOWN)).toBe(expected);
});
