import { describe, expect, it } from "vitest";
import { ReadOnlyTools } from "../../../src/mux/read-only-tools.ts";
import { RecordedLog } from "../../support/recorded-log.ts";

const READS = { annotations: { readOnlyHint: true } };

/** The tools of a server that answers when the test says so. */
class Bench {
  readonly asked: object[] = [];
  readonly log = new RecordedLog();
  readonly #answers: ((result: unknown) => void)[] = [];
  readonly tools = new ReadOnlyTools((params, onResult) => {
    this.asked.push(params);
    this.#answers.push(onResult);
  }, this.log);

  /** The server answers the oldest request. */
  answer(result: unknown): void {
    this.#answers.shift()?.(result);
  }

  /** Whether each of them is known as read-only. */
  known(...names: readonly string[]): boolean[] {
    return names.map((name) => this.tools.has(name));
  }
}

function ready(): Bench {
  const bench = new Bench();
  bench.tools.onReady();
  return bench;
}

describe("the tools of a server", () => {
  it.each([
    [{ readOnlyHint: true }, true],
    [{ readOnly: true }, true],
    [{ readOnlyHint: true, destructiveHint: true }, true],
    [{ readOnlyHint: true, readOnly: false }, false],
    [{ readOnlyHint: false, readOnly: true }, false],
    [{ readOnlyHint: "true" }, false],
    [{ idempotentHint: true }, false],
    [{}, false],
    [null, false],
    [undefined, false],
  ])("are read-only by their annotations %j: %j", (annotations, expected) => {
    const bench = ready();
    bench.answer({ tools: [{ name: "x", annotations }] });
    expect(bench.known("x")).toEqual([expected]);
  });

  it("are asked for page by page, and known when the last page is there", () => {
    const bench = ready();
    bench.answer({ tools: [{ name: "a", ...READS }], nextCursor: "2" });
    expect(bench.known("a")).toEqual([false]);
    bench.answer({ tools: [{ name: "b", ...READS }, { name: "c" }] });
    expect([bench.asked, bench.known("a", "b", "c", "constructor")]).toEqual([
      [{}, { cursor: "2" }],
      [true, true, false, false],
    ]);
  });

  it("are not read-only where one of two with the same name is not", () => {
    const bench = ready();
    bench.answer({ tools: [{ name: "a", ...READS }, { name: "b" }], nextCursor: "2" });
    bench.answer({ tools: [{ name: "b", ...READS }, { name: "a" }] });
    expect(bench.known("a", "b")).toEqual([false, false]);
  });

  it("are none where the server does not tell", () => {
    for (const result of [undefined, null, {}, { tools: null }, { tools: [null, "x", { name: 7, ...READS }] }]) {
      const bench = ready();
      bench.answer(result);
      expect([bench.asked.length, bench.known("x", "7")]).toEqual([1, [false, false]]);
    }
  });

  it("are none where it did not tell all of them", () => {
    const bench = ready();
    bench.answer({ tools: [{ name: "a", ...READS }], nextCursor: "2" });
    bench.answer(undefined);
    expect(bench.known("a")).toEqual([false]);
  });

  it("are asked for again when they have changed, one listing at a time, and not known until then", () => {
    const bench = ready();
    bench.answer({ tools: [{ name: "a", ...READS }] });
    for (let times = 0; times < 10; times++) bench.tools.onChanged();
    expect([bench.known("a"), bench.asked.length]).toEqual([[false], 2]);
    bench.answer({ tools: [{ name: "outdated", ...READS }], nextCursor: "2" });
    expect([bench.known("outdated"), bench.asked]).toEqual([[false], [{}, {}, {}]]);
    bench.answer({ tools: [{ name: "b", ...READS }] });
    expect([bench.known("a", "b"), bench.asked.length]).toEqual([[false, true], 3]);
  });

  it("stay known for the calls of a server that is gone, until the next one is ready", () => {
    const bench = ready();
    bench.answer({ tools: [{ name: "a", ...READS }] });
    bench.tools.onLost();
    bench.tools.onChanged();
    expect([bench.known("a"), bench.asked.length]).toEqual([[true], 1]);
    bench.tools.onReady();
    expect([bench.known("a"), bench.asked.length]).toEqual([[false], 2]);
  });

  it("are not asked of one that is gone", () => {
    const bench = ready();
    bench.tools.onChanged();
    bench.tools.onLost();
    bench.answer(undefined);
    expect(bench.asked).toHaveLength(1);
    bench.tools.onReady();
    bench.answer({ tools: [{ name: "a", ...READS }] });
    expect([bench.known("a"), bench.asked.length]).toEqual([[true], 2]);
  });

  it("are looked at up to a limit of pages and of tools, and none with a name beyond all measure", () => {
    const pages = ready();
    for (let page = 0; page < 200; page++) pages.answer({ tools: [{ name: `${page}`, ...READS }], nextCursor: "again" });
    expect([pages.asked.length, pages.known("0", "99", "100"), pages.log.messages.length]).toEqual([100, [true, true, false], 1]);
    const many = ready();
    many.answer({ tools: Array.from({ length: 20_000 }, (_, number) => ({ name: `${number}`, ...READS })), nextCursor: "2" });
    expect([many.asked.length, many.known("9999", "10000"), many.log.messages.length]).toEqual([1, [true, false], 1]);
    const long = ready();
    long.answer({ tools: [{ name: "x".repeat(1001), ...READS }] });
    expect(long.known("x".repeat(1001))).toEqual([false]);
  });
});
