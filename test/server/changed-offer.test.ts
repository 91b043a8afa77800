import { describe, expect, it } from "vitest";
import { LaneBench, listen } from "./support/lane-bench.ts";
import { LanesBench } from "./support/lanes-bench.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";

useFakeClock(TIMERS);

const CHANGING = { tools: { listChanged: true }, prompts: { listChanged: false }, resources: { listChanged: true, subscribe: true } };
describe("the lists of a restarted server", () => {
  it("no list_changed is sent for the first server, nor to later sessions", () => {
    const bench = new LanesBench();
    bench.shared.lose();
    const [early, late] = [bench.connect({}), bench.connect({})];
    bench.shared.start(CHANGING);
    const sessions = [early, late].map((client) => client.session());
    const own = bench.connect();
    bench.servers[0]?.bench.lose();
    bench.servers[0]?.bench.start(CHANGING);
    sessions.push(own.session());
    for (const session of sessions) expect(session === undefined ? "none" : listen(session).texts).toEqual([]);
  });
});

describe("a session of a restarted server", () => {
  it("a queued request of an ended session fails with SESSION_NOT_FOUND and can be retried", () => {
    const bench = LaneBench.shared();
    bench.start({ prompts: {} });
    const session = bench.join();
    const sent = bench.request(session, { method: "prompts/list" });
    bench.lose();
    const held = bench.request(session, { method: "tools/call" });
    bench.heard();
    bench.start({});
    expect([held.outcome, held.error?.details]).toEqual(["SESSION_NOT_FOUND", { sent: false, retrySafe: true }]);
    expect(held.error?.message).toContain("no longer offers prompts. Call initialize again.");
    expect([sent.outcome, sent.error?.details, bench.heard()]).toEqual(["REQUEST_CANCELLED", { sent: true, retrySafe: true }, []]);
  });

  it("a request that waits while the server changes its era fails, and is not sent", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    bench.lose();
    const held = bench.request(session, { method: "tools/list" });
    bench.start({}, "2026-07-28", "modern");
    expect([held.outcome, held.error?.details.sent, bench.heard()]).toEqual(["UPSTREAM_NOT_READY", false, []]);
    expect(held.error?.message).toContain("speaks another revision of MCP than before");
  });
});
