import { describe, expect, it } from "vitest";
import { type Held, HoldQueue } from "../../../src/mux/hold-queue.ts";

/** Writes down what happens to each entry. */
class Journal {
  readonly lines: string[] = [];

  entry(name: string, expiresAtMs = Number.POSITIVE_INFINITY, onRelease: () => void = () => undefined): Held {
    return {
      expiresAtMs,
      length: name.length,
      release: () => {
        this.lines.push(`${name} released`);
        onRelease();
      },
      expire: () => this.lines.push(`${name} expired`),
    };
  }
}

describe("HoldQueue", () => {
  it("releases all in order of arrival, once", () => {
    const journal = new Journal();
    const queue = new HoldQueue(10);
    for (const name of ["a", "b", "c"]) expect(queue.add(journal.entry(name))).toBe(true);
    queue.releaseAll();
    queue.releaseAll();
    expect(queue.expire(Number.POSITIVE_INFINITY)).toBe(Number.POSITIVE_INFINITY);
    expect(journal.lines).toEqual(["a released", "b released", "c released"]);
    expect(queue.size).toBe(0);
  });

  it("takes no more than its limit, and takes again what there is room for", () => {
    const journal = new Journal();
    const queue = new HoldQueue(2);
    const first = journal.entry("first");
    expect([first, journal.entry("second"), journal.entry("third")].map((entry) => queue.add(entry))).toEqual([true, true, false]);
    queue.remove(first);
    expect(queue.add(journal.entry("fourth"))).toBe(true);
    queue.releaseAll();
    expect(journal.lines).toEqual(["second released", "fourth released"]);
  });

  it("puts what comes back ahead of all others, whatever the limit", () => {
    const journal = new Journal();
    const queue = new HoldQueue(1);
    queue.add(journal.entry("new"));
    queue.putBack([journal.entry("old"), journal.entry("less old")]);
    expect(queue.size).toBe(3);
    expect(queue.add(journal.entry("late"))).toBe(false);
    queue.releaseAll();
    expect(journal.lines).toEqual(["old released", "less old released", "new released"]);
  });

  it("expires what is due and tells when the next one is", () => {
    const journal = new Journal();
    const queue = new HoldQueue(10);
    for (const [name, atMs] of [
      ["c", 300],
      ["a", 100],
      ["b", 200],
    ] as const)
      queue.add(journal.entry(name, atMs));
    expect(queue.expire(99)).toBe(100);
    expect(queue.expire(200)).toBe(300);
    expect(journal.lines).toEqual(["a expired", "b expired"]);
    expect(queue.expire(300)).toBe(Number.POSITIVE_INFINITY);
    expect(journal.lines).toEqual(["a expired", "b expired", "c expired"]);
    queue.releaseAll();
    expect(journal.lines).toHaveLength(3);
  });

  it("does nothing more with an entry that was removed", () => {
    const journal = new Journal();
    const queue = new HoldQueue(10);
    const removed = journal.entry("removed", 100);
    queue.add(removed);
    queue.remove(removed);
    expect(queue.expire(1000)).toBe(Number.POSITIVE_INFINITY);
    queue.releaseAll();
    expect(journal.lines).toEqual([]);
  });

  it("does nothing more with an entry that was removed while others are released", () => {
    const journal = new Journal();
    const queue = new HoldQueue(10);
    const removed = journal.entry("removed");
    queue.add(journal.entry("first", undefined, () => queue.remove(removed)));
    queue.add(removed);
    queue.releaseAll();
    expect(journal.lines).toEqual(["first released"]);
  });

  it("keeps what is added while others are released, for the next time", () => {
    const journal = new Journal();
    const queue = new HoldQueue(1);
    queue.add(journal.entry("first", undefined, () => queue.add(journal.entry("second"))));
    queue.releaseAll();
    expect(journal.lines).toEqual(["first released"]);
    expect(queue.size).toBe(1);
    queue.releaseAll();
    expect(journal.lines).toEqual(["first released", "second released"]);
  });

  it("keeps what comes back while others are released, for the next time", () => {
    const journal = new Journal();
    const queue = new HoldQueue(10);
    const first: Held = journal.entry("first", undefined, () => queue.putBack([first]));
    queue.add(first);
    queue.add(journal.entry("second"));
    queue.releaseAll();
    expect(journal.lines).toEqual(["first released", "second released"]);
    expect(queue.size).toBe(1);
    queue.remove(first);
    expect(queue.size).toBe(0);
  });

  it("tells how much text it keeps", () => {
    const journal = new Journal();
    const queue = new HoldQueue(10);
    const removed = journal.entry("three");
    queue.add(removed);
    queue.add(journal.entry("four", 100));
    queue.putBack([journal.entry("fi")]);
    expect(queue.queuedLength).toBe("three".length + "four".length + "fi".length);
    queue.remove(removed);
    queue.expire(100);
    expect(queue.queuedLength).toBe("fi".length);
    queue.releaseAll();
    expect(queue.queuedLength).toBe(0);
  });
});
