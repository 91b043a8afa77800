import { describe, expect, it } from "vitest";
import { LastText } from "../../../src/era/last-text.ts";

/** Counts how often texts are read. */
function setUp() {
  const reads: string[] = [];
  const last = new LastText((text) => {
    reads.push(text);
    return { text };
  });
  const valueOf = (part: string, before = ""): string =>
    last.valueAt(`${before}${part} after`, { start: before.length, end: before.length + part.length }).text;
  return { reads, valueOf };
}

describe("the last text", () => {
  it("the same text is read once, wherever it is", () => {
    const { reads, valueOf } = setUp();
    expect([valueOf("a"), valueOf("a", "before "), valueOf("a")]).toEqual(["a", "a", "a"]);
    expect(reads).toEqual(["a"]);
  });

  it("another text of the same length, or one that begins with it, is read", () => {
    const { valueOf } = setUp();
    expect(["ab", "ac", "a", "abc", "ab"].map((part) => valueOf(part))).toEqual(["ab", "ac", "a", "abc", "ab"]);
  });

  it("a long text is not kept", () => {
    const { reads, valueOf } = setUp();
    const long = "x".repeat(2000);
    valueOf(long);
    valueOf(long);
    expect(reads).toHaveLength(2);
  });
});
