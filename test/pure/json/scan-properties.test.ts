import * as fc from "fast-check";
import { expect, it } from "vitest";
import { findElements } from "../../../src/json/read.ts";
import { JsonScanner, Shape } from "../../../src/json/read.ts";
import { allMembers, type JsonNode, memberOf, poisonEngine, readReference } from "../../support/json-reference.ts";
import { keyText, memberText, objectText, valueText, whitespace } from "../../support/json-text.ts";

const SHAPE = new Shape({
  id: {},
  method: {},
  params: { _meta: { progressToken: {} }, name: {}, id: {} },
  result: { task: { taskId: {} } },
});

/** Names of the shape at any level, other ones, and some that a reader may take for one of them. */
const names = ["id", "method", "params", "_meta", "progressToken", "name", "result", "task", "taskId", "x", "ID", "\u0131d", "Params"];
const name = fc.oneof(fc.constantFrom(...names).chain(keyText), fc.constant(String.raw`"name\u0000"`));
const objectOf = (value: fc.Arbitrary<string>): fc.Arbitrary<string> => objectText(fc.array(memberText(name, value), { maxLength: 5 }));
const levels = objectOf(fc.oneof(valueText, objectOf(fc.oneof(valueText, objectOf(valueText)))));
const long = fc.constantFrom(`[${"1,".repeat(1200)}{}]`, `{"id":"${"x".repeat(3000)}\\n"}`);
const json = fc
  .tuple(whitespace, fc.oneof({ weight: 6, arbitrary: levels }, { weight: 2, arbitrary: valueText }, long), whitespace)
  .map((parts) => parts.join(""));
const character = fc.constantFrom(...'{}[],:"\\01-+.eEtnu/\u0000\u001f\u00a0\ufeff '.split(""));
/** JSON text in which a few characters are replaced, so that it is seldom JSON. */
const changed = fc.tuple(json, fc.nat(), fc.nat(2), character).map(([text, random, length, other]) => {
  const at = random % (text.length + 1);
  return text.slice(0, at) + other + text.slice(at + length);
});

/** Some readers ignore case, and others end strings at NUL. */
function isTakenFor(member: string, wanted: string): boolean {
  return member.toLowerCase().replaceAll("\u0131", "i") === wanted.toLowerCase() || member.startsWith(`${wanted}\0`);
}

type Facts = (number | boolean | string | undefined)[];

function addSlots(facts: Facts, shape: Shape, last: JsonNode | undefined, all: readonly JsonNode[]): void {
  for (const [position, wanted] of shape.names.entries()) {
    const node = last === undefined ? undefined : memberOf(last, wanted);
    const named = all.map(({ members = [] }) => members.filter((member) => member.name === wanted));
    const other = all.flatMap((each) => each.members ?? []).find((member) => member.name !== wanted && isTakenFor(member.name, wanted));
    const double = named.some(({ length }) => length > 1) ? wanted : other?.name;
    facts.splice((shape.firstSlot + position) * 3, 3, node?.start, node?.end, double);
    const children = shape.children[position];
    if (children !== undefined)
      addSlots(
        facts,
        children,
        node,
        named.flat().map((member) => member.node),
      );
  }
}

function expected(node: JsonNode): Facts {
  const facts: Facts = Array.from({ length: SHAPE.endSlot * 3 }, () => undefined);
  addSlots(facts, SHAPE, node, [node]);
  const hasEscapedName = allMembers(node).some(({ nameText }) => nameText.includes("\\"));
  const elements = (node.elements ?? []).flatMap(({ start, end }) => [start, end]);
  return [...facts, ...elements, hasEscapedName, node.members !== undefined, node.elements !== undefined];
}

function found({ outline, isArray, isObject }: JsonScanner): Facts {
  const slots = Array.from({ length: SHAPE.endSlot }, (_, slot) => {
    const span = outline.span(slot);
    return [span?.start, span?.end, outline.doubles?.get(slot)];
  });
  const elements = (isArray ? findElements(outline.text) : []).flatMap(({ start, end }) => [start, end]);
  return [...slots.flat(), ...elements, outline.hasEscapedName, isObject, isArray];
}

it("the results for random texts follow the grammar, at once and in steps", () => {
  const steps = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 });
  let validCount = 0;
  fc.assert(
    fc.property(fc.oneof(json, changed), steps, (text, lengths) => {
      const node = readReference(text);
      if (node !== undefined) poisonEngine(node);
      const [whole, stepped] = [new JsonScanner(text, SHAPE), new JsonScanner(text, SHAPE)];
      whole.advance();
      for (let step = 0; !stepped.isDone; step++) stepped.advance(lengths[step % lengths.length]);
      for (const scanner of [whole, stepped]) {
        const facts = node === undefined ? [] : found(scanner);
        expect([scanner.isDone, scanner.isValid, facts]).toEqual([true, node !== undefined, node === undefined ? [] : expected(node)]);
      }
      if (node !== undefined) validCount++;
    }),
    { numRuns: 2000 },
  );
  expect(validCount).toBeGreaterThan(1000);
});
