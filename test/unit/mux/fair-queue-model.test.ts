import * as fc from "fast-check";
import { expect, it } from "vitest";
import { CallSlots } from "../../../src/mux/call-slots.ts";
import { FairQueue, type Held } from "../../../src/mux/fair-queue.ts";
import { FairQueueModel as Model, FLOWS, takesSlot } from "../support/fair-queue-model.ts";

const MAX_ENTRIES = 6;
const LIMITS = [1, 1, 2];

type Entry = Held;
/** `tool` is that of the slots that it needs, where it takes one; beyond the last, none. */
interface Input extends Omit<Held, "release" | "refuse" | "slots"> {
  readonly tool: number;
}

/** The queue, and what it has refused since that was last asked. */
class Real {
  readonly queue = new FairQueue(MAX_ENTRIES);
  readonly slots = LIMITS.map((limit, tool) => new CallSlots(`tool ${tool}`, limit));
  #refused: Entry[] = [];

  entry({ tool, ...input }: Input): Entry {
    const slots = input.takesSlot ? this.slots[tool] : undefined;
    const entry: Entry = { ...input, slots, release: () => undefined, refuse: () => this.#refused.push(entry) };
    return entry;
  }

  takeRefused(): Set<Entry> {
    const refused = new Set(this.#refused);
    this.#refused = [];
    return refused;
  }
}

/** What was seen of the queue, and what should have been. */
type Observation = readonly [seen: unknown, expected: unknown];
type Step = (model: Model, real: Real) => Observation;

function add(input: Input): Step {
  return (model, real) => {
    const entry = real.entry(input);
    const victims = model.waiting.length < MAX_ENTRIES ? undefined : model.victims(entry.flow);
    const isAdded = real.queue.add(entry);
    const refused = [...real.takeRefused()];
    for (const victim of refused) model.remove(victim);
    if (isAdded) model.waiting.push(entry);
    const seen = [isAdded, refused.length, refused.every((victim) => victims?.includes(victim))];
    return [seen, [victims === undefined || victims.length > 0, Math.min(1, victims?.length ?? 0), true]];
  };
}

function next(hasSlot: boolean): Step {
  return (model, real) => {
    const isSomethingNext = model.waiting.some((entry) => model.mayGo(entry, hasSlot));
    const entry = real.queue.next(hasSlot);
    const mayGo = entry === undefined || model.mayGo(entry, hasSlot);
    const isTurn = entry === undefined || model.serve(entry);
    return [
      { isSomethingNext: entry !== undefined, mayGo, isTurn },
      { isSomethingNext, mayGo: true, isTurn: true },
    ];
  };
}

/** What would overtake nobody is sent without waiting. */
function send(input: Input): Step {
  return (model, real) => {
    const entry = real.entry(input);
    const { slots } = entry;
    if (slots === undefined) return [undefined, undefined];
    const { isOpen } = slots;
    const shallBeOpen = model.freeCount(slots) > 0 && model.waiting.every((each) => each.slots !== slots);
    if (isOpen) slots.take(entry);
    if (isOpen) model.inFlight.add(entry);
    return [isOpen, shallBeOpen];
  };
}

function end(index: number): Step {
  return (model, real) => {
    const [entry] = [...model.inFlight].slice(index);
    if (entry === undefined) return [undefined, undefined];
    real.queue.giveBack(entry);
    real.queue.giveBack(entry);
    return [model.inFlight.delete(entry), true];
  };
}

function remove(index: number): Step {
  return (model, real) => {
    const [entry] = model.waiting.slice(index);
    if (entry === undefined) return [undefined, undefined];
    real.queue.remove(entry);
    real.queue.remove(entry);
    model.remove(entry);
    return [real.queue.has(entry), false];
  };
}

/** What had no slot of its own kind, and some of what has. */
function putBack({ inputs, count }: { readonly inputs: readonly Input[]; readonly count: number }): Step {
  return (model, real) => {
    const entries = [...[...model.inFlight].slice(0, count), ...inputs.map((input) => real.entry({ ...input, tool: LIMITS.length }))];
    real.queue.putBack(entries);
    model.putBack(entries);
    return [entries.every((entry) => real.queue.has(entry)), true];
  };
}

function expire(nowMs: number): Step {
  return (model, real) => {
    const due = model.waiting.filter(({ expiresAtMs }) => expiresAtMs <= nowMs);
    const nextMs = real.queue.expire(nowMs);
    for (const entry of due) model.remove(entry);
    model.forgetTurns();
    return [
      [real.takeRefused(), nextMs],
      [new Set(due), Math.min(...model.waiting.map(({ expiresAtMs }) => expiresAtMs))],
    ];
  };
}

/** What can be asked of a queue at any time. */
function ask(model: Model, { queue, slots }: Real): Observation {
  const { waiting } = model;
  const queuedBytes = waiting.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const waitingFor = (each: CallSlots): number => waiting.filter((entry) => entry.slots === each).length;
  return [
    [
      queue.size,
      queue.slotCount,
      queue.queuedBytes,
      FLOWS.map((flow) => queue.hasFlow(flow)),
      slots.map((each) => [each.waitingCount, each.freeCount]),
    ],
    [
      waiting.length,
      waiting.filter(takesSlot).length,
      queuedBytes,
      FLOWS.map((flow) => model.line(flow).length > 0),
      slots.map((each) => [waitingFor(each), model.freeCount(each)]),
    ],
  ];
}

/** A step that a counterexample shows by its name. */
function named<Value>(arbitrary: fc.Arbitrary<Value>, step: (value: Value) => Step): fc.Arbitrary<Step> {
  return arbitrary.map((each) => Object.assign(step(each), { [fc.toStringMethod]: () => `${step.name} ${fc.stringify(each)}` }));
}

const input = fc.record({
  flow: fc.constantFrom(...FLOWS),
  takesSlot: fc.oneof({ weight: 3, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
  tool: fc.nat({ max: LIMITS.length }),
  expiresAtMs: fc.nat({ max: 50 }),
  byteLength: fc.nat({ max: 9 }),
});
const step = fc.oneof(
  { weight: 8, arbitrary: named(input, add) },
  { weight: 5, arbitrary: named(fc.boolean(), next) },
  { weight: 2, arbitrary: named(input, send) },
  { weight: 4, arbitrary: named(fc.nat({ max: 3 }), end) },
  { weight: 2, arbitrary: named(fc.nat({ max: 9 }), remove) },
  { weight: 1, arbitrary: named(fc.record({ inputs: fc.array(input, { maxLength: 3 }), count: fc.nat({ max: 2 }) }), putBack) },
  { weight: 1, arbitrary: named(fc.nat({ max: 50 }), expire) },
);

it("a fair queue gives out each line in order, no flow twice while another could go, nothing without slots, and refuses only what is due or one too many", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100, size: "max" }), (steps) => {
      const real = new Real();
      const model = new Model(real.slots);
      for (const each of steps) {
        const [seen, expected] = each(model, real);
        expect(seen).toEqual(expected);
        model.forgetWhoDoesNotWait();
        const [told, known] = ask(model, real);
        expect(told).toEqual(known);
      }
    }),
    { numRuns: 1000 },
  );
});
