import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createToolLimits, findByName } from "../../../src/policy/tool-limits.ts";
import { PinnedDescriptor } from "../../../src/policy/drift.ts";
import { createToolFilter, matchesPattern, type ToolFilter } from "../../../src/policy/tools.ts";
import { namesOf } from "../../../src/server/tools.ts";
import type { Config } from "../../../src/config/load.ts";
import type { JsonObject } from "../../../src/mcp/message.ts";
import { Secrets } from "../../../src/observe/redact.ts";
import { configWith, contextOf } from "../../support/context.ts";
import { descriptorOf, reviewedTool } from "../../support/reviewed-tools.ts";

/** The obvious definition, at any cost. */
function matchesByDefinition([wanted, ...pattern]: readonly string[], name: readonly string[]): boolean {
  if (wanted === undefined) return name.length === 0;
  const [first, ...rest] = name;
  if (wanted === "*") return matchesByDefinition(pattern, name) || (first !== undefined && matchesByDefinition([wanted, ...pattern], rest));
  return first !== undefined && (wanted === "?" || wanted === first) && matchesByDefinition(pattern, rest);
}

describe("a pattern for names of tools", () => {
  it("a pattern matches by its definition", () => {
    const letters = fc.constantFrom("a", "b", "A", "😀", "\ud83d", "\ude00", ".", "\\", "[", "(", "|", "$");
    const pattern = fc.string({ unit: fc.oneof(letters, fc.constantFrom("*", "?")), maxLength: 8 });
    fc.assert(
      fc.property(pattern, fc.string({ unit: letters, maxLength: 12 }), (glob, text) => {
        expect(matchesPattern(Array.from(glob), Array.from(text))).toBe(matchesByDefinition(Array.from(glob), Array.from(text)));
      }),
      { numRuns: 2000 },
    );
  });

  it("many stars and a long name take linear time", () => {
    // In exponential time, it would not end.
    expect(matchesPattern(Array.from(`${"*a".repeat(50)}*b*`), Array.from("a".repeat(1_000_000)))).toBe(false);
  });

  it("the first matching pattern gives the value", () => {
    const numbers = ["export_all", "export_*", "export_b", "?"].map((pattern, value) => ({ pattern, value }));
    const values = ["export_all", "export_b", "x", "xy", "Export_b"].map((name) => findByName(numbers, name));
    expect(values).toEqual([0, 1, 3, undefined, undefined]);
  });
});

describe("the limits of tools", () => {
  it("the first matching name of each list gives the limits", () => {
    const limitsOf = createToolLimits(
      configWith({
        toolTimeoutsMs: [
          { pattern: "search", value: 5000 },
          { pattern: "export_*", value: 300_000 },
        ],
        toolConcurrency: [
          { pattern: "export_one", value: 1 },
          { pattern: "export_*", value: 2 },
        ],
      }),
    );
    const seen = ["search", "export_one", "export_two", "other"].map((toolName) => {
      const terms = limitsOf?.(toolName);
      return [terms?.timeoutMs, terms?.timeoutSetting, terms?.semaphore?.limit, terms?.semaphore?.describe()];
    });
    expect(seen).toEqual([
      [5000, "TOOL_TIMEOUTS_MS", undefined, undefined],
      [300_000, "TOOL_TIMEOUTS_MS", 1, "tool export_one has 1 in flight, 0 queued"],
      [300_000, "TOOL_TIMEOUTS_MS", 2, "tool export_two has 2 in flight, 0 queued"],
      [undefined, undefined, undefined, undefined],
    ]);
  });
});

const READS = { annotations: { readOnlyHint: true } };
const TOOLS = [{ name: "read_file", ...READS }, { name: "read_secret", ...READS }, { name: "search" }];

interface Visibility extends Partial<Config> {
  readonly isPinned?: ToolFilter;
}

function visible({ isPinned, ...settings }: Visibility, tools: readonly unknown[] = TOOLS): string[] {
  const filter = createToolFilter(configWith(settings), isPinned);
  return [...namesOf(tools as readonly JsonObject[], filter ?? (() => true))];
}

describe("visible tools", () => {
  it.each<[Visibility, string]>([
    [{}, "read_file read_secret search"],
    [{ allowTools: ["read_*", "SEARCH"] }, "read_file read_secret"],
    [{ allowTools: ["write_*", "search", "*_file"] }, "read_file search"],
    [{ allowTools: [] }, ""],
    [{ denyTools: ["*_file"] }, "read_secret search"],
    [{ denyTools: [] }, "read_file read_secret search"],
    [{ allowTools: ["read_secret", "search"], denyTools: ["read_*"] }, "search"],
    [{ readOnly: true, denyTools: ["*secret"] }, "read_file"],
    [{ isPinned: ({ name }) => name === "search" }, "search"],
    [{ isPinned: ({ name }) => name === "search", readOnly: true }, ""],
  ])("the settings %j leave the tools %j", (settings, expected) => {
    expect(visible(settings).join(" ")).toBe(expected);
  });

  it.each([{}, { allowTools: ["*"] }, { denyTools: ["x"] }, { isPinned: () => true }])(
    "a tool without a text as its name is hidden by %j",
    (settings) => {
      expect(visible(settings, [{}, { name: 1 }, { name: null }, { name: ["a"] }, { name: "a" }])).toEqual(["a"]);
    },
  );

  it("tools with one name are visible together or not at all", () => {
    const [reads, writes] = [{ name: "x", ...READS }, { name: "x" }];
    expect(visible({ readOnly: true }, [writes, reads, { name: "y", ...READS }])).toEqual(["y"]);
    expect(visible({ readOnly: true }, [reads, writes])).toEqual([]);
    expect(visible({ readOnly: true }, [reads, reads])).toEqual(["x"]);
  });
});

describe("the log of a pinned descriptor", () => {
  function pin(nowMs: () => number): { readonly pinned: PinnedDescriptor; readonly start: (tools: readonly JsonObject[]) => string[] } {
    const context = contextOf(
      { descriptor: "a.json", descriptorMode: "enforce" },
      { nowMs, secrets: new Secrets({ TOKEN: "s3cret-token" }) },
    );
    const { log } = context;
    const pinned = new PinnedDescriptor(context, descriptorOf([reviewedTool()]));
    const start = (tools: readonly JsonObject[]): string[] => {
      const before = log.lines.length;
      pinned.onTools(tools, { generation: 1 });
      return log.lines.slice(before).map((line) => JSON.stringify(line));
    };
    return { pinned, start };
  }

  it("log and status are limited, and mask secrets before they shorten names", () => {
    const { pinned, start } = pin(() => 0);
    const lines = start(
      Array.from({ length: 10_000 }, (_, index) => ({ name: `${"x".repeat(97)}s3cret-token${"y".repeat(5000)}${index}` })),
    );
    const { driftedTools, drift } = pinned.status as { driftedTools: number; drift: object[] };
    expect([lines.length, driftedTools, drift.length]).toEqual([21, 10_001, 100]);
    expect(`${lines.join("\n")}${JSON.stringify(drift)}`).not.toContain("s3c");
    expect(lines.join("\n").length).toBeLessThan(50_000);
  });

  it("ten changes in ten seconds are logged at most", () => {
    let nowMs = 0;
    const { start } = pin(() => nowMs);
    const changes = Array.from({ length: 50 }, (_, index) => start([{ ...reviewedTool({ description: `${index}` }) }]));
    expect(changes.filter((lines) => lines.length > 0)).toHaveLength(10);
    nowMs = 10_000;
    expect(start([{ ...reviewedTool({ description: "Other." }) }])).toHaveLength(1);
  });
});
