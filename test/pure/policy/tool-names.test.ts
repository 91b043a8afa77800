import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createToolLimits } from "../../../src/policy/tool-limits.ts";
import { createNameMatcher, findByName } from "../../../src/policy/tools/tool-names.ts";

function matches(pattern: string, name: string): boolean {
  return createNameMatcher([pattern])(name);
}

/** The obvious definition, at any cost. */
function matchesByDefinition([wanted, ...pattern]: readonly string[], name: readonly string[]): boolean {
  if (wanted === undefined) return name.length === 0;
  const [first, ...rest] = name;
  if (wanted === "*") return matchesByDefinition(pattern, name) || (first !== undefined && matchesByDefinition([wanted, ...pattern], rest));
  return first !== undefined && (wanted === "?" || wanted === first) && matchesByDefinition(pattern, rest);
}

/** A name that counts how often one of its code points is read. */
class CountedName extends String {
  reads = 0;

  override codePointAt(index: number): number | undefined {
    this.reads++;
    return super.codePointAt(index);
  }
}

function readsOf(pattern: string, text: string): number {
  const name = new CountedName(text);
  // Passed as a name, since only methods of any string are called on it.
  createNameMatcher([pattern])(name as unknown as string);
  return name.reads;
}

describe("a pattern for names of tools", () => {
  it.each([
    ["search", "search", true],
    ["search", "Search", false],
    ["search", "search_all", false],
    ["search", "research", false],
    ["read_*", "read_file", true],
    ["read_*", "read_", true],
    ["read_*", "read", false],
    ["*_file", "read_file", true],
    ["*_file", "read_file_", false],
    ["*file*", "a_file_b", true],
    ["a*b*c", "a-b-b-c", true],
    ["a*b*c", "a-c-b", false],
    ["?", "a", true],
    ["?", "", false],
    ["?", "ab", false],
    ["?", "😀", true],
    ["??", "😀", false],
    ["*😀", "a😀😀", true],
    ["*?", "", false],
    ["*", "", true],
    ["*", "anything at all", true],
    ["**", "", true],
    ["", "", true],
    ["", "a", false],
    ["a.c", "abc", false],
    ["[ab]", "a", false],
    ["(a|b)+$", "(a|b)+$", true],
    ["\\*", "\\x", true],
    ["\\*", "*", false],
    ["constructor", "__proto__", false],
  ])("the pattern %j matches the name %j: %j", (pattern, name, expected) => {
    expect(matches(pattern, name)).toBe(expected);
  });

  it("a lone surrogate is one code point, and a pair is never cut", () => {
    expect([matches("?", "\ud83d"), matches("*\ude00", "😀"), matches("\ud83d*", "😀")]).toEqual([true, false, false]);
  });

  it("a pattern matches by its definition", () => {
    const letters = fc.constantFrom("a", "b", "A", "😀", "\ud83d", "\ude00", ".");
    const pattern = fc.string({ unit: fc.oneof(letters, fc.constantFrom("*", "?")), maxLength: 8 });
    const name = fc.string({ unit: letters, maxLength: 12 });
    fc.assert(
      fc.property(pattern, name, (glob, text) => {
        expect(matches(glob, text)).toBe(matchesByDefinition(Array.from(glob), Array.from(text)));
      }),
      { numRuns: 2000 },
    );
  });

  it("each code point is read a few times at most, however many stars there are", () => {
    const length = 1_000_000;
    const longest = "a".repeat(length);
    expect(readsOf("*a*a*a*b", longest)).toBeLessThanOrEqual(2 * length + 10);
    expect(readsOf(`${"*a".repeat(50)}*b*`, longest)).toBeLessThanOrEqual(2 * length + 200);
    expect(readsOf("read_*", longest)).toBe(1);
  });
});

describe("several patterns", () => {
  it("several patterns match the names that any of them matches", () => {
    const isNamed = createNameMatcher(["read_*", "search", "*_all"]);
    expect(["read_x", "search", "get_all", "write", ""].map(isNamed)).toEqual([true, true, true, false, false]);
    expect(createNameMatcher([])("x")).toBe(false);
    expect(createNameMatcher(["a", "b"])("b")).toBe(true);
  });

  it("the first matching pattern gives the value", () => {
    const find = findByName([
      { pattern: "export_all", value: 1 },
      { pattern: "export_*", value: 2 },
      { pattern: "export_b", value: 3 },
      { pattern: "?", value: 0 },
    ]);
    expect(["export_all", "export_b", "x", "xy", "Export_b"].map(find)).toEqual([1, 2, 0, undefined, undefined]);
  });
});

describe("the limits of tools", () => {
  const SETTINGS = {
    toolTimeoutsMs: [
      { pattern: "search", value: 5000 },
      { pattern: "export_*", value: 300_000 },
    ],
    toolConcurrency: [
      { pattern: "export_one", value: 1 },
      { pattern: "export_*", value: 2 },
      { pattern: "browser_?", value: 3 },
    ],
  };

  it("the first matching name of each list gives the limits", () => {
    const limitsOf = createToolLimits(SETTINGS)?.();
    const seen = ["search", "export_one", "export_two", "browser_1", "browser_12", "other"].map((toolName) => {
      const terms = limitsOf?.(toolName);
      expect(terms?.timeoutSetting).toBe(terms?.timeoutMs === undefined ? undefined : "TOOL_TIMEOUTS_MS");
      return [toolName, terms?.timeoutMs, terms?.semaphore?.limit, terms?.semaphore?.toolName];
    });
    expect(seen).toEqual([
      ["search", 5000, undefined, undefined],
      ["export_one", 300_000, 1, "export_one"],
      ["export_two", 300_000, 2, "export_two"],
      ["browser_1", undefined, 3, "browser_1"],
      ["browser_12", undefined, undefined, undefined],
      ["other", undefined, undefined, undefined],
    ]);
    expect(limitsOf?.("other")).toBeUndefined();
  });
});
