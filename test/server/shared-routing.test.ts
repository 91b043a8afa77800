import { describe, expect, it } from "vitest";
import { LaneBench, listen } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

describe("a request of a shared server", () => {
  it("a refusal does not repeat a method of a megabyte", () => {
    const bench = LaneBench.ready();
    bench.say({ id: 5, method: "x".repeat(1_000_000) });
    expect(bench.upstream.takeRead()[0]?.length).toBeLessThan(300);
  });

  it("requests of a server that does not read are dropped and fill no memory", () => {
    const bench = LaneBench.ready();
    bench.upstream.isReading = false;
    for (let id = 0; id < 1000; id++) bench.say({ id, method: "roots/list" });
    expect(bench.upstream.queuedBytes).toBeLessThanOrEqual(10_000);
    expect(bench.dropped.requests).toBeGreaterThan(900);
  });
});

describe("a notification of a shared server without an owner", () => {
  it("progress without a waiting call is dropped and counted", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    const [stream, call] = [listen(session), bench.request(session, { method: "tools/call" })];
    const [asked] = bench.heard();
    for (const progressToken of [asked?.["id"], 99, "1", undefined]) {
      bench.say({ method: "notifications/progress", params: { progressToken, progress: 1 } });
    }
    expect([stream.texts, call.emitted, bench.dropped.notifications]).toEqual([[], [], 4]);
  });
});
