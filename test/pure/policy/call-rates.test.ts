import { expect, it } from "vitest";
import type { Config } from "../../../src/config/load.ts";
import { CallRates } from "../../../src/policy/tool-limits.ts";
import { contextOf } from "../../support/context.ts";

class Bench {
  nowMs = 0;
  readonly rates: CallRates;
  readonly sessions = [{}, {}] as const;

  constructor(settings: Partial<Config>) {
    this.rates = new CallRates(contextOf(settings, { nowMs: () => this.nowMs }));
  }

  /** @returns the seconds until a retry; undefined for a call that is allowed. */
  take(session: 0 | 1, toolName = "search"): number | undefined {
    return this.rates.take(this.sessions[session], toolName)?.details.retryAfterSeconds;
  }

  count(session: 0 | 1, toolName?: string): number {
    let count = 0;
    while (count < 1000 && this.take(session, toolName) === undefined) count++;
    return count;
  }
}

it("a call that one rate rejects takes nothing of the other", () => {
  const bench = new Bench({
    sessionCallsPerMinute: 3,
    toolCallsPerMinute: [
      { pattern: "export_a", value: 2 },
      { pattern: "export_*", value: 3 },
    ],
  });
  expect([bench.count(0, "export_a"), bench.take(0, "export_a"), bench.take(0), bench.take(0)]).toEqual([2, 30, undefined, 20]);
  expect([bench.take(0, "export_b"), bench.count(1, "export_b"), bench.take(1, "export_b")]).toEqual([20, 3, 20]);
});

it("a flood of names does not reset the rate of a tool", () => {
  const bench = new Bench({ toolCallsPerMinute: [{ pattern: "*", value: 1 }] });
  expect(bench.take(0, "search")).toBeUndefined();
  const made = Array.from({ length: 20_000 }, (_, number) => bench.take(1, `made-up-${number}`));
  expect(made.filter((wait) => wait === undefined)).toHaveLength(10_000);
  expect(bench.take(0, "search")).toBe(60);
  bench.nowMs = 60_000;
  expect([bench.take(1, "another"), bench.take(0, "search"), bench.take(1, "one-more")]).toEqual([undefined, undefined, undefined]);
});
