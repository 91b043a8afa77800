import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { findProofs } from "../../docs/promises.ts";
import { PROMISES, type Quote } from "../end-to-end/promises.ts";
import { readDocument, ROOT } from "../support/markdown.ts";

const names = Object.keys(PROMISES);

it("each promise has exactly one test", () => {
  expect(
    findProofs()
      .map(({ promise }) => promise)
      .toSorted(),
  ).toEqual(names.toSorted());
});

it("each end-to-end test names its promise", () => {
  const paths = globSync("test/end-to-end/*.test.ts", { cwd: ROOT });
  expect(paths.length).toBeGreaterThan(0);
  const unnamed = paths.filter((path) => {
    const [, imported = ""] = /import \{([^}]*)\} from "vitest"/.exec(readFileSync(join(ROOT, path), "utf8")) ?? [];
    return /\b(?:it|test)\b/.test(imported);
  });
  expect(unnamed).toEqual([]);
});

it("each promise of SECURITY.md has a test", () => {
  const [, promises = ""] = /^## Promises\n(.*?)^## Not promised\n/ms.exec(readDocument("SECURITY.md").text) ?? [];
  const rows = promises.split("\n").filter((line) => line.startsWith("- "));
  const quotes = Object.values<readonly Quote[]>(PROMISES)
    .flat()
    .filter(({ document }) => document === "SECURITY.md");
  expect(rows.length).toBeGreaterThan(0);
  expect(rows.filter((row) => !quotes.some(({ sentence }) => row.includes(sentence)))).toEqual([]);
});

it("each quote is in its document", () => {
  const quotes = Object.values<readonly Quote[]>(PROMISES).flat();
  const lost = quotes.filter(({ document, sentence }) => !readDocument(document).text.replace(/\s+/g, " ").includes(sentence));
  expect(lost).toEqual([]);
});
