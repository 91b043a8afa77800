import { type Link, LinkedList } from "./linked-list.ts";

/** Something that waits for the server. Exactly one of `release` and `refuse` is called, unless it is removed first. */
export interface Held {
  /** Whose it is: what has the same flow stays in order. */
  readonly flow: object;
  /** Whether it can go only when there is a slot for it. */
  readonly takesSlot: boolean;
  /** When it must not wait any longer. */
  readonly expiresAtMs: number;
  /** What it keeps in memory, in UTF-16 units. */
  readonly length: number;
  release(): void;
  /** It has waited for too long, or had to make room. */
  refuse(): void;
}

/** What waits of one flow; there is none without entries. */
class Flow {
  readonly key: object;
  readonly entries = new LinkedList<Held>();
  /** How many of them wait for a slot. */
  slotCount = 0;
  /** The flows that it takes turns with, and its place among them. */
  turns: LinkedList<Flow>;
  turn: Link<Flow>;

  constructor(key: object, turns: LinkedList<Flow>, isNext: boolean) {
    this.key = key;
    this.turns = turns;
    this.turn = isNext ? turns.unshift(this) : turns.push(this);
  }
}

interface Place {
  readonly flow: Flow;
  readonly link: Link<Held>;
}

/**
 * A fair queue: first in, first out within a flow, and round robin over the flows, so that one with a thousand entries delays another by
 * one. Bounded in number; where it is full, the longest flow makes room for a shorter one. All but that, and `expire`, costs the same
 * however much waits.
 */
export class FairQueue {
  readonly #maxEntries: number;
  readonly #flows = new Map<object, Flow>();
  /** In order of arrival. */
  readonly #places = new Map<Held, Place>();
  /** The flows whose next entry takes a slot, and those whose next entry takes none, in the order of their turns. */
  readonly #forSlots = new LinkedList<Flow>();
  readonly #forNone = new LinkedList<Flow>();
  #slotCount = 0;
  #queuedLength = 0;

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

  /** UTF-16 units that wait. */
  get queuedLength(): number {
    return this.#queuedLength;
  }

  has(entry: Held): boolean {
    return this.#places.has(entry);
  }

  /** Whether something of this flow waits. */
  hasFlow(key: object): boolean {
    return this.#flows.has(key);
  }

  /** @returns false when it is full, and no flow is longer than that of the entry. */
  add(entry: Held): boolean {
    if (this.#places.size >= this.#maxEntries && !this.#makeRoom(entry.flow)) return false;
    const flow = this.#flows.get(entry.flow) ?? this.#open(entry, false);
    this.#place(entry, flow, flow.entries.push(entry));
    return true;
  }

  /** Takes entries that had been released and came back, ahead of all others of their flow. They were accepted before, so the limit does not count. */
  putBack(entries: readonly Held[]): void {
    for (const entry of entries.toReversed()) {
      const flow = this.#flows.get(entry.flow) ?? this.#open(entry, true);
      this.#place(entry, flow, flow.entries.unshift(entry));
      this.#file(flow);
    }
  }

  /** Takes out what is next. @param hasSlot whether it may be something that takes one. */
  next(hasSlot: boolean): Held | undefined {
    const flow = this.#forNone.first ?? (hasSlot ? this.#forSlots.first : undefined);
    const entry = flow?.entries.first;
    if (flow === undefined || entry === undefined) return undefined;
    this.#take(entry);
    this.#file(flow, true);
    return entry;
  }

  remove(entry: Held): void {
    const flow = this.#take(entry);
    if (flow !== undefined) this.#file(flow);
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

  #open(first: Held, isNext: boolean): Flow {
    const flow = new Flow(first.flow, this.#turnsOf(first), isNext);
    this.#flows.set(flow.key, flow);
    return flow;
  }

  #place(entry: Held, flow: Flow, link: Link<Held>): void {
    this.#places.set(entry, { flow, link });
    this.#queuedLength += entry.length;
    if (!entry.takesSlot) return;
    flow.slotCount++;
    this.#slotCount++;
  }

  #take(entry: Held): Flow | undefined {
    const place = this.#places.get(entry);
    if (place === undefined) return undefined;
    const { flow, link } = place;
    this.#places.delete(entry);
    flow.entries.remove(link);
    this.#queuedLength -= entry.length;
    if (entry.takesSlot) {
      flow.slotCount--;
      this.#slotCount--;
    }
    return flow;
  }

  /** Files a flow by its first entry, which may be another one now: behind all others, unless it can stay where it is. */
  #file(flow: Flow, hadTurn = false): void {
    const { first } = flow.entries;
    const turns = first === undefined ? undefined : this.#turnsOf(first);
    if (turns === flow.turns && !hadTurn) return;
    flow.turns.remove(flow.turn);
    if (turns === undefined) this.#flows.delete(flow.key);
    else {
      flow.turns = turns;
      flow.turn = turns.push(flow);
    }
  }

  #turnsOf(first: Held): LinkedList<Flow> {
    return first.takesSlot ? this.#forSlots : this.#forNone;
  }

  /** The newest of the longest flow goes, where that is longer than the flow that comes would be. What takes no slot was promised to be sent. */
  #makeRoom(key: object): boolean {
    let longest: Flow | undefined;
    for (const flow of this.#flows.values()) if (flow.slotCount > (longest?.slotCount ?? 0)) longest = flow;
    if (longest === undefined || longest.slotCount <= (this.#flows.get(key)?.entries.length ?? 0) + 1) return false;
    const newest = longest.entries.findLast(({ takesSlot }) => takesSlot);
    if (newest === undefined) return false;
    this.remove(newest);
    newest.refuse();
    return true;
  }
}
