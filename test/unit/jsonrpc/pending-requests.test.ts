import { describe, expect, it } from "vitest";
import { PendingRequests } from "../../../src/jsonrpc/pending-requests.ts";

function pendingWith(...entries: readonly string[]): PendingRequests<string> {
  const pending = new PendingRequests<string>();
  for (const entry of entries) pending.add(pending.mintId(), entry);
  return pending;
}

describe("PendingRequests", () => {
  it("mints integers from 1 and never one twice, also after the requests have ended", () => {
    const pending = new PendingRequests<string>();
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

  it("forgets them all when the peer is gone, but not what is pending", () => {
    const pending = pendingWith("a", "b");
    pending.abandon(1, "timeout", 0);
    pending.forgetAbandoned();
    expect(pending.takeAbandoned(1)).toBeUndefined();
    expect(pending.take(2)).toBe("b");
  });
});
