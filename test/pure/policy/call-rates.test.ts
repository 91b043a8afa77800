import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CallRates, type CallRatesSettings } from "../../../src/policy/call-rates.ts";

/** Rates with a clock that the test sets, and two sessions. */
class Bench {
  nowMs = 0;
  readonly rates: CallRates;
  readonly sessions = [{}, {}] as const;

  constructor(settings: Partial<CallRatesSettings>) {
    this.rates = new CallRates({ sessionCallsPerMinute: undefined, toolCallsPerMinute: undefined, ...settings, nowMs: () => this.nowMs });
  }

  /** @returns the seconds until a retry; undefined for a call that is allowed. */
  take(session: 0 | 1, toolName: unknown = "search"): number | undefined {
    return this.rates.take(this.sessions[session], toolName)?.details.retryAfterSeconds;
  }

  count(session: 0 | 1, toolName?: unknown): number {
    let count = 0;
    while (count < 1000 && this.take(session, toolName) === undefined) count++;
    return count;
  }
}

describe("tool calls a minute", () => {
  it("a session has its rate over all tools, and a rejected call its retry time", () => {
    const bench = new Bench({ sessionCallsPerMinute: 3 });
    expect([bench.take(0, "a"), bench.take(0, "b"), bench.take(0, 7)]).toEqual([undefined, undefined, undefined]);
    const error = bench.rates.take(bench.sessions[0], "c");
    expect(error?.code).toBe("RATE_LIMITED");
    expect(error?.message).toBe(
      "Rate limit reached: 3 per minute for tool calls of this client. The call was not sent; it is safe to retry in 20 s.",
    );
    expect(error?.details).toEqual({ sent: false, retrySafe: true, retryAfterSeconds: 20 });
    expect(bench.count(1)).toBe(3);
  });

  it("a tool has its rate over all sessions", () => {
    const bench = new Bench({
      toolCallsPerMinute: [
        { pattern: "export_a", value: 2 },
        { pattern: "export_*", value: 3 },
      ],
    });
    expect([bench.count(0, "export_b"), bench.take(1, "export_b")]).toEqual([3, 20]);
    expect([bench.count(0, "export_c"), bench.count(1, "export_a")]).toEqual([3, 2]);
    expect(Array.from({ length: 100 }, () => bench.take(0, "search"))).not.toContain(20);
    expect(bench.rates.take(bench.sessions[0], "export_a")?.message).toBe(
      "Rate limit reached: 2 per minute for tool export_a in all sessions. The call was not sent; it is safe to retry in 30 s.",
    );
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
});

/** The calls per minute of each session; and the time, session and tool of each call, in order. */
const settings = fc.record({ ofSession: fc.integer({ min: 1, max: 6 }), ofTool: fc.integer({ min: 1, max: 6 }) });
const calls = fc.array(
  fc.record({ gapMs: fc.nat({ max: 20_000 }), session: fc.constantFrom(0 as const, 1 as const), tool: fc.constantFrom("a", "b") }),
  { maxLength: 60, size: "max" },
);

describe("the rates of sessions and tools together", () => {
  it("a call is rejected exactly if a bucket is empty, and then takes nothing", () => {
    fc.assert(
      fc.property(settings, calls, ({ ofSession, ofTool }, sequence) => {
        const bench = new Bench({ sessionCallsPerMinute: ofSession, toolCallsPerMinute: [{ pattern: "*", value: ofTool }] });
        const levels = new Map<unknown, { tokens: number; atMs: number }>();
        const level = (key: unknown, perMinute: number): { tokens: number; atMs: number } => {
          const { tokens, atMs } = levels.get(key) ?? { tokens: perMinute, atMs: bench.nowMs };
          const now = { tokens: Math.min(perMinute, tokens + ((bench.nowMs - atMs) * perMinute) / 60_000), atMs: bench.nowMs };
          levels.set(key, now);
          return now;
        };
        for (const { gapMs, session, tool } of sequence) {
          bench.nowMs += gapMs;
          const buckets = [
            { level: level(session, ofSession), perMinute: ofSession },
            { level: level(tool, ofTool), perMinute: ofTool },
          ];
          const waitsMs = buckets.map(({ level: { tokens }, perMinute }) => ((1 - tokens) * 60_000) / perMinute);
          const waitMs = Math.max(...waitsMs);
          const seen = bench.take(session, tool);
          expect(seen).toBe(waitMs > 1e-3 ? Math.ceil((waitMs - 1e-3) / 1000) : undefined);
          if (seen === undefined) for (const bucket of buckets) bucket.level.tokens--;
        }
      }),
    );
  });
});
