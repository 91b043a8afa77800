import { describe, expect, it, vi } from "vitest";
import type { UpstreamExit, UpstreamHandshake, UpstreamInput } from "../../../../src/upstream/port.ts";
import { RecentGenerations } from "../../../../src/http/page/recent-generations.ts";
import { RecentItems } from "../../../../src/http/page/recent-items.ts";
import { RecentLog } from "../../../../src/http/page/recent-log.ts";
import { RequestRate } from "../../../../src/http/page/request-rate.ts";

describe("the last items of a series", () => {
  it("a reader gets the items after those that it has seen, as far as they are kept", () => {
    const items = new RecentItems<number>({ maxCount: 3 });
    for (const each of [1, 2, 3, 4]) items.add(each);
    expect([items.count, items.after(0), items.after(3), items.after(4)]).toEqual([4, [2, 3, 4], [4], []]);
  });

  it("the oldest items make room for a long one", () => {
    const items = new RecentItems<string>({ maxCount: 10, maxLength: 10, lengthOf: ({ length }) => length });
    for (const each of ["aaa", "bbb", "ccc", "dddddd"]) items.add(each);
    expect(items.after(0)).toEqual(["ccc", "dddddd"]);
    items.add("e".repeat(11));
    expect([items.after(0), items.count]).toEqual([[], 5]);
  });

  it("the log keeps at most 200 lines and 256 Ki of text, and shortens long lines", () => {
    const log = new RecentLog();
    for (let index = 0; index < 300; index++) log.add(`{"line":${index}}`);
    expect([log.lines.after(0).length, log.lines.after(0)[0]]).toEqual([200, '{"line":100}']);
    for (let index = 0; index < 100; index++) log.add("x".repeat(1_000_000));
    const lengths = log.lines.after(0).map(({ length }) => length);
    expect(Math.max(...lengths)).toBe(16 * 1024 + 1);
    expect(lengths.reduce((sum, length) => sum + length)).toBeLessThanOrEqual(256 * 1024);
  });
});

describe("the rate of requests", () => {
  const nowMs = vi.fn<() => number>();
  const at = (seconds: number): void => void nowMs.mockReturnValue(seconds * 1000 + 500);

  it("has each second that has passed, those without requests included", () => {
    const rate = new RequestRate(nowMs);
    at(100);
    rate.count(false, 2);
    rate.count(true, 4.25);
    rate.count(true, undefined);
    at(102);
    rate.count(false, 1);
    expect(rate.since(100)).toEqual([
      { at: "1970-01-01T00:01:40.000Z", requests: 3, errors: 2, meanMs: 3.1, longestMs: 4.3 },
      { at: "1970-01-01T00:01:41.000Z", requests: 0, errors: 0, meanMs: 0, longestMs: 0 },
    ]);
    at(103);
    expect(rate.since(102).map(({ requests }) => requests)).toEqual([1]);
  });

  it("keeps two minutes", () => {
    const rate = new RequestRate(nowMs);
    for (let second = 1000; second < 2000; second++) {
      at(second);
      rate.count(false, 1);
    }
    expect(rate.since(0)).toHaveLength(120);
    expect(rate.since(0).every(({ requests, at: text }) => requests === 1 || text === "1970-01-01T00:31:19.000Z")).toBe(true);
  });

  it("a clock that is set back adds to the last second", () => {
    const rate = new RequestRate(nowMs);
    at(100);
    rate.count(false, 1);
    at(50);
    rate.count(false, 1);
    at(101);
    expect(rate.since(100).map(({ requests }) => requests)).toEqual([2]);
  });
});

describe("the last generations", () => {
  const input = {} as UpstreamInput;
  const handshake = {} as UpstreamHandshake;
  const exit = { kind: "crash", reason: "exited with code 1", at: new Date(0), stderrTail: ["line"] } as unknown as UpstreamExit;

  it("each generation of each lane has its start, its readiness and its exit", () => {
    const generations = new RecentGenerations();
    const [shared, own] = [generations.observe("shared"), generations.observe("private-1")];
    shared.onStarted(input);
    own.onStarted(input);
    shared.onReady(handshake);
    shared.onLost(exit, []);
    shared.onStarted(input);
    expect(generations.changes).toBe(5);
    expect(generations.all).toMatchObject([
      {
        lane: "shared",
        number: 1,
        readyAt: expect.any(String) as string,
        exit: { kind: "crash", stderrTail: ["line"], likelyCause: null },
      },
      { lane: "private-1", number: 1, readyAt: null, exit: null },
      { lane: "shared", number: 2, readyAt: null, exit: null },
    ]);
  });

  it("a probe that the server refuses is forgotten", () => {
    const generations = new RecentGenerations();
    const probe = generations.observe("modern", true);
    probe.onStarted(input);
    expect(generations.all).toHaveLength(1);
    probe.onLost(exit, []);
    expect(generations.all).toEqual([]);
    probe.onStarted(input);
    probe.onReady(handshake);
    probe.onLost(exit, []);
    expect(generations.all).toMatchObject([{ lane: "modern", number: 2, exit: { kind: "crash" } }]);
  });

  it("30 are kept, first of all those that run", () => {
    const generations = new RecentGenerations();
    generations.observe("shared").onStarted(input);
    const crashing = generations.observe("private-1");
    for (let index = 0; index < 100; index++) {
      crashing.onStarted(input);
      crashing.onLost(exit, []);
    }
    expect(generations.all).toHaveLength(30);
    expect(generations.all[0]).toMatchObject({ lane: "shared", exit: null });
    expect(generations.all.at(-1)).toMatchObject({ number: 100 });
  });
});
