import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventLog, type EventOwner, type LoggedEvent } from "../../../src/mux/event-log.ts";
import { UNGUARDED } from "../support/defects.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
});

afterEach(() => {
  vi.useRealTimers();
});

/** A stream that writes down what the log has forgotten of it. */
class Owner implements EventOwner {
  readonly forgotten: string[] = [];
  readonly #log: EventLog;
  #lastSequence = 0;

  constructor(log: EventLog) {
    this.#log = log;
  }

  append(text: string): LoggedEvent {
    return this.#log.append(this, ++this.#lastSequence, text);
  }

  forget({ text }: LoggedEvent): void {
    this.forgotten.push(text);
  }
}

function newLog(maxBytes = 1000, maxAgeMs = 1000): EventLog {
  return new EventLog({ replayMaxBytes: maxBytes, replayMaxAgeMs: maxAgeMs, replayMaxEvents: 3 }, Date.now, UNGUARDED);
}

describe("the event log", () => {
  it("gives every event its owner, its sequence and its time", () => {
    const events = newLog();
    const owner = new Owner(events);
    vi.setSystemTime(70);
    expect(owner.append("a")).toEqual({ owner, sequence: 1, text: "a", byteLength: 1, loggedAtMs: 70 });
    expect(events.size).toBe(1);
  });

  it("keeps as much as it may hold, to the last character", () => {
    const events = newLog(10);
    const owner = new Owner(events);
    for (const text of ["aaa", "bbb", "cccc"]) owner.append(text);
    expect([events.size, owner.forgotten]).toEqual([3, []]);
    owner.append("d");
    expect([events.size, owner.forgotten]).toEqual([3, ["aaa"]]);
  });

  it("counts the bytes of a text in UTF-8", () => {
    const events = newLog(10);
    const owner = new Owner(events);
    for (const text of ["€€", "é", "aa"]) owner.append(text);
    expect(owner.forgotten).toEqual([]);
    owner.append("d");
    expect(owner.forgotten).toEqual(["€€"]);
  });

  it("forgets the oldest first, of whichever stream, and as many as it takes", () => {
    const events = newLog(10);
    const [quiet, busy] = [new Owner(events), new Owner(events)];
    quiet.append("q1");
    busy.append("b1");
    quiet.append("q2");
    busy.append("b2");
    busy.append("seven..");
    expect([quiet.forgotten, busy.forgotten]).toEqual([["q1", "q2"], ["b1"]]);
    expect(events.size).toBe(2);
  });

  it("keeps the newest even where it alone is too much, and forgets it for the next one", () => {
    const events = newLog(10);
    const owner = new Owner(events);
    owner.append("a");
    owner.append("x".repeat(11));
    expect([events.size, owner.forgotten]).toEqual([1, ["a"]]);
    owner.append("b");
    expect([events.size, owner.forgotten]).toEqual([1, ["a", "x".repeat(11)]]);
  });

  it("keeps no more events than it has half a thousand characters for, however short they are", () => {
    const events = newLog(512 * 5);
    const owner = new Owner(events);
    for (let number = 0; number < 10; number++) owner.append(String(number));
    expect([events.size, owner.forgotten]).toEqual([5, ["0", "1", "2", "3", "4"]]);
  });

  it("has room again for what an owner has removed, and counts that once", () => {
    const events = newLog(10);
    const owner = new Owner(events);
    const removed = owner.append("aaaaa");
    owner.append("bbbbb");
    events.remove(removed);
    events.remove(removed);
    expect(events.size).toBe(1);
    owner.append("ccccc");
    expect(owner.forgotten).toEqual([]);
    owner.append("d");
    expect(owner.forgotten).toEqual(["bbbbb"]);
  });

  it("forgets an event at its age, to the millisecond, with one timer for all", () => {
    const events = newLog(1000, 500);
    const owner = new Owner(events);
    owner.append("a");
    vi.advanceTimersByTime(200);
    owner.append("b");
    owner.append("c");
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(299);
    expect(owner.forgotten).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(owner.forgotten).toEqual(["a"]);
    vi.advanceTimersByTime(199);
    expect(owner.forgotten).toEqual(["a"]);
    vi.advanceTimersByTime(1);
    expect(owner.forgotten).toEqual(["a", "b", "c"]);
    expect([events.size, vi.getTimerCount()]).toEqual([0, 0]);
  });

  it("forgets with age also what was too large for it", () => {
    const events = newLog(10, 500);
    const owner = new Owner(events);
    owner.append("x".repeat(11));
    vi.advanceTimersByTime(500);
    expect([events.size, owner.forgotten]).toEqual([0, ["x".repeat(11)]]);
  });

  it("does not forget by age a second time what had to go before", () => {
    const events = newLog(3, 500);
    const owner = new Owner(events);
    owner.append("aaa");
    owner.append("bbb");
    events.remove(owner.append("c"));
    vi.advanceTimersByTime(10_000);
    expect(owner.forgotten).toEqual(["aaa", "bbb"]);
  });

  it("lets a stream have a quarter of it, and so many events", () => {
    const events = newLog(1000);
    expect(events.isOverShare(3, 250)).toBe(false);
    expect(events.isOverShare(4, 1)).toBe(true);
    expect(events.isOverShare(1, 251)).toBe(true);
  });

  it("leaves no timer behind once it is closed", () => {
    const events = newLog();
    const owner = new Owner(events);
    owner.append("a");
    events.close();
    owner.append("b");
    expect(vi.getTimerCount()).toBe(0);
  });
});
