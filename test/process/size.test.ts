import { expect, it } from "vitest";
import { countRequests, excesses } from "../../bench/size.ts";

it("requests go through no more files and functions than size-budget.json allows", async () => {
  expect(excesses(await countRequests())).toEqual([]);
});
