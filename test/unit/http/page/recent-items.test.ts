import { describe, expect, it } from "vitest";
import { RecentItems } from "../../../../src/http/page/recent-items.ts";
import { RecentLog } from "../../../../src/http/page/recent-log.ts";

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
