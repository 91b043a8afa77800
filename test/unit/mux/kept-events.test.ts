import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventLog } from "../../../src/mux/event-log.ts";
import { KeptEvents } from "../../../src/mux/kept-events.ts";
import { UNGUARDED } from "../support/defects.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
});

afterEach(() => {
  vi.useRealTimers();
});

function log(limits: { readonly maxBytes?: number; readonly maxAgeMs?: number; readonly maxEvents?: number } = {}): EventLog {
  const { maxBytes = 1000, maxAgeMs = 1000, maxEvents = 100 } = limits;
  return new EventLog({ replayMaxBytes: maxBytes, replayMaxAgeMs: maxAgeMs, replayMaxEvents: maxEvents }, Date.now, UNGUARDED);
}

function texts(kept: KeptEvents): string[] {
  return [...kept.values()].map(({ text }) => text);
}

describe("what a stream keeps", () => {
  it("counts its own events from 1, whatever other streams do", () => {
    const events = log();
    const [a, b] = [new KeptEvents(events), new KeptEvents(events)];
    expect(a.lastSequence).toBe(0);
    expect([a.add("x"), b.add("x"), a.add("y")].map(({ sequence }) => sequence)).toEqual([1, 1, 2]);
    expect([a.lastSequence, b.lastSequence, events.size]).toEqual([2, 1, 3]);
  });

  it("is no more events than it may have: the oldest go", () => {
    const events = log({ maxEvents: 2 });
    const kept = new KeptEvents(events);
    for (const text of ["a", "b", "c", "d"]) kept.add(text);
    expect([texts(kept), kept.lastSequence, events.size]).toEqual([["c", "d"], 4, 2]);
  });

  it("is a quarter of the log at most, so that a flooded stream costs the others nothing", () => {
    const events = log({ maxBytes: 40 });
    const [quiet, flooded] = [new KeptEvents(events), new KeptEvents(events)];
    quiet.add("precious");
    for (let index = 10; index < 50; index++) flooded.add(`no ${index}`);
    expect(texts(quiet)).toEqual(["precious"]);
    expect(texts(flooded)).toEqual(["no 48", "no 49"]);
  });

  it.each([11, 41])("is a newest event of %d characters, though that is more than its share", (length) => {
    const events = log({ maxBytes: 40 });
    const kept = new KeptEvents(events);
    kept.add("before");
    kept.add("x".repeat(length));
    expect([texts(kept), events.size]).toEqual([["x".repeat(length)], 1]);
    kept.add("after");
    expect([texts(kept), events.size]).toEqual([["after"], 1]);
  });

  it("ends with age, also where it was more than the log may hold", () => {
    const onEmpty = vi.fn<() => void>();
    const events = log({ maxBytes: 40, maxAgeMs: 500 });
    const kept = new KeptEvents(events, onEmpty);
    kept.add("x".repeat(41));
    vi.advanceTimersByTime(500);
    expect([kept.size, events.size, onEmpty.mock.calls.length]).toEqual([0, 0, 1]);
  });

  it("tells when the last of it was forgotten, for whatever reason", () => {
    const onEmpty = vi.fn<() => void>();
    const events = log({ maxBytes: 40 });
    const [kept, other] = [new KeptEvents(events, onEmpty), new KeptEvents(events)];
    kept.add("a");
    kept.add("b");
    vi.advanceTimersByTime(999);
    expect(onEmpty).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(onEmpty).toHaveBeenCalledTimes(1);
    kept.add("taken");
    for (const event of kept.values()) kept.take(event);
    expect(onEmpty).toHaveBeenCalledTimes(2);
    kept.add("pushed out");
    other.add("x".repeat(41));
    expect(onEmpty).toHaveBeenCalledTimes(3);
    expect([kept.size, kept.lastSequence]).toEqual([0, 4]);
  });

  it("can be taken while it is read, each event once", () => {
    const events = log();
    const kept = new KeptEvents(events);
    for (const text of ["a", "b", "c"]) kept.add(text);
    const taken: string[] = [];
    for (const event of kept.values()) {
      kept.take(event);
      taken.push(event.text);
    }
    expect([taken, kept.size, events.size]).toEqual([["a", "b", "c"], 0, 0]);
  });

  it("leaves nothing in the log once it is cleared, and has all of its share again", () => {
    const events = log({ maxBytes: 40 });
    const kept = new KeptEvents(events);
    kept.add("12345678");
    kept.clear();
    expect([kept.size, events.size]).toEqual([0, 0]);
    kept.add("a");
    kept.add("123456789");
    expect(texts(kept)).toEqual(["a", "123456789"]);
  });
});

describe("where nothing is kept", () => {
  it("events have their sequence all the same", () => {
    const kept = new KeptEvents(undefined);
    expect([kept.add("a"), kept.add("b")]).toEqual([
      { sequence: 1, text: "a" },
      { sequence: 2, text: "b" },
    ]);
    kept.clear();
    expect([kept.size, kept.lastSequence, [...kept.values()], vi.getTimerCount()]).toEqual([0, 2, [], 0]);
  });
});

function lengthOf(events: readonly { readonly text: string }[]): number {
  return events.reduce((sum, { text }) => sum + text.length, 0);
}

/** What may happen to the log, in the order in which it does. */
const happenings = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant("add" as const), stream: fc.nat({ max: 3 }), length: fc.nat({ max: 60 }) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.nat({ max: 150 }) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("clear" as const), stream: fc.nat({ max: 3 }) }) },
  ),
  { maxLength: 60 },
);

describe("the log of several streams", () => {
  it("never exceeds its bounds, never loses the newest event, and of each stream loses the oldest first", () => {
    fc.assert(
      fc.property(happenings, fc.integer({ min: 1, max: 120 }), fc.integer({ min: 1, max: 6 }), (steps, maxBytes, maxEvents) => {
        const maxAgeMs = 100;
        const events = log({ maxBytes, maxAgeMs, maxEvents });
        const streams = Array.from({ length: 4 }, () => new KeptEvents(events));
        for (const step of steps) {
          const added = step.kind === "add" ? streams[step.stream]?.add("x".repeat(step.length)) : undefined;
          if (step.kind === "wait") vi.advanceTimersByTime(step.ms);
          if (step.kind === "clear") streams[step.stream]?.clear();
          const kept = streams.flatMap((stream) => [...stream.values()]);
          // What the log counts is what the streams have: nothing is kept behind its back.
          expect(events.size).toBe(kept.length);
          expect(lengthOf(kept)).toBeLessThanOrEqual(kept.length > 1 ? maxBytes : Number.POSITIVE_INFINITY);
          for (const event of kept) expect(event.loggedAtMs + maxAgeMs).toBeGreaterThan(Date.now());
          expect(added === undefined || kept.some((event) => event === added)).toBe(true);
          for (const stream of streams) {
            const own = [...stream.values()];
            expect(own.length).toBeLessThanOrEqual(maxEvents);
            expect(lengthOf(own)).toBeLessThanOrEqual(own.length > 1 ? maxBytes / 4 : Number.POSITIVE_INFINITY);
            const first = stream.lastSequence - own.length + 1;
            expect(own.map(({ sequence }) => sequence)).toEqual(own.map((_, index) => first + index));
          }
        }
        vi.advanceTimersByTime(maxAgeMs);
        expect([events.size, vi.getTimerCount()]).toEqual([0, 0]);
      }),
    );
  });
});
