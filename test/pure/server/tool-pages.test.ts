import { describe, expect, it } from "vitest";
import { MAX_VALUE_BYTES } from "../../../src/json/value.ts";
import { MAX_LIST_BYTES, MAX_PAGE_BYTES, readToolPages, type ToolList, type ToolListRules } from "../../../src/server/tools.ts";

const LENIENT: ToolListRules = { maxPages: 20, maxPageBytes: MAX_PAGE_BYTES, maxValueBytes: MAX_VALUE_BYTES, isStrict: false };
const STRICT: ToolListRules = { ...LENIENT, isStrict: true };

interface Listed {
  /** The parameters of each request. */
  readonly asked: object[];
  readonly names: readonly unknown[] | undefined;
  readonly problem: string | undefined;
}

/** Reads the pages of a server. @param textOf returns the JSON text of the result for a page, counted from 1. */
function list(rules: ToolListRules, textOf: (page: number) => string): Listed {
  const pages = readToolPages(rules);
  const asked: object[] = [];
  let step: IteratorResult<object, ToolList> = pages.next();
  while (step.done !== true) {
    asked.push(step.value);
    step = pages.next(textOf(asked.length));
  }
  const { tools, problem } = step.value;
  return { asked, names: tools?.map(({ name }) => name), problem };
}

function listPages(rules: ToolListRules, ...pages: readonly unknown[]): Listed {
  return list(rules, (page) => JSON.stringify(pages[page - 1]));
}

describe("the pages of tools/list", () => {
  it.each(["", null])("the cursor %j ends the list", (nextCursor) => {
    expect(listPages(STRICT, { tools: [{ name: "a" }], nextCursor })).toEqual({ asked: [{}], names: ["a"], problem: undefined });
  });

  it("a repeated cursor is rejected if the rules are strict", () => {
    const { asked, names, problem } = list(STRICT, (page) => JSON.stringify({ tools: [{ name: page }], nextCursor: ["a", "b"][page % 2] }));
    expect([asked, names]).toEqual([[{}, { cursor: "b" }, { cursor: "a" }], undefined]);
    expect(problem).toBe("page 3 repeats an earlier cursor; the list would never end");
  });

  it.each([
    ["a tool that is not an object", { tools: [{ name: "a" }, "b"] }, "tool 2 of page 1 is not an object"],
    ["a cursor that is not a string", { tools: [{ name: "a" }], nextCursor: 5 }, "the nextCursor of page 1 is not a string"],
  ])("%s is rejected only if the rules are strict", (_what, page, problem) => {
    expect(listPages(STRICT, page)).toEqual({ asked: [{}], names: undefined, problem });
    expect(listPages(LENIENT, page)).toEqual({ asked: [{}], names: ["a"], problem: undefined });
  });

  it.each([null, [], "tools", {}, { tools: null }, { tools: {} }])("the result %j is not a page of tools", (page) => {
    expect(listPages(LENIENT, { tools: [{ name: "a" }], nextCursor: "2" }, page)).toMatchObject({
      names: undefined,
      problem: "page 2 has no list of tools",
    });
  });

  it("the last of repeated members counts, in escaped spelling too", () => {
    const text = String.raw`{"tools":[{"name":"a"}],"\u0074ools":[{"name":"b"}],"nextCursor":"2","nextCursor":""}`;
    expect(list(STRICT, () => text).names).toEqual(["b"]);
  });
});

describe("the limits of a list of tools", () => {
  it("at most 10,000 tools are listed, on one page or several", () => {
    const namedTools = (count: number): object[] => Array.from({ length: count }, (_, name) => ({ name }));
    const whole = listPages(LENIENT, { tools: namedTools(10_000), nextCursor: "2" }, { tools: [] });
    expect([whole.names?.length, whole.problem]).toEqual([10_000, undefined]);
    const one = listPages(LENIENT, { tools: namedTools(10_005), nextCursor: "2" });
    expect([one.names?.length, one.problem]).toEqual([10_000, "more than 10000 tools"]);
    const several = list(LENIENT, (page) => JSON.stringify({ tools: namedTools(3000), nextCursor: String(page) }));
    expect([several.asked.length, several.names?.length, several.problem]).toEqual([4, 10_000, "more than 10000 tools"]);
  });

  it("pages of more than 64 MiB of text in all are rejected", () => {
    const text = JSON.stringify({ tools: [{ name: "é".repeat(12 * 1024 * 1024) }], nextCursor: "2" });
    const { asked, problem } = list({ ...LENIENT, maxPageBytes: MAX_LIST_BYTES, maxValueBytes: Number.POSITIVE_INFINITY }, () => text);
    expect([asked.length, problem]).toEqual([3, "longer than 67108864 bytes in all"]);
  });

  it("a page of too many small values is rejected before a value is built", () => {
    // A parser would reject the comma before the bracket.
    const text = `{"tools":[{"name":"t","inputSchema":{"enum":[${"{},".repeat(700_000)}]}}]}`;
    expect(list(LENIENT, () => text)).toEqual({
      asked: [{}],
      names: undefined,
      problem: `too many values: they could take more than ${MAX_VALUE_BYTES} bytes of memory`,
    });
  });
});
