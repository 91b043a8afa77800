import { expect, it } from "vitest";
import { countFiles, excesses } from "../../bench/size.ts";

it("program, documents and tests are within the limits of size-budget.json", () => {
  expect(excesses(countFiles())).toEqual([]);
});
