import { describe, expect, it } from "vitest";
import { Random } from "../../../chaos/random.ts";
import { Shape } from "../../../src/json/outline.ts";
import { JsonScanner } from "../../../src/json/scan.ts";
import { allMembers, type JsonNode, memberOf, poisonEngine, readReference } from "../../support/json-reference.ts";
import { RandomJson } from "../../support/random-json.ts";
import { SEED } from "../../support/seed.ts";

const CASES = 30_000;
const MAX_ELEMENTS = 1000;
const SHAPE = new Shape({
  id: {},
  method: {},
  params: { _meta: { progressToken: {} }, name: {}, id: {} },
  result: { task: { taskId: {} } },
});
const NAMES = ["id", "method", "params", "_meta", "progressToken", "name", "result", "task", "taskId", "x", "__proto__"];

/** Returns true if the engine accepts a text, which it decides correctly even if it misreads names. */
function isAccepted(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Some readers ignore case, and others end strings at NUL. */
function isTakenFor(member: string, name: string): boolean {
  return fold(member) === fold(name) || member.startsWith(`${name}\0`);
}

function fold(name: string): string {
  return name
    .replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase())
    .replaceAll("\u017f", "s")
    .replaceAll("\u212a", "k")
    .replaceAll(/[\u0130\u0131]/g, "i");
}

/** The facts about a text, in a fixed order: spans, and properties of the shape's members. */
type Facts = (number | boolean | string | undefined)[];

/** Adds the facts about each slot of a shape. */
function addSlots(facts: Facts, shape: Shape, last: JsonNode | undefined, all: readonly JsonNode[]): void {
  for (const [position, name] of shape.names.entries()) {
    const node = last === undefined ? undefined : memberOf(last, name);
    const named = all.map(({ members = [] }) => members.filter((member) => member.name === name));
    const members = all.flatMap((each) => each.members ?? []);
    const other = members.find((member) => member.name !== name && isTakenFor(member.name, name));
    const slot = shape.slots[position] ?? 0;
    facts.splice(
      slot * 4,
      4,
      node?.start,
      node?.end,
      named.some(({ length }) => length > 1),
      other?.name,
    );
    const children = shape.children[position];
    const nodes = named.flat().map((member) => member.node);
    if (children !== undefined) addSlots(facts, children, node, nodes);
  }
}

/** Returns the facts from a slow reader that is independent of the scanner. */
function expected(node: JsonNode): Facts {
  const facts: Facts = Array.from({ length: SHAPE.slotCount }, () => [undefined, undefined, false, undefined]).flat();
  addSlots(facts, SHAPE, node, [node]);
  for (const { nameStart, nameText } of allMembers(node)) {
    if (nameText.includes("\\")) facts.push(nameStart, nameStart + nameText.length);
  }
  const elements = node.elements ?? [];
  for (const { start, end } of elements.slice(0, MAX_ELEMENTS)) facts.push(start, end);
  facts.push(elements.length, node.members !== undefined, node.elements !== undefined);
  return facts;
}

/** Returns the facts that the scanner has found. */
function found({ outline, elements, elementCount, isArray, isObject }: JsonScanner): Facts {
  const facts: Facts = [];
  for (let slot = 0; slot < SHAPE.slotCount; slot++) {
    const span = outline.span(slot);
    facts.push(span?.start, span?.end, outline.isRepeated(slot), outline.otherCaseAt(slot));
  }
  facts.push(...outline.escapedNames);
  for (const { start, end } of elements) facts.push(start, end);
  facts.push(elementCount, isObject, isArray);
  return facts;
}

function areSame(some: Facts, others: Facts): boolean {
  return some.length === others.length && some.every((fact, index) => fact === others[index]);
}

function scanAtOnce(text: string): JsonScanner {
  const scanner = new JsonScanner(text, SHAPE);
  scanner.advance();
  return scanner;
}

function scanInSteps(text: string, random: Random): JsonScanner {
  const scanner = new JsonScanner(text, SHAPE);
  const longest = random.integer(1, 40);
  while (!scanner.isDone) scanner.advance(random.integer(1, longest));
  return scanner;
}

/** Reads a text at once and in steps. @returns true if it is JSON. */
function check(text: string, random: Random): boolean {
  const isValid = isAccepted(text);
  const node = readReference(text);
  if ((node !== undefined) !== isValid) throw new Error("the reference is wrong");
  if (node !== undefined && random.isLucky(0.5)) poisonEngine(node);
  const facts = node === undefined ? [] : expected(node);
  for (const scanner of [scanAtOnce(text), scanInSteps(text, random)]) {
    const seen = node === undefined ? [] : found(scanner);
    if (scanner.isDone && scanner.isValid === isValid && areSame(seen, facts)) continue;
    expect([scanner.isDone, scanner.isValid, seen]).toEqual([true, isValid, facts]);
  }
  return isValid;
}

describe("JsonScanner", () => {
  it(`the results for ${CASES} random texts follow the grammar (TEST_SEED=${SEED})`, () => {
    let validCount = 0;
    for (let index = 0; index < CASES; index++) {
      const random = new Random(SEED + index);
      const json = new RandomJson(random, NAMES);
      const text = random.isLucky(0.6) ? json.text() : json.mutated(json.text());
      try {
        if (check(text, random)) validCount++;
      } catch (error) {
        throw new Error(`TEST_SEED=${SEED}, case ${index}: ${text}`, { cause: error });
      }
    }
    expect(validCount).toBeGreaterThan(CASES / 2);
    expect(validCount).toBeLessThan(CASES * 0.9);
  });
});
