import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/protocol/message.ts";
import { createToolFilter, type ToolFilterSettings, visibleNames } from "../../../src/policy/tools/tool-filter.ts";
import type { DescriptorMode } from "../../../src/policy/check-mode.ts";
import type { DescriptorTool } from "../../../src/descriptor/descriptor.ts";
import { PinnedDescriptor } from "../../../src/policy/tools/pinned-descriptor.ts";
import { RecordedLog } from "../../support/recorded-log.ts";
import { descriptorOf, reviewedTool } from "../../support/reviewed-tools.ts";

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

const SEARCH = reviewedTool();
const ASK = reviewedTool({ name: "ask" });
const OTHER_ASK: JsonObject = { ...ASK, description: "Sends." };
const SECRET = "s3cret-0123456789";

class Bench {
  readonly log = new RecordedLog();
  readonly pinned: PinnedDescriptor;
  nowMs = 0;

  constructor(tools: readonly DescriptorTool[] = [SEARCH, ASK], mode: DescriptorMode = "enforce") {
    const redact = (text: string): string => text.replaceAll(SECRET, "***");
    const descriptor = descriptorOf(tools);
    this.pinned = new PinnedDescriptor({ descriptor, file: "a.json", mode, log: this.log, redact, nowMs: () => this.nowMs });
  }

  /** Starts the shared server, or the private one of that name, with these tools. @returns the log entries. */
  start(tools: readonly object[], lane?: string): string[] {
    const before = this.log.lines.length;
    this.pinned.onTools(tools as readonly JsonObject[], { generation: 1, ...(lane === undefined ? {} : { lane }) });
    return this.log.lines.slice(before).map(({ level, fields, message }) => {
      const { tool, reason, count, lane: where = "shared" } = fields;
      const what = [tool, reason, count].filter((part) => part !== undefined);
      return [level, String(where), message, ...what.map(String)].join(" | ");
    });
  }
}

describe("a pinned descriptor", () => {
  it("a tool that changes again is logged again, and no other", () => {
    const bench = new Bench();
    bench.start([{ ...SEARCH, description: "Other." }, OTHER_ASK]);
    expect(bench.start([{ ...SEARCH, description: "Another." }, OTHER_ASK])).toEqual([
      "warn | shared | tool differs from the descriptor | search | description",
    ]);
  });

  it("log and status are limited, and mask secrets before they shorten names", () => {
    const bench = new Bench([]);
    const names = Array.from({ length: 10_000 }, (_, index) => `${"x".repeat(120)}${SECRET}${"y".repeat(5000)}${index}`);
    const lines = bench.start(names.map((name) => ({ name })));
    expect(lines).toHaveLength(21);
    expect(lines.at(-1)).toBe("warn | shared | more tools differ from the descriptor | 9980");
    const { driftedTools, drift } = bench.pinned.status as { driftedTools: number; drift: object[] };
    expect([driftedTools, drift.length]).toEqual([10_000, 100]);
    const shown = `${lines.join("\n")}${JSON.stringify(drift)}`;
    expect(shown).not.toContain("s3cret");
    expect(shown.length).toBeLessThan(100_000);
  });

  it("ten changes in ten seconds are logged at most", () => {
    const bench = new Bench();
    const changes = Array.from({ length: 50 }, (_, index) => bench.start([SEARCH, { ...ASK, description: `${index}` }]));
    expect(changes.filter((lines) => lines.length > 0)).toHaveLength(10);
    bench.nowMs = 10_000;
    expect(bench.start([SEARCH, OTHER_ASK])).toHaveLength(1);
  });
});
