import { describe, expect, it, vi } from "vitest";
import { listen } from "./support/lane-bench.ts";
import { IDLE_TIMEOUT_MS, LanesBench } from "./support/lanes-bench.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";

useFakeClock(TIMERS);

describe("the limit of private servers", () => {
  it("a starting server counts, and may be unused 5 s after its start", () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    bench.connect();
    const { exchange } = bench.connect();
    expect([exchange.outcome, exchange.error?.details.retryAfterSeconds]).toEqual(["TOO_MANY_SERVERS", 5]);
  });

  it("a rejected client is told to wait for the idle timeout of a server in use", () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    listen(bench.connected().session);
    vi.advanceTimersByTime(5.5 * IDLE_TIMEOUT_MS);
    expect(bench.connect().exchange.error?.details.retryAfterSeconds).toBe(IDLE_TIMEOUT_MS / 1000);
  });

  it("a rejected client is told when the first server may become idle", () => {
    const bench = new LanesBench({ maxPrivateServers: 2 });
    for (let count = 0; count < 2; count++) {
      const { session, server } = bench.connected();
      server.bench.request(session, { method: "tools/call" });
      server.bench.reply("tools/call");
      if (count === 0) vi.advanceTimersByTime(4000);
    }
    vi.advanceTimersByTime(1000);
    expect(bench.connect().exchange.error?.details.retryAfterSeconds).toBe((IDLE_TIMEOUT_MS - 5000) / 1000);
  });
});
