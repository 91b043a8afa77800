import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PendingRequests } from "../../../src/jsonrpc/pending-requests.ts";

function pendingWith(...entries: readonly string[]): PendingRequests<string> {
  const pending = new PendingRequests<string>(0);
  for (const entry of entries) pending.add(pending.mintId(), entry);
  return pending;
}

describe("PendingRequests", () => {
  it("begins each time at another integer, of which a billion more fit in 32 bits", () => {
    const ids = Array.from({ length: 20 }, () => new PendingRequests<string>().mintId());
    expect(new Set(ids).size).toBeGreaterThan(15);
    for (const id of ids) expect(Number.isInteger(id) && id >= 1 && id <= 2 ** 30).toBe(true);
  });

  it("mints consecutive integers, and none twice, also after requests have ended", () => {
    const pending = new PendingRequests<string>(0);
    const ids = Array.from({ length: 5 }, () => {
      const id = pending.mintId();
      pending.add(id, "entry");
      pending.take(id);
      return id;
    });
    expect(ids).toEqual([1, 2, 3, 4, 5]);
  });

  it("gives an entry to the first answer only", () => {
    const pending = pendingWith("a", "b");
    expect(pending.take(2)).toBe("b");
    expect(pending.take(2)).toBeUndefined();
    expect([...pending.values()]).toEqual(["a"]);
    expect(pending.size).toBe(1);
  });

  it.each(["1", "constructor", null, undefined, true, { valueOf: () => 1 }, 0, 2, 1.5, Number.NaN])("takes nothing for the id %j", (id) => {
    const pending = pendingWith("a");
    expect(pending.take(id)).toBeUndefined();
    expect(pending.takeAbandoned(id)).toBeUndefined();
    expect(pending.size).toBe(1);
  });

  it("goes on iterating, in the order of minting, while entries are taken", () => {
    const pending = pendingWith("a", "b", "c");
    const seen: string[] = [];
    for (const entry of pending.values()) {
      seen.push(entry);
      pending.take(seen.length);
    }
    expect(seen).toEqual(["a", "b", "c"]);
    expect(pending.size).toBe(0);
  });
});

describe("PendingRequests that were given up", () => {
  it("tells a late answer why, once, and never gives it the entry", () => {
    const pending = pendingWith("a");
    pending.abandon(1, "timeout", 0);
    expect(pending.size).toBe(0);
    expect(pending.take(1)).toBeUndefined();
    expect(pending.takeAbandoned(1)).toBe("timeout");
    expect(pending.takeAbandoned(1)).toBeUndefined();
  });

  it("remembers nothing of a request that is not pending", () => {
    const pending = pendingWith("a");
    pending.take(1);
    pending.abandon(1, "timeout", 0);
    pending.abandon(2, "timeout", 0);
    expect([pending.takeAbandoned(1), pending.takeAbandoned(2)]).toEqual([undefined, undefined]);
  });

  it("remembers at most the last thousand", () => {
    const pending = pendingWith(...Array.from({ length: 1002 }, () => "a"));
    for (let id = 1; id <= 1002; id++) pending.abandon(id, "timeout", 0);
    expect([1, 2, 3, 1002].map((id) => pending.takeAbandoned(id))).toEqual([undefined, undefined, "timeout", "timeout"]);
  });

  it("remembers for five minutes", () => {
    const pending = pendingWith("a", "b", "c");
    pending.abandon(1, "first", 0);
    pending.abandon(2, "second", 1);
    pending.abandon(3, "third", 300_001);
    expect([1, 2, 3].map((id) => pending.takeAbandoned(id))).toEqual([undefined, "second", "third"]);
  });

  it("knows for five minutes that another session has given up a request", () => {
    const pending = pendingWith("a", "b");
    pending.abandon(1, "timeout", 0, "mine");
    pending.abandon(2, "timeout", 0);
    const isOfOthers = (sessionId: string, nowMs = 0): boolean => pending.hasAbandonedOfOthers(sessionId, nowMs);
    expect([isOfOthers("mine"), isOfOthers("other"), isOfOthers("other", 300_000), isOfOthers("other", 300_001)]).toEqual([
      false,
      true,
      true,
      false,
    ]);
  });

  it("forgets them all when the peer is gone, but not what is pending", () => {
    const pending = pendingWith("a", "b");
    pending.abandon(1, "timeout", 0);
    pending.forgetAbandoned();
    expect(pending.takeAbandoned(1)).toBeUndefined();
    expect(pending.take(2)).toBe("b");
  });
});

/** The table as it should be, with nothing clever about it. */
class Model {
  readonly pending = new Map<unknown, string>();
  abandoned: { readonly id: unknown; readonly reason: string; readonly atMs: number }[] = [];

  take(id: unknown): string | undefined {
    const entry = this.pending.get(id);
    this.pending.delete(id);
    return entry;
  }

  abandon(id: number, reason: string, nowMs: number): void {
    if (this.take(id) === undefined) return;
    const recent = [...this.abandoned, { id, reason, atMs: nowMs }].slice(-1000);
    this.abandoned = recent.filter(({ atMs }) => nowMs - atMs <= 300_000);
  }

  takeAbandoned(id: unknown): string | undefined {
    const found = this.abandoned.find((each) => each.id === id);
    this.abandoned = this.abandoned.filter((each) => each !== found);
    return found?.reason;
  }
}

describe("PendingRequests, whatever is done with them,", () => {
  it("give each entry away once, by its own id only, and a late answer its reason", () => {
    const id = fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 0, max: 30 }) }, fc.jsonValue());
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.constant({ kind: "add" as const }) },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant("take" as const), id }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant("takeAbandoned" as const), id }) },
      {
        weight: 3,
        arbitrary: fc.record({ kind: fc.constant("abandon" as const), id: fc.nat({ max: 30 }), afterMs: fc.nat({ max: 200_000 }) }),
      },
      { weight: 1, arbitrary: fc.constant({ kind: "forget" as const }) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80, size: "max" }), (steps) => {
        const [pending, model] = [new PendingRequests<string>(0), new Model()];
        let [lastId, nowMs] = [0, 0];
        for (const each of steps) {
          let seen: unknown;
          let expected: unknown;
          if (each.kind === "add") {
            seen = pending.mintId();
            expected = ++lastId;
            pending.add(lastId, `entry ${lastId}`);
            model.pending.set(lastId, `entry ${lastId}`);
          } else if (each.kind === "abandon") {
            nowMs += each.afterMs;
            pending.abandon(each.id, `reason ${nowMs}`, nowMs);
            model.abandon(each.id, `reason ${nowMs}`, nowMs);
          } else if (each.kind === "forget") {
            pending.forgetAbandoned();
            model.abandoned = [];
          } else {
            seen = pending[each.kind](each.id);
            expected = model[each.kind](each.id);
          }
          expect([seen, pending.size, [...pending.values()]]).toEqual([expected, model.pending.size, [...model.pending.values()]]);
        }
      }),
      { numRuns: 500 },
    );
  });
});
