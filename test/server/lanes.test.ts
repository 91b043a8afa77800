import { describe, expect, it, vi } from "vitest";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";
import { LaneBench, listen, PrivateLaneBench } from "./support/lane-bench.ts";
import { IDLE_TIMEOUT_MS, LanesBench } from "./support/lanes-bench.ts";

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

  it("another protocol revision of a private server ends its session", () => {
    const bench = PrivateLaneBench.ready();
    bench.lose();
    const held = bench.request(bench.session, { method: "tools/call" });
    bench.start({}, "2025-06-18");
    expect([held.outcome, bench.ended]).toEqual(["SESSION_NOT_FOUND", [bench.session]]);
    expect(held.error?.message).toContain("no longer offers protocol revision 2025-11-25 (now 2025-06-18)");
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

const SAMPLING = { id: "s-1", method: "sampling/createMessage", params: { messages: [] } };
const LOG = { method: "notifications/message", params: { level: "info", data: "x" } };
const CHANGED = { method: "notifications/tools/list_changed" };

describe("a message of a private server", () => {
  it("a message does not go to a request that the server has not read", () => {
    const bench = PrivateLaneBench.ready();
    bench.upstream.isReading = false;
    const call = bench.request(bench.session, { method: "tools/call" });
    bench.say(LOG);
    expect([call.emitted, listen(bench.session).texts.length]).toEqual([[], 1]);
  });

  it("a message after the end of the session leaves nothing behind", () => {
    const bench = PrivateLaneBench.ready();
    bench.lane.endCaller(bench.session);
    bench.session.streams.close();
    for (const message of [SAMPLING, LOG, CHANGED]) bench.say(message);
    expect(bench.eventLog.bytes).toBe(0);
  });
});

describe("a message of a private client", () => {
  it("notifications/initialized is rejected while the server reads nothing, and not kept", () => {
    const bench = PrivateLaneBench.ready({ maxQueuedBytes: 200 }, { retry: "read-only", isInitialized: false });
    const text = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
    bench.upstream.isReading = false;
    for (let id = 0; id < 10; id++) bench.say({ id, method: "ping" });
    expect(bench.dropped.requests).toBeGreaterThan(0);
    expect([bench.notify(bench.session, text), bench.initialized]).toEqual(["OVERLOADED", []]);
    bench.lose();
    bench.upstream.isReading = true;
    bench.start({ tools: {} });
    expect(bench.heard()).toEqual([]);
    expect([bench.notify(bench.session, text), bench.initialized]).toEqual([undefined, [text]]);
    expect(bench.heard().map(({ method }) => method)).toEqual(["notifications/initialized", "tools/list"]);
  });

  it("notifications/initialized reaches the server while held requests fill MAX_QUEUED_BYTES", () => {
    const bench = PrivateLaneBench.ready({ maxInFlight: 1, maxQueuedBytes: 200 });
    for (const text of ["x", "x".repeat(300)]) bench.request(bench.session, { method: "tools/call", params: { text } });
    expect(bench.request(bench.session, { method: "tools/call" }).outcome).toBe("OVERLOADED");
    bench.heard();
    expect(bench.notify(bench.session, { method: "notifications/initialized" })).toBeUndefined();
    expect(bench.heard()).toEqual([{ method: "notifications/initialized" }]);
  });

  it("a request before notifications/initialized, which another replica may have got, is sent after one", () => {
    const bench = PrivateLaneBench.ready({}, { isInitialized: false });
    bench.request(bench.session, { method: "ping" });
    expect(bench.heard().map(({ method }) => method)).toEqual(["ping"]);
    for (const _ of [1, 2]) bench.request(bench.session, { method: "tools/list" });
    expect(bench.heard().map(({ method }) => method)).toEqual(["notifications/initialized", "tools/list", "tools/list"]);
    expect(bench.initialized).toHaveLength(1);
  });

  it("notifications/initialized is not sent before the server is ready", () => {
    const bench = PrivateLaneBench.ready();
    bench.lose();
    // The next generation is in its handshake.
    bench.spawn();
    bench.notify(bench.session, { method: "notifications/initialized" });
    bench.start();
    expect([bench.initialized.length, bench.heard()]).toEqual([1, []]);
  });
});
