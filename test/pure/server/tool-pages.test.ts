import { describe, expect, it } from "vitest";
import { MAX_VALUE_BYTES } from "../../../src/json/value.ts";
import { type JsonObject, readMessage, type RequestMessage } from "../../../src/mcp/message.ts";
import { KnownParams } from "../../../src/server/known-params.ts";
import { readToolPages, type ToolList } from "../../../src/server/tools.ts";
import { contextOf } from "../../support/context.ts";

interface Listed {
  readonly asked: object[];
  readonly names: readonly unknown[] | undefined;
  readonly problem: string | undefined;
}

/** Reads the pages of a server. @param textOf returns the JSON text of the result for a page, counted from 1. */
function list(textOf: (page: number) => string): Listed {
  const pages = readToolPages();
  const asked: object[] = [];
  let step: IteratorResult<object, ToolList> = pages.next();
  while (step.done !== true) {
    asked.push(step.value);
    step = pages.next(textOf(asked.length));
  }
  const { tools, problem } = step.value;
  return { asked, names: tools?.map(({ name }) => name), problem };
}

function listPages(...pages: readonly unknown[]): Listed {
  return list((page) => JSON.stringify(pages[page - 1]));
}

describe("the pages of tools/list", () => {
  it.each(["", null])("the cursor %j ends the list", (nextCursor) => {
    expect(listPages({ tools: [{ name: "a" }], nextCursor })).toEqual({ asked: [{}], names: ["a"], problem: undefined });
  });

  it.each([
    ["a tool that is not an object", { tools: ["b", { name: "a" }] }, "tool 1 of page 1 is not an object"],
    ["a cursor that is not a string", { tools: [{ name: "a" }], nextCursor: 5 }, "the nextCursor of page 1 is not a string"],
  ])("%s is a problem, and the other tools are listed", (_what, page, problem) => {
    expect(listPages(page)).toEqual({ asked: [{}], names: ["a"], problem });
  });

  it("a repeated cursor ends the list", () => {
    const { asked, names, problem } = list((page) => JSON.stringify({ tools: [{ name: page }], nextCursor: ["a", "b"][page % 2] }));
    expect([asked, names]).toEqual([
      [{}, { cursor: "b" }, { cursor: "a" }],
      [1, 2, 3],
    ]);
    expect(problem).toBe("page 3 repeats an earlier cursor; the list would never end");
  });

  it.each([null, [], "tools", {}, { tools: null }, { tools: {} }])("the result %j is not a page of tools", (page) => {
    expect(listPages({ tools: [{ name: "a" }], nextCursor: "2" }, page)).toMatchObject({
      names: undefined,
      problem: "page 2 has no list of tools",
    });
  });

  it("the last of repeated members counts, in escaped spelling too", () => {
    const text = String.raw`{"tools":[{"name":"a"}],"\u0074ools":[{"name":"b"}],"nextCursor":"2","nextCursor":""}`;
    expect(list(() => text).names).toEqual(["b"]);
  });
});

describe("the limits of a list of tools", () => {
  it("at most 10,000 tools are listed, on one page or several", () => {
    const namedTools = (count: number): object[] => Array.from({ length: count }, (_, name) => ({ name }));
    const whole = listPages({ tools: namedTools(10_000), nextCursor: "2" }, { tools: [] });
    expect([whole.names?.length, whole.problem]).toEqual([10_000, undefined]);
    const one = listPages({ tools: namedTools(10_005), nextCursor: "2" });
    expect([one.names?.length, one.problem]).toEqual([10_000, "more than 10000 tools"]);
    const several = list((page) => JSON.stringify({ tools: namedTools(3000), nextCursor: String(page) }));
    expect([several.asked.length, several.names?.length, several.problem]).toEqual([4, 10_000, "more than 10000 tools"]);
  });

  it("a page of too many small values is rejected before a value is built", () => {
    // A parser would reject the comma before the bracket.
    const text = `{"tools":[{"name":"t","inputSchema":{"enum":[${"{},".repeat(700_000)}]}}]}`;
    expect(list(() => text)).toEqual({
      asked: [{}],
      names: undefined,
      problem: `too many values: they could take more than ${MAX_VALUE_BYTES} bytes of memory`,
    });
  });
});

type Tools = readonly JsonObject[] | undefined;

const CALL = readMessage(
  '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"region":"eu"}}}',
) as RequestMessage;
const TOOLS: Tools = [{ name: "t", inputSchema: { properties: { region: { type: "string", "x-mcp-header": "Region" } } } }];
const RIGHT = { "mcp-param-region": "eu" };
const WRONG = { "mcp-param-region": "us" };

/** Returns the parameters of a server whose listings end when the test says so, and a clock. */
function setUp() {
  const listings: ((tools: Tools) => void)[] = [];
  const clock = { nowMs: 0 };
  const listTools = (): Promise<ToolList> => new Promise((resolve) => listings.push((tools) => resolve({ tools, problem: undefined })));
  const params = new KnownParams(contextOf({}, { nowMs: () => clock.nowMs }), { version: 0, list: listTools });
  return { listings, clock, params };
}

async function listed(tools: Tools) {
  const parts = setUp();
  const checked = parts.params.check(CALL, RIGHT);
  parts.listings.shift()?.(tools);
  await checked;
  return parts;
}

it("wrong calls ask for a listing once in a second, and in ten times as long as it takes", async () => {
  const { listings, clock, params } = await listed(TOOLS);
  clock.nowMs = 999;
  expect([params.check(CALL, WRONG), listings]).toEqual([expect.objectContaining({ code: "HEADER_MISMATCH" }), []]);
  clock.nowMs = 1000;
  const wrong = params.check(CALL, WRONG);
  clock.nowMs = 3000;
  listings.shift()?.(TOOLS);
  await wrong;
  clock.nowMs = 22_999;
  expect(params.check(CALL, WRONG)).toMatchObject({ code: "HEADER_MISMATCH" });
  clock.nowMs = 23_000;
  expect(params.check(CALL, WRONG)).toBeInstanceOf(Promise);
});
