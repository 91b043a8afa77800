import { describe, expect, it, vi } from "vitest";
import { listen } from "./support/lane-bench.ts";
import { IDLE_TIMEOUT_MS, LanesBench } from "./support/lanes-bench.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";

useFakeClock(TIMERS);

describe("after a kill of all servers", () => {
  it("every initialize is rejected, and starts no server", () => {
    const bench = new LanesBench();
    bench.kill();
    for (const capabilities of [{ sampling: {} }, {}]) expect(bench.connect({ capabilities }).reply.outcome).toBe("SHUTTING_DOWN");
    expect(bench.servers).toEqual([]);
  });
});

describe("the end of a private server and its session", () => {
  it("an idle private server stops exactly SESSION_IDLE_TIMEOUT_MS after the last use", () => {
    const bench = new LanesBench();
    const { session, server } = bench.connected();
    vi.advanceTimersByTime(IDLE_TIMEOUT_MS - 1);
    bench.sessions.get(session.id, session.owner)?.touch(Date.now());
    vi.advanceTimersByTime(IDLE_TIMEOUT_MS - 1);
    expect(server.stopCount).toBe(0);
    vi.advanceTimersByTime(1);
    expect([server.stopCount, bench.sessions.size]).toEqual([1, 0]);
    expect(bench.log.lines).toEqual([{ level: "info", fields: { lane: "private-1", reason: "idle" }, message: "session ended" }]);
  });

  it("a private server with a listener or a request in flight is not idle", () => {
    const bench = new LanesBench({ maxPrivateServers: 3 });
    const [listened, busy, asking] = [bench.connected(), bench.connected(), bench.connected()];
    const stream = listened.session.streams.openStandalone();
    const [sink] = [listen(listened.session)];
    for (let time = 0; time < 3 * IDLE_TIMEOUT_MS; time += 500) {
      // Shorter than a request's time limit, so that there is always one in flight.
      busy.server.bench.request(busy.session, { method: "tools/call" });
      asking.server.bench.say({ id: time, method: "roots/list" });
      vi.advanceTimersByTime(500);
    }
    expect([listened, busy, asking].map(({ server }) => server.stopCount)).toEqual([0, 0, 1]);
    stream.end();
    listened.session.streams.endStandalone();
    expect(sink.isEnded).toBe(true);
    vi.advanceTimersByTime(3 * IDLE_TIMEOUT_MS);
    expect([listened, busy, asking].map(({ server }) => server.stopCount)).toEqual([1, 1, 1]);
  });
});

describe("a session beyond MAX_SESSIONS", () => {
  it("a held initialize is rejected if all sessions are in use when its server answers", async () => {
    const bench = new LanesBench({ maxSessions: 1 });
    const session = bench.connect({}).session();
    const client = bench.connect();
    if (session !== undefined) listen(session);
    bench.servers[0]?.bench.start();
    const outcome = [client.reply.outcome, client.session(), bench.servers[0]?.stopCount];
    expect([...outcome, session?.hasEnded]).toEqual(["TOO_MANY_SESSIONS", undefined, 1, false]);
    await bench.servers[0]?.end();
    expect(bench.pool.load.private.servers).toBe(0);
  });
});
