import { describe, expect, it } from "vitest";
import { PROMISES, type Quote } from "../end-to-end/promises.ts";
import { readDocument } from "../support/markdown.ts";

describe("the promises of the documents", () => {
  it("each quote is in its document", () => {
    const quotes = Object.values<readonly Quote[]>(PROMISES).flat();
    const lost = quotes.filter(({ document, sentence }) => !readDocument(document).text.replace(/\s+/g, " ").includes(sentence));
    expect(lost).toEqual([]);
  });
});
