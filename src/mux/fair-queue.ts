import type { CallSlots } from "./call-slots.ts";
import { Flow, type Held, Line, SlotQueue } from "./flow.ts";
import { type Link, LinkedList } from "./linked-list.ts";

export type { Held } from "./flow.ts";

interface Place {
  readonly line: Line;
  readonly link: Link<Held>;
}

/**
 * A fair queue: first in, first out within a flow, and round robin between flows. A flow with a thousand entries delays another flow by one
 * entry. Calls of a tool with limited slots have their own line in each flow, and so do not block the rest of it. Lines without a free
 * slot are skipped. A slot that becomes free goes to the line that has waited longest since its arrival or its last turn.
 *
 * The queue is bounded. If it is full, the longest flow loses an entry to a shorter one. That and `expire` take linear time; every other
 * operation takes constant time.
 */
export class FairQueue {
  readonly #maxEntries: number;
  readonly #flows = new Map<object, Flow>();
  /** In order of arrival. */
  readonly #places = new Map<Held, Place>();
  /** The flows with a line that only waits for a slot of the server, in the order of their turns. */
  readonly #forSlots = new LinkedList<Flow>();
  /** The lines whose next entry does not need a slot, in the order of their turns. */
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

  /** The number of entries that take a slot. */
  get slotCount(): number {
    return this.#slotCount;
  }

  /** The bytes of all entries. */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  has(entry: Held): boolean {
    return this.#places.has(entry);
  }

  /** True if this flow has an entry that does not need a tool's slot. */
  hasFlow(key: object): boolean {
    return this.#flows.get(key)?.lines.has(undefined) === true;
  }

  /** @returns false if the queue is full and no flow is longer than that of the entry. */
  add(entry: Held): boolean {
    if (this.#places.size >= this.#maxEntries && !this.#makeRoom(entry.flow)) return false;
    const line = this.#lineOf(entry);
    this.#place(entry, line, line.entries.push(entry));
    this.#file(line);
    return true;
  }

  /**
   * Returns released entries to the front of their lines, and releases their slots. The limit does not apply, since they were accepted
   * before.
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

  /** Removes the next entry and acquires its tool's slot. @param hasSlot false to consider only entries that take no slot. */
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

  /** Releases the tool's slot of an entry that has ended. */
  giveBack(entry: Held): void {
    if (entry.slots?.giveBack(entry) === true) this.#promise(entry.slots);
  }

  /** Rejects expired entries. @returns the time at which the next entry expires, or Infinity. */
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

  /** Moves a line to the list that its first entry belongs to: to the end, unless it can keep its place. */
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

  /** Makes waiting lines ready, one for each free slot of the tool. */
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

  /** Removes a line from its list, and its flow too if no other line of it is ready. */
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

  /** Evicts an entry of the longest flow, if that is longer than the new entry's flow. Entries without a slot are never evicted. */
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
