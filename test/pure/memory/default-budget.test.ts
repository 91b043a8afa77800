import { describe, expect, it } from "vitest";
import { defaultBudgetBytes } from "../../../src/memory/default-budget.ts";

const MIB = 1024 * 1024;

describe("the default of the memory budget", () => {
  it.each([
    ["a container of 64 MiB", 64, 32, 2],
    ["a container of 128 MiB", 128, 64, 18],
    ["a container of 512 MiB", 512, 256, 114],
    ["a container of 512 MiB with a small heap", 512, 100, 50],
    ["a large machine", 64_000, 4000, 256],
    ["a container that is too small", 32, 16, 2],
  ])("%s gets its share", (_name, memoryMib, heapMib, budgetMib) => {
    expect(defaultBudgetBytes(memoryMib * MIB, heapMib * MIB)).toBe(budgetMib * MIB);
  });
});
