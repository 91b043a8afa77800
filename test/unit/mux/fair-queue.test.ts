import { describe, expect, it } from "vitest";
import { CallSlots } from "../../../src/mux/call-slots.ts";
import { FairQueue, type Held } from "../../../src/mux/fair-queue.ts";

const FLOWS = { a: {}, b: {}, c: {} };

/** Writes down what happens to each entry. The first letter of its name is its flow; in capitals, it takes no slot; `/x` is its tool. */
class Journal {
  readonly lines: string[] = [];
  readonly tools = { x: new CallSlots("x", 1), y: new CallSlots("y", 2) };

  entry(name: string, expiresAtMs = Number.POSITIVE_INFINITY, onRefused: () => void = () => undefined): Held {
    const flow = name.slice(0, 1).toLowerCase();
    return {
      slots: this.tools[name.split("/")[1] as keyof Journal["tools"]],
      flow: FLOWS[flow as keyof typeof FLOWS],
      takesSlot: name === name.toLowerCase(),
      expiresAtMs,
      byteLength: name.length,
      release: () => this.lines.push(name),
      refuse: () => {
        this.lines.push(`${name} refused`);
        onRefused();
      },
    };
  }

  /** A queue with these entries. */
  queue(names: readonly string[], maxEntries = 100): FairQueue {
    const queue = new FairQueue(maxEntries);
    for (const name of names) queue.add(this.entry(name));
    return queue;
  }

  /** Takes out all that is to be had with so many slots. */
  take(queue: FairQueue, slots = Number.POSITIVE_INFINITY): string[] {
    let taken = 0;
    for (;;) {
      const entry = queue.next(taken < slots);
      if (entry === undefined) return this.lines.splice(0);
      if (entry.takesSlot) taken++;
      entry.release();
    }
  }
}

describe("a fair queue", () => {
  it("is first in, first out within a flow, and takes the flows in turn", () => {
    const journal = new Journal();
    const queue = journal.queue(["a1", "a2", "a3", "b1", "c1", "c2"]);
    expect(journal.take(queue)).toEqual(["a1", "b1", "c1", "a2", "c2", "a3"]);
    expect([queue.size, queue.slotCount, queue.queuedBytes]).toEqual([0, 0, 0]);
  });

  it("gives a flow its next turn behind all others, also one that had been empty", () => {
    const journal = new Journal();
    const queue = journal.queue(["a1", "b1", "b2"]);
    expect(journal.take(queue, 1)).toEqual(["a1"]);
    queue.add(journal.entry("a2"));
    expect(journal.take(queue)).toEqual(["b1", "a2", "b2"]);
  });

  it("gives out without a slot what takes none, and what takes one is not overtaken by what came behind it in its flow", () => {
    const journal = new Journal();
    const queue = journal.queue(["a1", "A-NOTE", "a2", "B-NOTE", "b1"]);
    expect(journal.take(queue, 0)).toEqual(["B-NOTE"]);
    expect(journal.take(queue, 1)).toEqual(["a1", "A-NOTE"]);
    expect([queue.slotCount, queue.hasFlow(FLOWS.a), queue.hasFlow(FLOWS.c)]).toEqual([2, true, false]);
    expect(journal.take(queue, 1)).toEqual(["b1"]);
    expect(journal.take(queue)).toEqual(["a2"]);
  });

  it("lets go at once what stood behind an entry that is removed, where it takes no slot", () => {
    const journal = new Journal();
    const first = journal.entry("a1");
    const queue = new FairQueue(10);
    for (const entry of [first, journal.entry("A-NOTE")]) queue.add(entry);
    expect(journal.take(queue, 0)).toEqual([]);
    queue.remove(first);
    expect([queue.has(first), ...journal.take(queue, 0)]).toEqual([false, "A-NOTE"]);
  });

  it("removes an entry anywhere, once, and keeps the turn of its flow", () => {
    const journal = new Journal();
    const [first, middle] = [journal.entry("a1"), journal.entry("a3")];
    const queue = new FairQueue(10);
    for (const entry of [first, journal.entry("a2"), middle, journal.entry("a4"), journal.entry("b1")]) queue.add(entry);
    for (const entry of [first, middle, middle]) queue.remove(entry);
    expect([queue.size, queue.slotCount]).toEqual([3, 3]);
    expect(journal.take(queue)).toEqual(["a2", "b1", "a4"]);
  });
});

describe("what needs a slot of its tool", () => {
  it("waits while there is none, and holds up nothing else of its flow", () => {
    const journal = new Journal();
    const queue = journal.queue(["a1/x", "a2/x", "a3", "A-NOTE", "a4/y", "b1/x"]);
    expect(journal.take(queue, 0)).toEqual([]);
    expect(journal.take(queue)).toEqual(["a1/x", "a3", "A-NOTE", "a4/y"]);
    expect([queue.size, journal.tools.x.waitingCount, queue.hasFlow(FLOWS.a)]).toEqual([2, 2, false]);
  });

  it("gets it in turn: one flow after another, each in its own order", () => {
    const journal = new Journal();
    const entries = ["a1/x", "a2/x", "a3/x", "b1/x", "c1/x", "b2/x"].map((name) => journal.entry(name));
    const queue = new FairQueue(10);
    for (const entry of entries) queue.add(entry);
    const order: string[] = [];
    for (let next = queue.next(true); next !== undefined; next = queue.next(true)) {
      next.release();
      order.push(...journal.lines.splice(0));
      expect(queue.next(true)).toBeUndefined();
      queue.giveBack(next);
    }
    expect(order).toEqual(["a1/x", "b1/x", "c1/x", "a2/x", "b2/x", "a3/x"]);
  });

  it("gives its flow no more turns than one that needs none, and takes turns with the rest of its flow", () => {
    const journal = new Journal();
    const queue = journal.queue(["a1/x", "a2/y", "a3", "a4", "a5/y", "b1", "b2", "b3", "b4"]);
    expect(journal.take(queue)).toEqual(["a1/x", "b1", "a2/y", "b2", "a3", "b3", "a5/y", "b4", "a4"]);
  });

  it("is passed on where the one that it was promised to is removed", () => {
    const journal = new Journal();
    const [first, second] = [journal.entry("a1/x"), journal.entry("b1/x")];
    const queue = new FairQueue(10);
    for (const entry of [first, second]) queue.add(entry);
    queue.remove(first);
    expect(journal.take(queue)).toEqual(["b1/x"]);
    queue.add(journal.entry("c1/x"));
    expect(journal.take(queue)).toEqual([]);
    queue.giveBack(second);
    expect(journal.take(queue)).toEqual(["c1/x"]);
  });

  it("gives that back where it comes back itself, and is the next one of its line again", () => {
    const journal = new Journal();
    const queue = journal.queue(["a2/x", "b1/x"]);
    const sent = journal.entry("a1/x");
    journal.tools.x.take(sent);
    queue.putBack([sent]);
    expect(journal.tools.x.freeCount).toBe(1);
    expect(journal.take(queue)).toEqual(["a1/x"]);
  });

  it("counts for its flow where one has to make room", () => {
    const journal = new Journal();
    const queue = journal.queue(["a1/x", "a2/y", "a3/y", "a4", "b1", "b2", "b3"], 7);
    expect(queue.add(journal.entry("c1"))).toBe(true);
    expect(journal.lines.splice(0)).toEqual(["a3/y refused"]);
  });
});

describe("what comes back to a fair queue", () => {
  it("stands ahead of all others of its flow, in its former order, whatever the limit", () => {
    const journal = new Journal();
    const queue = journal.queue(["a3", "c1"], 2);
    queue.putBack(["a1", "b1", "a2", "b2"].map((name) => journal.entry(name)));
    expect([queue.size, queue.add(journal.entry("b3"))]).toEqual([6, false]);
    expect(journal.take(queue)).toEqual(["b1", "a1", "c1", "b2", "a2", "a3"]);
  });

  it("holds up what takes no slot in its flow, and is not held up by it", () => {
    const journal = new Journal();
    const queue = journal.queue(["A-NOTE"]);
    queue.putBack([journal.entry("a1")]);
    expect(journal.take(queue, 0)).toEqual([]);
    queue.putBack([journal.entry("A-FIRST")]);
    expect(journal.take(queue, 0)).toEqual(["A-FIRST"]);
    expect(journal.take(queue, 1)).toEqual(["a1", "A-NOTE"]);
  });
});

describe("a full queue", () => {
  it("takes no more than its limit of one flow, and takes again what there is room for", () => {
    const journal = new Journal();
    const queue = journal.queue(["a1"], 2);
    expect(["a2", "a3"].map((name) => queue.add(journal.entry(name)))).toEqual([true, false]);
    expect(journal.take(queue, 1)).toEqual(["a1"]);
    expect(queue.add(journal.entry("a4"))).toBe(true);
    expect(journal.take(queue)).toEqual(["a2", "a4"]);
  });

  it("refuses the newest of the longest flow to take one of a shorter flow", () => {
    const journal = new Journal();
    const queue = journal.queue(["a1", "a2", "a3", "b1"], 4);
    expect(queue.add(journal.entry("b2"))).toBe(true);
    expect(journal.lines.splice(0)).toEqual(["a3 refused"]);
    expect([queue.size, queue.slotCount, queue.queuedBytes]).toEqual([4, 4, 8]);
    expect(["a4", "b3"].map((name) => queue.add(journal.entry(name)))).toEqual([false, false]);
    expect(queue.add(journal.entry("c1"))).toBe(true);
    expect(["a2 refused", "b2 refused"]).toContain(journal.lines[0]);
  });

  it("refuses nothing that takes no slot, for that was promised to be sent", () => {
    const journal = new Journal();
    const queue = journal.queue(["a1", "a2", "A-NOTE"], 3);
    expect(queue.add(journal.entry("b1"))).toBe(true);
    expect(journal.lines.splice(0)).toEqual(["a2 refused"]);
    const notes = journal.queue(["A-1", "A-2", "A-3"], 3);
    expect([notes.add(journal.entry("b1")), journal.lines]).toEqual([false, []]);
  });
});

describe("what waits too long in a fair queue", () => {
  it("is refused when it is due, once, and it is told when the next one is", () => {
    const journal = new Journal();
    const queue = new FairQueue(10);
    for (const entry of [journal.entry("a3", 300), journal.entry("b1", 100), journal.entry("a2", 200)]) queue.add(entry);
    expect(queue.expire(99)).toBe(100);
    expect(queue.expire(200)).toBe(300);
    expect(journal.lines.splice(0)).toEqual(["b1 refused", "a2 refused"]);
    expect(queue.expire(300)).toBe(Number.POSITIVE_INFINITY);
    expect(journal.lines.splice(0)).toEqual(["a3 refused"]);
    expect([journal.take(queue), queue.size]).toEqual([[], 0]);
  });

  it("is neither refused nor given out once it was removed, while others are refused too", () => {
    const journal = new Journal();
    const queue = new FairQueue(10);
    const removed = journal.entry("b1", 100);
    queue.add(journal.entry("a1", 100, () => queue.remove(removed)));
    queue.add(removed);
    queue.expire(100);
    expect([journal.lines, queue.size]).toEqual([["a1 refused"], 0]);
  });
});
