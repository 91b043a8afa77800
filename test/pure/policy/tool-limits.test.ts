import { describe, expect, it } from "vitest";
import { createToolLimits } from "../../../src/policy/tool-limits.ts";

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

describe("the limits of tools", () => {
  it("no settings give no limits", () => {
    expect(createToolLimits({ toolTimeoutsMs: undefined, toolConcurrency: undefined })).toBeUndefined();
    expect(createToolLimits({ toolTimeoutsMs: [], toolConcurrency: [] })).toBeUndefined();
  });

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

  it("a tool has the same slots in one lane, and others in another", () => {
    const createTerms = createToolLimits(SETTINGS);
    const [one, other] = [createTerms?.(), createTerms?.()];
    const slots = one?.("export_a")?.semaphore;
    expect(slots).toBe(one?.("export_a")?.semaphore);
    expect([slots === one?.("export_b")?.semaphore, slots === other?.("export_a")?.semaphore]).toEqual([false, false]);
  });

  it("slots in use survive a flood of names", () => {
    const limitsOf = createToolLimits(SETTINGS)?.();
    const [taken, awaited] = [limitsOf?.("export_taken")?.semaphore, limitsOf?.("export_awaited")?.semaphore];
    taken?.acquire({});
    awaited?.waiting.join({}, () => [{}]);
    for (let number = 0; number < 30_000; number++) limitsOf?.(`export_${number}`);
    expect(limitsOf?.("export_taken")?.semaphore).toBe(taken);
    expect(limitsOf?.("export_awaited")?.semaphore).toBe(awaited);
  });
});
