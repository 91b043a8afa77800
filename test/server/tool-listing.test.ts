import { describe, expect, it, vi } from "vitest";
import { Counters } from "../../src/observability/counters.ts";
import { Defects } from "../../src/observability/defects.ts";
import { ToolListing } from "../../src/lane/tools/tool-listing.ts";
import { RecordedLog } from "../support/recorded-log.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

/** The tools of a server that answers when the test says so. */
class Bench {
  readonly asked: object[] = [];
  /** The names of each complete listing; undefined for one that failed. */
  readonly listed: (unknown[] | undefined)[] = [];
  readonly outdated: boolean[] = [];
  readonly log = new RecordedLog();
  readonly #answers: ((resultText: string | undefined) => void)[] = [];
  readonly listing = new ToolListing({
    ask: (params, onResult) => {
      this.asked.push(params);
      this.#answers.push(onResult);
    },
    defects: new Defects(this.log, new Counters()),
    log: this.log,
    nowMs: Date.now,
    onListed: (tools, areOutdated) => {
      this.listed.push(tools?.map(({ name }) => name));
      this.outdated.push(areOutdated);
    },
  });

  constructor() {
    this.listing.open();
  }

  /** The server answers the oldest request. */
  answer(result: unknown): void {
    this.#answers.shift()?.(result === undefined ? undefined : JSON.stringify(result));
  }
}

describe("the listing of a server's tools", () => {
  it("all pages are listed, in order, before the tools are known", () => {
    const bench = new Bench();
    bench.answer({ tools: [{ name: "b" }], nextCursor: "2" });
    expect(bench.listed).toEqual([]);
    bench.answer({ tools: [{ name: "a" }, null, "x", { name: 7 }] });
    expect([bench.asked, bench.listed]).toEqual([[{}, { cursor: "2" }], [["b", "a", 7]]]);
  });

  it.each([undefined, null, {}, { tools: null }])("the tools are unknown after the answer %j", (result) => {
    const bench = new Bench();
    bench.answer(result);
    expect([bench.asked.length, bench.listed]).toEqual([1, [undefined]]);
  });

  it("the tools are unknown if a later page fails", () => {
    const bench = new Bench();
    bench.answer({ tools: [{ name: "a" }], nextCursor: "2" });
    bench.answer(undefined);
    expect(bench.listed).toEqual([undefined]);
  });

  it("an empty cursor ends the listing", () => {
    const bench = new Bench();
    bench.answer({ tools: [{ name: "a" }], nextCursor: "" });
    expect([bench.asked, bench.listed]).toEqual([[{}], [["a"]]]);
  });

  it("changed tools are listed again, one listing at a time", () => {
    const bench = new Bench();
    bench.answer({ tools: [{ name: "a" }] });
    for (let times = 0; times < 10; times++) bench.listing.onChanged();
    expect(bench.asked).toHaveLength(2);
    bench.answer({ tools: [{ name: "outdated" }], nextCursor: "2" });
    expect(bench.asked).toEqual([{}, {}, {}]);
    bench.answer({ tools: [{ name: "b" }] });
    expect([bench.listed, bench.asked.length]).toEqual([[["a"], ["b"]], 3]);
  });

  it("tools that change during each listing are taken as outdated and listed again", () => {
    const bench = new Bench();
    const change = (): void => bench.listing.onChanged();
    for (let times = 0; times < 3; times++) {
      change();
      bench.answer({ tools: [{ name: "outdated" }] });
    }
    change();
    bench.answer({ tools: [{ name: "a" }], nextCursor: "2" });
    bench.answer({ tools: [{ name: "b" }] });
    expect([bench.listed, bench.outdated, bench.asked.length]).toEqual([[["a", "b"]], [true], 6]);
    bench.answer({ tools: [{ name: "c" }] });
    expect([bench.listed.at(-1), bench.outdated.at(-1), bench.asked.length]).toEqual([["c"], false, 6]);
  });

  it("tools that change constantly are listed once a second", () => {
    const bench = new Bench();
    const answerAll = (): void => {
      for (let times = 0; times < 1000; times++) {
        bench.answer({ tools: [] });
        bench.listing.onChanged();
      }
    };
    answerAll();
    expect(bench.asked).toHaveLength(60);
    for (let seconds = 1; seconds <= 5; seconds++) {
      vi.advanceTimersByTime(1001);
      expect(bench.asked).toHaveLength(60 + seconds);
      answerAll();
    }
    bench.listing.close();
    bench.listing.open();
    expect(bench.asked).toHaveLength(66);
    vi.advanceTimersByTime(10_000);
    expect(bench.asked).toHaveLength(66);
  });

  it("the listing stops with its server", () => {
    const bench = new Bench();
    bench.listing.onChanged();
    bench.listing.close();
    bench.answer(undefined);
    bench.listing.onChanged();
    expect([bench.asked.length, bench.listed]).toEqual([1, []]);
    bench.listing.open();
    bench.answer({ tools: [{ name: "a" }] });
    expect([bench.asked.length, bench.listed]).toEqual([2, [["a"]]]);
  });

  it("a listing is limited in pages and tools, and the limit is logged", () => {
    const pages = new Bench();
    for (let page = 0; page < 200; page++) pages.answer({ tools: [{ name: page }], nextCursor: "again" });
    expect([pages.asked.length, pages.listed[0]?.length, pages.log.messages.length]).toEqual([100, 100, 1]);
    const many = new Bench();
    many.answer({ tools: Array.from({ length: 20_000 }, (_, name) => ({ name })), nextCursor: "2" });
    expect([many.asked.length, many.listed[0]?.length, many.log.messages.length]).toEqual([1, 10_000, 1]);
  });
});

it("a listing is given up if its pages take too much memory together", () => {
  const bench = new Bench();
  const inputSchema = { enum: Array.from({ length: 100_000 }, () => ({})) };
  for (let page = 1; page <= 10; page++) bench.answer({ tools: [{ name: `t${page}`, inputSchema }], nextCursor: String(page) });
  expect([bench.asked.length < 10, bench.listed]).toEqual([true, [undefined]]);
});
