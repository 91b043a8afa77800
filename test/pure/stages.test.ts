import { globSync } from "node:fs";
import { expect, it } from "vitest";
import config from "../../vitest.config.ts";
import { ROOT } from "../support/markdown.ts";

interface Stage {
  readonly test: { readonly name: string; readonly include: string[] };
}

it("each stage of the tests has files", () => {
  const stages = (config.test?.projects ?? []) as Stage[];
  expect(stages.length).toBeGreaterThan(5);
  const empty = stages.filter(({ test }) => globSync(test.include, { cwd: ROOT, exclude: ["**/node_modules/**"] }).length === 0);
  expect(empty).toEqual([]);
});
