import { describe, expect, it } from "vitest";
import { Shape } from "../../../src/json/outline.ts";
import { JsonScanner } from "../../../src/json/scan.ts";

const SHAPE = new Shape({ id: {}, params: { _meta: { token: {} }, name: {} }, result: {} });
const ID = SHAPE.slotOf("id");
const PARAMS = SHAPE.slotOf("params");
const META = SHAPE.slotOf("params", "_meta");
const TOKEN = SHAPE.slotOf("params", "_meta", "token");
const NAME = SHAPE.slotOf("params", "name");

function scan(text: string): JsonScanner {
  const scanner = new JsonScanner(text, SHAPE);
  scanner.advance();
  return scanner;
}

describe("JsonScanner", () => {
  it("the members of a shape are found with their spelling", () => {
    const { outline } = scan(String.raw` {"id" : 1.0, "x":{"id":2}, "p\u0061rams": {"_meta":{"token":"\u0061"} , "id":3}} `);
    expect([ID, PARAMS, META, TOKEN, NAME].map((slot) => outline.textAt(slot))).toEqual([
      "1.0",
      String.raw`{"_meta":{"token":"\u0061"} , "id":3}`,
      String.raw`{"token":"\u0061"}`,
      String.raw`"\u0061"`,
      undefined,
    ]);
    expect([outline.numberAt(ID), outline.stringAt(TOKEN), outline.stringAt(ID), outline.numberAt(TOKEN)]).toEqual([
      1,
      "a",
      undefined,
      undefined,
    ]);
    expect([outline.isObject(META), outline.isObject(TOKEN), outline.firstAt(NAME), outline.has(NAME)]).toEqual([true, false, "", false]);
  });

  it.each(['{"id":"12', '{"id":"1\\uZZ"', '{"id":[1,2'])("a truncated member has an empty value: %s", (text) => {
    const { outline } = scan(text);
    expect([outline.has(ID), outline.textAt(ID)]).toEqual([true, ""]);
  });

  it.each([
    ["", 0, "a value"],
    ["{", 1, "a name or }"],
    ['{"a":1,}', 7, "a name"],
    ['{"a" 1}', 5, ":"],
    ['{"a":1 2}', 7, ", or }"],
    ["[1 2]", 3, ", or ]"],
    ["[1,]", 3, "a value"],
    ["[-]", 1, "a value or ]"],
    ["[] x", 3, "the end"],
    ['["a","b', 5, undefined],
    ['{"\\x":1}', 1, undefined],
  ])("the failure in %j has its offset and the expected text", (text, index, expected) => {
    expect(scan(text).failure).toEqual({ index, expected });
  });

  it("a number beyond 2^53 keeps its sign and its text", () => {
    const { outline } = scan('{"id":-9007199254740993}');
    expect([outline.numberAt(ID), outline.textAt(ID)]).toEqual([-9007199254740992, "-9007199254740993"]);
  });

  it.each([
    '{"params":{"name":1,"_meta":{"token":2}},"params":5}',
    '{"params":{"name":1,"_meta":{"token":2}},"par\\u0061ms":[{"name":3}]}',
  ])("a repeated member that is not an object has no members: %s", (text) => {
    const { outline } = scan(text);
    expect(outline.isRepeated(PARAMS)).toBe(true);
    expect([NAME, META, TOKEN].map((slot) => outline.has(slot))).toEqual([false, false, false]);
  });

  it("the last of repeated objects counts, and repeated names in earlier ones are recorded", () => {
    const { outline } = scan('{"params":{"name":1,"name":2,"_meta":{"token":3}},"params":{"_meta":{}}}');
    expect([NAME, META, TOKEN].map((slot) => outline.textAt(slot))).toEqual([undefined, "{}", undefined]);
    expect([PARAMS, NAME, META].map((slot) => outline.isRepeated(slot))).toEqual([true, true, false]);
  });

  it("the first name that differs by case from one of the shape is recorded", () => {
    const { outline } = scan('{"ID":1,"Id":2,"params":{"NAME":1,"toKen":2,"_META":{"Token":1}}}');
    expect([ID, NAME, META, TOKEN, PARAMS].map((slot) => outline.otherCaseAt(slot))).toEqual(["ID", "NAME", "_META", undefined, undefined]);
  });

  it.each(["", " ", "{", "[", '"', '"a', "{]", "[}", '{"a"', '{"a":', '{"a":1', '{"a":1,', "[1", "[1,", "tru", "-", '"\\', '"\\u00'])(
    "%j is incomplete or wrong, and rejected also one character at a time",
    (text) => {
      const stepped = new JsonScanner(text, SHAPE);
      while (!stepped.isDone) stepped.advance(1);
      expect([scan(text).isDone, scan(text).isValid, stepped.isValid]).toEqual([true, false, false]);
    },
  );

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

  it("white space is read in steps, wherever it is", () => {
    const space = " ".repeat(100_000);
    for (const text of [`${space}{}`, `{${space}"a":1}`, `{"a"${space}:1}`, `{"a":${space}1}`, `{"a":1${space}}`, `{}${space}`]) {
      const scanner = new JsonScanner(text, SHAPE);
      let steps = 0;
      for (; !scanner.isDone; steps++) scanner.advance(10_000);
      expect(scanner.isValid).toBe(true);
      expect(steps).toBeGreaterThanOrEqual(10);
    }
  });

  it("a thousand elements are located and the others counted", () => {
    const { elements, elementCount } = scan(`[${"{},".repeat(1_000_000)}1]`);
    expect([elements.length, elementCount, elements[999]]).toEqual([1000, 1_000_001, { start: 2998, end: 3000 }]);
  });
});

describe("Shape", () => {
  it("a shape has no slot for an unknown name", () => {
    expect(() => SHAPE.slotOf("params", "id")).toThrow("the shape has no id");
    expect(() => SHAPE.slotOf("id", "x")).toThrow("the shape has no id.x");
  });

  it("a shape has at most 31 slots, and each is found", () => {
    const names = (count: number): Record<string, object> =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`n${index}`, {}]));
    const shape = new Shape(names(31) as never);
    const scanner = new JsonScanner(`{${shape.names.map((name) => `"${name}":"${name}"`).join(",")},"n30":7}`, shape);
    scanner.advance();
    expect(shape.slots.map((slot) => scanner.outline.textAt(slot))).toEqual([...shape.names.slice(0, 30).map((name) => `"${name}"`), "7"]);
    expect(shape.slots.filter((slot) => scanner.outline.isRepeated(slot))).toEqual([30]);
    expect(() => new Shape(names(32) as never)).toThrow("at most 31");
    expect(() => new Shape({ a: names(31) } as never)).toThrow("at most 31");
  });
});
