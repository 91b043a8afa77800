import * as fc from "fast-check";
import { expect, it } from "vitest";
import { FairQueue, type Held } from "../../../src/mux/fair-queue.ts";

const MAX_ENTRIES = 5;
const FLOWS = [{ name: "a" }, { name: "b" }, { name: "c" }];

type Entry = Held;
type Input = Omit<Held, "release" | "refuse">;

/** The queue, and what it has refused since that was last asked. */
class Real {
  readonly queue = new FairQueue(MAX_ENTRIES);
  #refused: Entry[] = [];

  entry(input: Input): Entry {
    const entry: Entry = { ...input, release: () => undefined, refuse: () => this.#refused.push(entry) };
    return entry;
  }

  takeRefused(): Set<Entry> {
    const refused = new Set(this.#refused);
    this.#refused = [];
    return refused;
  }
}

/** What a fair queue shall be, in arrays; and who has been passed over by whom, for as long as it waits for a slot. */
class Model {
  readonly lines = new Map<object, Entry[]>(FLOWS.map((flow) => [flow, []]));
  readonly #servedSince = new Map<object, Set<object>>();

  get all(): Entry[] {
    return [...this.lines.values()].flat();
  }

  line(flow: object): Entry[] {
    return this.lines.get(flow) ?? [];
  }

  remove(entry: Entry): void {
    const line = this.line(entry.flow);
    line.splice(line.indexOf(entry), 1);
    this.#forgetWhoDoesNotWait();
  }

  putBack(entries: readonly Entry[]): void {
    for (const entry of entries.toReversed()) this.line(entry.flow).unshift(entry);
    this.#servedSince.clear();
  }

  /** @returns whether the entry may be the next one. */
  serve(entry: Entry, hasSlot: boolean): boolean {
    const { flow } = entry;
    const isFirst = this.line(flow)[0] === entry;
    this.remove(entry);
    if (!entry.takesSlot) return isFirst;
    let isTurn = true;
    for (const [other, line] of this.lines) {
      if (other === flow || line[0]?.takesSlot !== true) continue;
      const served = this.#servedSince.get(other) ?? new Set();
      if (served.has(flow)) isTurn = false;
      this.#servedSince.set(other, served.add(flow));
    }
    this.#servedSince.delete(flow);
    return isFirst && hasSlot && isTurn;
  }

  /** Which entries may have to go to make room for one of this flow. */
  victims(flow: object): Entry[] {
    const counts = [...this.lines.values()].map((line) => line.filter(({ takesSlot }) => takesSlot).length);
    const longest = Math.max(...counts);
    if (longest <= this.line(flow).length + 1) return [];
    return [...this.lines.values()].flatMap((line, index) => {
      const newest = line.findLast(({ takesSlot }) => takesSlot);
      return counts[index] === longest && newest !== undefined ? [newest] : [];
    });
  }

  #forgetWhoDoesNotWait(): void {
    for (const [flow, line] of this.lines) if (line[0]?.takesSlot !== true) this.#servedSince.delete(flow);
  }
}

/** What was seen of the queue, and what should have been. */
type Observation = readonly [seen: unknown, expected: unknown];
type Step = (model: Model, real: Real) => Observation;

function add(input: Input): Step {
  return (model, real) => {
    const entry = real.entry(input);
    const victims = model.all.length < MAX_ENTRIES ? undefined : model.victims(entry.flow);
    const isAdded = real.queue.add(entry);
    const refused = [...real.takeRefused()];
    for (const victim of refused) model.remove(victim);
    if (isAdded) model.line(entry.flow).push(entry);
    const seen = [isAdded, refused.length, refused.every((victim) => victims?.includes(victim))];
    return [seen, [victims === undefined || victims.length > 0, Math.min(1, victims?.length ?? 0), true]];
  };
}

function next(hasSlot: boolean): Step {
  return (model, real) => {
    const isSomethingNext = [...model.lines.values()].some(([first]) => first !== undefined && (hasSlot || !first.takesSlot));
    const entry = real.queue.next(hasSlot);
    const isRight = entry === undefined || model.serve(entry, hasSlot);
    return [
      [entry !== undefined, isRight],
      [isSomethingNext, true],
    ];
  };
}

function remove(index: number): Step {
  return (model, real) => {
    const [entry] = model.all.slice(index);
    if (entry === undefined) return [undefined, undefined];
    real.queue.remove(entry);
    real.queue.remove(entry);
    model.remove(entry);
    return [real.queue.has(entry), false];
  };
}

function putBack(inputs: readonly Input[]): Step {
  return (model, real) => {
    const entries = inputs.map((input) => real.entry(input));
    real.queue.putBack(entries);
    model.putBack(entries);
    return [entries.every((entry) => real.queue.has(entry)), true];
  };
}

function expire(nowMs: number): Step {
  return (model, real) => {
    const due = model.all.filter(({ expiresAtMs }) => expiresAtMs <= nowMs);
    const nextMs = real.queue.expire(nowMs);
    for (const entry of due) model.remove(entry);
    return [
      [real.takeRefused(), nextMs],
      [new Set(due), Math.min(...model.all.map(({ expiresAtMs }) => expiresAtMs))],
    ];
  };
}

/** What can be asked of a queue at any time. */
function ask(model: Model, { queue }: Real): Observation {
  const { all } = model;
  const slotCount = all.filter(({ takesSlot }) => takesSlot).length;
  const queuedLength = all.reduce((sum, { length }) => sum + length, 0);
  return [
    [queue.size, queue.slotCount, queue.queuedLength, FLOWS.map((flow) => queue.hasFlow(flow))],
    [all.length, slotCount, queuedLength, FLOWS.map((flow) => model.line(flow).length > 0)],
  ];
}

/** A step that a counterexample shows by its name. */
function named<Value>(arbitrary: fc.Arbitrary<Value>, step: (value: Value) => Step): fc.Arbitrary<Step> {
  return arbitrary.map((each) => Object.assign(step(each), { [fc.toStringMethod]: () => `${step.name} ${fc.stringify(each)}` }));
}

const input = fc.record({
  flow: fc.constantFrom(...FLOWS),
  takesSlot: fc.boolean(),
  expiresAtMs: fc.nat({ max: 50 }),
  length: fc.nat({ max: 9 }),
});
const step = fc.oneof(
  { weight: 8, arbitrary: named(input, add) },
  { weight: 4, arbitrary: named(fc.boolean(), next) },
  { weight: 2, arbitrary: named(fc.nat({ max: 9 }), remove) },
  { weight: 1, arbitrary: named(fc.array(input, { maxLength: 3 }), putBack) },
  { weight: 1, arbitrary: named(fc.nat({ max: 50 }), expire) },
);

it("a fair queue gives out each flow in order, none twice while another waits, and refuses only what is due or one too many", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100, size: "max" }), (steps) => {
      const [model, real] = [new Model(), new Real()];
      for (const each of steps) {
        const [seen, expected] = each(model, real);
        expect(seen).toEqual(expected);
        const [told, known] = ask(model, real);
        expect(told).toEqual(known);
      }
    }),
    { numRuns: 500 },
  );
});
