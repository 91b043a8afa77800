import { describe, expect, it, vi } from "vitest";
import { LanesBench } from "./support/lanes-bench.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";

useFakeClock(TIMERS);

describe("the limit of sessions a minute", () => {
  it("a rejected session is told when the next may come, and is accepted then", () => {
    const bench = new LanesBench({ sessionsPerMinute: 2 });
    bench.connect({});
    vi.advanceTimersByTime(4500);
    bench.connect({});
    const refused = bench.connect({});
    expect([refused.exchange.outcome, refused.exchange.error?.details]).toEqual([
      "RATE_LIMITED",
      { sent: false, retrySafe: true, retryAfterSeconds: 26 },
    ]);
    expect(refused.session()).toBeUndefined();
    vi.advanceTimersByTime(25_499);
    expect(bench.connect({}).exchange.error?.details.retryAfterSeconds).toBe(1);
    vi.advanceTimersByTime(1);
    expect(bench.connect({}).session()).toBeDefined();
    expect(bench.shared.counters.toJSON()).toMatchObject({ requests: { refused: { RATE_LIMITED: 2 } } });
  });

  it("the limit covers all lanes and is checked before a server is started", () => {
    const bench = new LanesBench({ sessionsPerMinute: 1 });
    bench.connected();
    expect(bench.connect({}).exchange.outcome).toBe("RATE_LIMITED");
    expect(bench.connect().exchange.outcome).toBe("RATE_LIMITED");
    expect(bench.servers).toHaveLength(1);
  });
});
