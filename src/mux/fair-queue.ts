import type { CallSlots } from "./call-slots.ts";
import { Flow, type Held, Line, SlotQueue } from "./flow.ts";
import { type Link, LinkedList } from "./linked-list.ts";

export type { Held } from "./flow.ts";

interface Place {
  readonly line: Line;
  readonly link: Link<Held>;
}

/**
 * A fair queue: first in, first out within a flow, and round robin over the flows, so that one with a thousand entries delays another by
 * one. What needs slots of its own kind stands in lines of its own, so that it holds up nothing else of its flow: where those are all
 * taken, such lines are passed over, and get the next one in the order in which they came, or were served last. Bounded in number; where
 * it is full, the longest flow makes room for a shorter one. All but that, and `expire`, costs the same however much waits.
 */
export class FairQueue {
  readonly #maxEntries: number;
  readonly #flows = new Map<object, Flow>();
  /** In order of arrival. */
  readonly #places = new Map<Held, Place>();
  /** The flows that have something that only needs a slot of the server, and the lines whose next entry takes none, in the order of their turns. */
  readonly #forSlots = new LinkedList<Flow>();
  readonly #forNone = new LinkedList<Line>();
  readonly #slotQueues = new Map<CallSlots, SlotQueue>();
  #slotCount = 0;
  #queuedBytes = 0;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#places.size;
  }

  /** How many of them wait for a slot. */
  get slotCount(): number {
    return this.#slotCount;
  }

  /** Bytes that wait. */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  has(entry: Held): boolean {
    return this.#places.has(entry);
  }

  /** Whether something of this flow waits that needs no slots of its own. */
  hasFlow(key: object): boolean {
    return this.#flows.get(key)?.lines.has(undefined) === true;
  }

  /** @returns false when it is full, and no flow is longer than that of the entry. */
  add(entry: Held): boolean {
    if (this.#places.size >= this.#maxEntries && !this.#makeRoom(entry.flow)) return false;
    const line = this.#lineOf(entry);
    this.#place(entry, line, line.entries.push(entry));
    this.#file(line);
    return true;
  }

  /**
   * Takes entries that had been released and came back, ahead of all others of their line, and gives back their slots. They were accepted
   * before, so the limit does not count.
   */
  putBack(entries: readonly Held[]): void {
    for (const entry of entries) entry.slots?.giveBack(entry);
    for (const entry of entries.toReversed()) {
      const line = this.#lineOf(entry);
      this.#place(entry, line, line.entries.unshift(entry));
      this.#file(line, line.entries.length === 1);
    }
    for (const { slots } of entries) if (slots !== undefined) this.#promise(slots);
  }

  /** Takes out what is next, and takes a slot of its own kind for it. @param hasSlot whether it may be something that takes one of the server. */
  next(hasSlot: boolean): Held | undefined {
    const line = this.#forNone.first ?? (hasSlot ? this.#forSlots.first?.ready.first : undefined);
    const entry = line?.entries.first;
    if (line === undefined || entry === undefined) return undefined;
    const { flow, slots } = line;
    this.#take(entry);
    this.#leave(line);
    slots?.take(entry);
    this.#file(line);
    if (entry.takesSlot && flow.turn !== undefined) {
      this.#forSlots.remove(flow.turn);
      flow.turn = this.#forSlots.push(flow);
    }
    return entry;
  }

  remove(entry: Held): void {
    const line = this.#take(entry);
    if (line !== undefined) this.#file(line);
  }

  /** What had been released has ended: its slot is for the next one. */
  giveBack(entry: Held): void {
    if (entry.slots?.giveBack(entry) === true) this.#promise(entry.slots);
  }

  /** Refuses what has waited for too long. @returns when the next entry will have, or Infinity. */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const entry of this.#places.keys()) {
      if (entry.expiresAtMs > nowMs) nextMs = Math.min(nextMs, entry.expiresAtMs);
      else {
        this.remove(entry);
        entry.refuse();
      }
    }
    return nextMs;
  }

  #lineOf({ flow: key, slots }: Held): Line {
    let flow = this.#flows.get(key);
    if (flow === undefined) this.#flows.set(key, (flow = new Flow(key)));
    let line = flow.lines.get(slots);
    if (line === undefined) flow.lines.set(slots, (line = new Line(flow, slots)));
    return line;
  }

  #place(entry: Held, line: Line, link: Link<Held>): void {
    this.#places.set(entry, { line, link });
    this.#count(entry, line, 1);
  }

  #take(entry: Held): Line | undefined {
    const place = this.#places.get(entry);
    if (place === undefined) return undefined;
    const { line, link } = place;
    this.#places.delete(entry);
    line.entries.remove(link);
    this.#count(entry, line, -1);
    return line;
  }

  #count({ byteLength, takesSlot, slots }: Held, line: Line, change: 1 | -1): void {
    this.#queuedBytes += change * byteLength;
    line.flow.size += change;
    if (slots !== undefined) slots.waitingCount += change;
    if (!takesSlot) return;
    line.slotCount += change;
    line.flow.slotCount += change;
    this.#slotCount += change;
  }

  /** Files a line by its first entry, which may be another one now: behind all others, unless it can stay where it is. */
  #file(line: Line, isNext = false): void {
    const { entries, slots, turns } = line;
    const { first } = entries;
    if (first === undefined) this.#close(line);
    else if (slots === undefined) {
      const isForSlots = first.takesSlot;
      if (turns === (isForSlots ? line.flow.ready : this.#forNone)) return;
      this.#leave(line);
      if (isForSlots) this.#getReady(line, isNext);
      else join(line, this.#forNone, isNext);
    } else if (turns === undefined) {
      join(line, this.#slotQueueOf(slots).waiting, isNext);
      if (!isNext) this.#promise(slots);
    }
  }

  #close(line: Line): void {
    const { flow, slots } = line;
    this.#leave(line);
    flow.lines.delete(slots);
    if (flow.lines.size === 0) this.#flows.delete(flow.key);
    if (slots === undefined) return;
    if (slots.waitingCount === 0) this.#slotQueues.delete(slots);
    else this.#promise(slots);
  }

  /** Lets as many lines wait for a slot of the server only as there are slots of their own. */
  #promise(slots: CallSlots): void {
    const queue = this.#slotQueues.get(slots);
    if (queue === undefined) return;
    for (let { first } = queue.waiting; first !== undefined && queue.readyCount < slots.freeCount; { first } = queue.waiting) {
      this.#leave(first);
      queue.readyCount++;
      this.#getReady(first, false);
    }
  }

  #getReady(line: Line, isNext: boolean): void {
    const { flow } = line;
    join(line, flow.ready, isNext);
    flow.turn ??= isNext ? this.#forSlots.unshift(flow) : this.#forSlots.push(flow);
  }

  /** Takes a line, and its flow where nothing else of it is ready, out of turn. */
  #leave(line: Line): void {
    const { flow, slots, turns, turn } = line;
    if (turns === undefined || turn === undefined) return;
    turns.remove(turn);
    line.turns = undefined;
    if (turns !== flow.ready) return;
    if (slots !== undefined) this.#slotQueueOf(slots).readyCount--;
    if (flow.ready.length > 0 || flow.turn === undefined) return;
    this.#forSlots.remove(flow.turn);
    flow.turn = undefined;
  }

  #slotQueueOf(slots: CallSlots): SlotQueue {
    let queue = this.#slotQueues.get(slots);
    if (queue === undefined) this.#slotQueues.set(slots, (queue = new SlotQueue()));
    return queue;
  }

  /** The newest of the longest flow goes, where that is longer than the flow that comes would be. What takes no slot was promised to be sent. */
  #makeRoom(key: object): boolean {
    let longest: Flow | undefined;
    for (const flow of this.#flows.values()) if (flow.slotCount > (longest?.slotCount ?? 0)) longest = flow;
    if (longest === undefined || longest.slotCount <= (this.#flows.get(key)?.size ?? 0) + 1) return false;
    const newest = longest.mostExpendable;
    if (newest === undefined) return false;
    this.remove(newest);
    newest.refuse();
    return true;
  }
}

function join(line: Line, turns: LinkedList<Line>, isNext: boolean): void {
  line.turns = turns;
  line.turn = isNext ? turns.unshift(line) : turns.push(line);
}
