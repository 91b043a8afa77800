import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defaultBudgetBytes, MEMORY_KINDS, MemoryBudget, type Reservation, textMemoryBytes } from "../../src/memory.ts";
import { SEED } from "../support/set-up.ts";

const MIB = 1024 * 1024;
const EMPTY = { usedBytes: 0, ...Object.fromEntries(MEMORY_KINDS.map((kind) => [kind, 0])) };

describe("the memory budget", () => {
  it("one holder leaves a quarter to others", () => {
    const budget = new MemoryBudget(100);
    const large = budget.account("a").reserve("requests", 75);
    expect(large?.tryGrow(1)).toBe(false);
    expect(budget.account("a").reserve("bodies", 1)).toBeUndefined();
    expect(budget.account("b").reserve("bodies", 25)).toBeDefined();
  });

  it("holders above a quarter make room for one that asks for its share, the largest first", () => {
    const budget = new MemoryBudget(100);
    const held = new Map<unknown, Reservation>();
    for (const [holder, bytes] of [
      ["a", 26],
      ["b", 45],
      ["c", 29],
    ] as const)
      held.set(holder, budget.account(holder).hold("bodies", bytes));
    const used: unknown[] = [];
    budget.onShortage("share", function* (holder) {
      const reservation = held.get(holder);
      for (; ; yield used.push(holder)) reservation?.resize(reservation.bytes - 5);
    });
    expect(budget.account("d").reserve("bodies", 24)).toBeDefined();
    // One is not asked for more once it is at its share.
    expect([used, budget.usedBytes]).toEqual([["b", "b", "b", "b", "c"], 99]);
    // It has less than its share now, but asks for more.
    expect(budget.account("d").reserve("bodies", 6)).toBeUndefined();
    expect(used.length).toBe(5);
  });

  it("the subscriptions of one holder have a quarter at most", () => {
    const budget = new MemoryBudget(100);
    const account = budget.account("a");
    account.hold("requests", 20);
    expect(account.reserve("subscriptions", 25)).toBeDefined();
    expect(account.reserve("subscriptions", 1)).toBeUndefined();
    expect(account.reserve("bodies", 1)).toBeDefined();
  });

  it("a quarter is kept free: droppable data goes first, then the memory of slow clients", () => {
    const budget = new MemoryBudget(100);
    const account = budget.account("a");
    const [replay, unread] = [account.hold("replay", 40), account.hold("unread", 35)];
    const used: string[] = [];
    const shrink = (reservation: Reservation, name: string) =>
      function* () {
        for (; reservation.bytes > 0; yield used.push(name)) reservation.resize(reservation.bytes - 5);
      };
    budget.onShortage("slow", shrink(unread, "unread"));
    budget.onShortage("replay", shrink(replay, "replay"));
    account.hold("serverOutput", 10);
    expect([used, budget.usedBytes]).toEqual([["replay", "replay"], 75]);
    account.hold("serverOutput", 40);
    expect([used.slice(2), budget.usedBytes]).toEqual([[...Array<string>(6).fill("replay"), "unread", "unread"], 75]);
  });

  it("the balance returns to 0 when everything is released", () => {
    const step = fc.record({
      act: fc.constantFrom("hold", "reserve", "grow", "resize", "release"),
      kind: fc.constantFrom(...MEMORY_KINDS),
      holder: fc.constantFrom("a", "b", "c"),
      bytes: fc.nat({ max: 60 }),
      index: fc.nat(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const budget = new MemoryBudget(100);
        const reservations: Reservation[] = [];
        for (const { act, kind, holder, bytes, index } of steps) {
          const chosen = reservations[index % Math.max(1, reservations.length)];
          const before = budget.usedBytes;
          const made =
            act === "hold"
              ? budget.account(holder).hold(kind, bytes)
              : act === "reserve"
                ? budget.account(holder).reserve(kind, bytes)
                : undefined;
          if (made !== undefined) reservations.push(made);
          if (act === "grow") chosen?.tryGrow(bytes);
          if (act === "resize") chosen?.resize(bytes);
          // A second release must not count.
          if (act === "release") [chosen, chosen].forEach((each) => each?.release());
          const isAsked = act === "reserve" || act === "grow";
          expect(budget.usedBytes).toBeLessThanOrEqual(isAsked ? Math.max(100, before) : Number.POSITIVE_INFINITY);
          expect(budget.usedBytes).toBe(reservations.reduce((sum, each) => sum + each.bytes, 0));
        }
        for (const reservation of reservations) reservation.release();
        expect(budget.status).toEqual({ ...EMPTY, limitBytes: 100 });
        expect(budget.hasRoomFor("a", 75)).toBe(true);
      }),
      { seed: SEED },
    );
  });
});

describe("the memory of a text", () => {
  it.each([
    ["ASCII", "abc", 3],
    ["beyond Latin-1", "ab€", 6],
    ["an emoji", "😀", 4],
    ["empty", "", 0],
  ])("%s: each character counts as V8 stores it", (_name, text, bytes) => {
    expect(textMemoryBytes(text)).toBe(bytes);
  });
});

describe("the default of the memory budget", () => {
  it.each([
    ["a container of 64 MiB", 64, 32, 2],
    ["a container of 128 MiB", 128, 64, 18],
    ["a container of 512 MiB", 512, 256, 114],
    ["a container of 512 MiB with a small heap", 512, 100, 50],
    ["a large machine", 64_000, 4000, 256],
    ["a container that is too small", 32, 16, 2],
  ])("%s gets its share", (_name, memoryMib, heapMib, budgetMib) => {
    expect(defaultBudgetBytes(memoryMib * MIB, heapMib * MIB)).toBe(budgetMib * MIB);
  });
});
