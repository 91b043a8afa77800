import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/jsonrpc/message.ts";
import { createToolFilter, type ToolFilterSettings, visibleNames } from "../../../src/policy/tool-filter.ts";

const READS = { annotations: { readOnlyHint: true } };
const TOOLS: readonly JsonObject[] = [
  { name: "read_file", ...READS },
  { name: "read_secret", ...READS },
  { name: "search" },
  { name: "delete_file", annotations: { readOnlyHint: false, destructiveHint: true } },
];

function visible(settings: Partial<ToolFilterSettings>, tools: readonly unknown[] = TOOLS): string[] {
  const filter = createToolFilter({ allowTools: undefined, denyTools: undefined, readOnly: false, isPinned: undefined, ...settings });
  return [...visibleNames(tools as readonly JsonObject[], filter)];
}

describe("the tools that exist for clients", () => {
  it.each<[Partial<ToolFilterSettings>, string[]]>([
    [{}, ["read_file", "read_secret", "search", "delete_file"]],
    [{ allowTools: ["search"] }, ["search"]],
    [{ allowTools: ["read_*", "SEARCH"] }, ["read_file", "read_secret"]],
    [{ allowTools: [] }, []],
    [{ denyTools: ["*_file"] }, ["read_secret", "search"]],
    [{ denyTools: [] }, ["read_file", "read_secret", "search", "delete_file"]],
    [{ readOnly: true }, ["read_file", "read_secret"]],
    [{ readOnly: true, denyTools: ["*secret"] }, ["read_file"]],
    [{ isPinned: ({ name }) => name === "search" }, ["search"]],
    [{ isPinned: ({ name }) => name === "search", readOnly: true }, []],
  ])("are by %j: %j", (settings, expected) => {
    expect(visible(settings)).toEqual(expected);
  });

  it("are none that is denied, whatever is allowed", () => {
    expect(visible({ allowTools: ["read_secret", "search"], denyTools: ["read_*"] })).toEqual(["search"]);
  });

  it.each([{}, { allowTools: ["*"] }, { denyTools: ["x"] }, { isPinned: () => true }])(
    "have a name that is a string, by %j",
    (settings) => {
      const nameless = [{}, { name: 1 }, { name: null }, { name: ["a"] }, { name: "a" }];
      expect(visible(settings, nameless)).toEqual(["a"]);
    },
  );

  it.each([
    [{ readOnlyHint: true }, true],
    [{ readOnly: true }, true],
    [{ readOnlyHint: true, readOnly: true }, true],
    // By the protocol, destructiveHint means something only where readOnlyHint is false.
    [{ readOnlyHint: true, destructiveHint: true }, true],
    [{ readOnlyHint: true, readOnly: false }, false],
    [{ readOnlyHint: false, readOnly: true }, false],
    [{ readOnlyHint: "true" }, false],
    [{ readOnlyHint: 1 }, false],
    [{ destructiveHint: false }, false],
    [{}, false],
    [null, false],
    [[true], false],
  ])("are in read-only mode those with annotations like %j: %j", (annotations, expected) => {
    expect(visible({ readOnly: true }, [{ name: "x", annotations }])).toEqual(expected ? ["x"] : []);
  });

  it("are in read-only mode none without annotations, and none that has the mark elsewhere", () => {
    expect(
      visible({ readOnly: true }, [{ name: "x" }, { name: "y", readOnlyHint: true }, { name: "z", _meta: READS.annotations }]),
    ).toEqual([]);
  });

  it("are of several with one name all or none", () => {
    const [reads, writes] = [{ name: "x", ...READS }, { name: "x" }];
    expect(visible({ readOnly: true }, [reads, writes])).toEqual([]);
    expect(visible({ readOnly: true }, [writes, reads, { name: "y", ...READS }])).toEqual(["y"]);
    expect(visible({ readOnly: true }, [reads, reads])).toEqual(["x"]);
  });

  it("are not asked for where nothing is hidden", () => {
    expect(createToolFilter({ allowTools: undefined, denyTools: undefined, readOnly: false, isPinned: undefined })).toBeUndefined();
  });
});
