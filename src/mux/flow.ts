import type { CallSlots } from "./call-slots.ts";
import { type Link, LinkedList } from "./linked-list.ts";

/** An entry of the queue. Exactly one of `release` and `refuse` is called, unless the entry is removed first. */
export interface Held {
  /** The session, or another object, whose entries stay in order and take turns with those of others. */
  readonly flow: object;
  /** True if the entry needs one of the server's slots (MAX_IN_FLIGHT). */
  readonly takesSlot: boolean;
  /** The tool's slots, of which it needs one too; only with `takesSlot`. Entries of one flow with the same slots stay in order. */
  readonly slots?: CallSlots | undefined;
  /** The time at which the entry is rejected. */
  readonly expiresAtMs: number;
  /** The UTF-8 length of its text. */
  readonly byteLength: number;
  /** Sends the entry. */
  release(): void;
  /** Rejects the entry, because it has expired or was evicted. */
  refuse(): void;
}

/** The entries of a flow that need the same tool's slots, or no tool's slots, in order. Removed when it is empty. */
export class Line {
  readonly flow: Flow;
  readonly slots: CallSlots | undefined;
  readonly entries = new LinkedList<Held>();
  /** The number of entries that take a slot. */
  slotCount = 0;
  /** The list of lines that it takes turns with. */
  turns: LinkedList<Line> | undefined;
  /** Its place in that list. */
  turn: Link<Line> | undefined;

  constructor(flow: Flow, slots: CallSlots | undefined) {
    this.flow = flow;
    this.slots = slots;
  }
}

/** The lines of one session, or of another object with queued entries. Removed when it has no lines. */
export class Flow {
  readonly key: object;
  /** The lines, by the tool's slots that they need. */
  readonly lines = new Map<CallSlots | undefined, Line>();
  /** The lines whose next entry only waits for a slot of the server, in the order of their turns. */
  readonly ready = new LinkedList<Line>();
  /** The number of entries. */
  size = 0;
  /** The number of entries that take a slot. */
  slotCount = 0;
  /** Its place among the flows with a ready line. */
  turn: Link<Flow> | undefined;

  constructor(key: object) {
    this.key = key;
  }

  /** The newest slot-taking entry of the line with the most of them. */
  get mostExpendable(): Held | undefined {
    let longest: Line | undefined;
    for (const line of this.lines.values()) if (line.slotCount > (longest?.slotCount ?? 0)) longest = line;
    return longest?.entries.findLast(({ takesSlot }) => takesSlot);
  }
}

/** The lines that wait for the slots of one tool. */
export class SlotQueue {
  /** The lines without a free slot, in the order of their turns. */
  readonly waiting = new LinkedList<Line>();
  /** The number of lines that have a free slot reserved and wait for one of the server. Never exceeds the free slots. */
  readyCount = 0;
}
