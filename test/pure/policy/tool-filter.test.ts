import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/protocol/message.ts";
import { createToolFilter, type ToolFilterSettings, visibleNames } from "../../../src/policy/tools/tool-filter.ts";

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

describe("visible tools", () => {
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
  ])("the settings %j leave the tools %j", (settings, expected) => {
    expect(visible(settings)).toEqual(expected);
  });

  it.each([{}, { allowTools: ["*"] }, { denyTools: ["x"] }, { isPinned: () => true }])(
    "a tool without a string as its name is hidden by %j",
    (settings) => {
      const nameless = [{}, { name: 1 }, { name: null }, { name: ["a"] }, { name: "a" }];
      expect(visible(settings, nameless)).toEqual(["a"]);
    },
  );

  it.each([
    [{ readOnlyHint: true }, true],
    [{ readOnly: true }, true],
    [{ readOnlyHint: true, readOnly: true }, true],
    // The specification gives destructiveHint a meaning only if readOnlyHint is false.
    [{ readOnlyHint: true, destructiveHint: true }, true],
    [{ readOnlyHint: true, readOnly: false }, false],
    [{ readOnlyHint: false, readOnly: true }, false],
    [{ readOnlyHint: "true" }, false],
    [{ readOnlyHint: 1 }, false],
    [{ destructiveHint: false }, false],
    [{}, false],
    [null, false],
    [[true], false],
  ])("the annotations %j show a tool in read-only mode: %j", (annotations, expected) => {
    expect(visible({ readOnly: true }, [{ name: "x", annotations }])).toEqual(expected ? ["x"] : []);
  });

  it("tools with one name are visible together or not at all", () => {
    const [reads, writes] = [{ name: "x", ...READS }, { name: "x" }];
    expect(visible({ readOnly: true }, [reads, writes])).toEqual([]);
    expect(visible({ readOnly: true }, [writes, reads, { name: "y", ...READS }])).toEqual(["y"]);
    expect(visible({ readOnly: true }, [reads, reads])).toEqual(["x"]);
  });
});
