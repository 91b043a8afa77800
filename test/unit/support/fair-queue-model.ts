import type { CallSlots } from "../../../src/mux/call-slots.ts";
import type { Held } from "../../../src/mux/fair-queue.ts";

export const FLOWS: readonly object[] = [{ name: "a" }, { name: "b" }, { name: "c" }];

/** Who has been passed over by whom, for as long as it waits. */
class Passed {
  readonly #by = new Map<object, Set<object>>();

  /** @returns whether it was its turn. */
  serve(flow: object, waiting: readonly object[]): boolean {
    let isTurn = true;
    for (const other of waiting) {
      if (other === flow) continue;
      const by = this.#by.get(other) ?? new Set();
      if (by.has(flow)) isTurn = false;
      this.#by.set(other, by.add(flow));
    }
    this.#by.delete(flow);
    return isTurn;
  }

  keepOnly(waiting: readonly object[]): void {
    for (const flow of FLOWS) if (!waiting.includes(flow)) this.#by.delete(flow);
  }
}

const isFor =
  (flow: object, slots?: CallSlots) =>
  (entry: Held): boolean =>
    entry.flow === flow && entry.slots === slots;
export const takesSlot = (entry: Held | undefined): boolean => entry?.takesSlot === true;

/** What a fair queue shall be, in one array: what waits, in each line in order. */
export class FairQueueModel {
  waiting: Held[] = [];
  /** What has been given out, or sent at once, and has a slot of its own kind. */
  readonly inFlight = new Set<Held>();
  readonly #slots: readonly CallSlots[];
  #passed = new Passed();
  #passedForTool = new Map<CallSlots, Passed>();

  constructor(slots: readonly CallSlots[]) {
    this.#slots = slots;
  }

  line(flow: object, slots?: CallSlots): Held[] {
    return this.waiting.filter(isFor(flow, slots));
  }

  freeCount(slots: CallSlots): number {
    return slots.limit - [...this.inFlight].filter((entry) => entry.slots === slots).length;
  }

  /** Whether it may be the next one. */
  mayGo(entry: Held, hasSlot: boolean): boolean {
    const { flow, slots } = entry;
    return this.line(flow, slots)[0] === entry && (hasSlot || !entry.takesSlot) && (slots === undefined || this.freeCount(slots) > 0);
  }

  /** Those who wait for a slot of this tool. */
  #flowsFor(slots: CallSlots): object[] {
    return FLOWS.filter((flow) => this.line(flow, slots).length > 0);
  }

  /** Those who have something that waits for a slot of the server only, whoever else goes first. */
  #readyFlows(): object[] {
    const isPromised = (slots: CallSlots): boolean => this.#flowsFor(slots).length <= this.freeCount(slots);
    const promised = this.#slots.filter(isPromised);
    return FLOWS.filter((flow) => takesSlot(this.line(flow)[0]) || promised.some((slots) => this.line(flow, slots).length > 0));
  }

  /** @returns whether it was the turn of its flow, and where there is one slot for its tool, its turn for that. */
  serve(entry: Held): boolean {
    const { flow, slots } = entry;
    const isTurn = !entry.takesSlot || this.#passed.serve(flow, this.#readyFlows());
    let isTurnForTool = true;
    if (slots?.limit === 1) {
      const passed = this.#passedForTool.get(slots) ?? new Passed();
      this.#passedForTool.set(slots, passed);
      isTurnForTool = passed.serve(flow, this.#flowsFor(slots));
    }
    this.remove(entry);
    if (slots !== undefined) this.inFlight.add(entry);
    return isTurn && isTurnForTool;
  }

  remove(entry: Held): void {
    this.waiting = this.waiting.filter((each) => each !== entry);
  }

  putBack(entries: readonly Held[]): void {
    for (const entry of entries) this.inFlight.delete(entry);
    this.waiting.unshift(...entries);
    this.forgetTurns();
  }

  forgetTurns(): void {
    this.#passed = new Passed();
    this.#passedForTool = new Map();
  }

  forgetWhoDoesNotWait(): void {
    this.#passed.keepOnly(this.#readyFlows());
    for (const [slots, passed] of this.#passedForTool) passed.keepOnly(this.#flowsFor(slots));
  }

  /** Which entries may have to go to make room for one of this flow. */
  victims(flow: object): Held[] {
    const lengthOf = (each: object, ...slots: (CallSlots | undefined)[]): number =>
      this.waiting.filter((entry) => entry.flow === each && entry.takesSlot && slots.includes(entry.slots)).length;
    const all = [undefined, ...this.#slots];
    const longest = Math.max(...FLOWS.map((each) => lengthOf(each, ...all)));
    if (longest <= this.waiting.filter((entry) => entry.flow === flow).length + 1) return [];
    return FLOWS.filter((each) => lengthOf(each, ...all) === longest).flatMap((each) => {
      const longestLine = Math.max(...all.map((slots) => lengthOf(each, slots)));
      const lines = all.filter((slots) => lengthOf(each, slots) === longestLine);
      return lines.map((slots) => this.line(each, slots).findLast(takesSlot)).filter((entry) => entry !== undefined);
    });
  }
}
