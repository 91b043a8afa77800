import type { CallSlots } from "./call-slots.ts";
import { type Link, LinkedList } from "./linked-list.ts";

/** Something that waits for the server. Exactly one of `release` and `refuse` is called, unless it is removed first. */
export interface Held {
  /** Whose it is. */
  readonly flow: object;
  /** Whether it can go only when there is a slot for it. */
  readonly takesSlot: boolean;
  /** Of what else it has to have one; only where it takes a slot. What has the same flow and the same slots stays in order. */
  readonly slots?: CallSlots | undefined;
  /** When it must not wait any longer. */
  readonly expiresAtMs: number;
  /** Of its text in UTF-8. */
  readonly byteLength: number;
  release(): void;
  /** It has waited for too long, or had to make room. */
  refuse(): void;
}

/** What goes out in order: that of a flow which needs the same slots, or none of its own. There is none without entries. */
export class Line {
  readonly flow: Flow;
  readonly slots: CallSlots | undefined;
  readonly entries = new LinkedList<Held>();
  /** How many of them wait for a slot. */
  slotCount = 0;
  /** The lines that it takes turns with, and its place among them. */
  turns: LinkedList<Line> | undefined;
  turn: Link<Line> | undefined;

  constructor(flow: Flow, slots: CallSlots | undefined) {
    this.flow = flow;
    this.slots = slots;
  }
}

/** The lines of one that waits; there is none without lines. */
export class Flow {
  readonly key: object;
  /** By the slots that they need. */
  readonly lines = new Map<CallSlots | undefined, Line>();
  /** The lines whose next entry can go once the server has a slot, in the order of their turns. */
  readonly ready = new LinkedList<Line>();
  /** Entries. */
  size = 0;
  /** How many of them wait for a slot. */
  slotCount = 0;
  /** Its place among the flows that have something ready. */
  turn: Link<Flow> | undefined;

  constructor(key: object) {
    this.key = key;
  }

  /** The newest of its longest line, of what takes a slot. */
  get mostExpendable(): Held | undefined {
    let longest: Line | undefined;
    for (const line of this.lines.values()) if (line.slotCount > (longest?.slotCount ?? 0)) longest = line;
    return longest?.entries.findLast(({ takesSlot }) => takesSlot);
  }
}

/** The lines that wait for slots of the same kind. */
export class SlotQueue {
  /** Those for which there is none, in the order of their turns. */
  readonly waiting = new LinkedList<Line>();
  /** How many lines have been promised one, and wait for one of the server: never more than are free. */
  readyCount = 0;
}
