import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { answerOfServer, listen } from "../support/lane-bench.ts";
import { IDLE_TIMEOUT_MS, LanesBench } from "../support/lanes-bench.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: 0, toFake: ["setTimeout", "clearTimeout", "Date"] });
});

afterEach(() => {
  vi.useRealTimers();
});

describe("the limit of private servers", () => {
  it("refuses one more, at no cost to those who share", () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    bench.connected();
    const refused = bench.connect();
    expect([refused.exchange.outcome, refused.exchange.error?.details.retryAfterSeconds]).toEqual(["TOO_MANY_SERVERS", 10]);
    expect([bench.connect({}).exchange.outcome, bench.servers.length]).toEqual([{}, 1]);
  });

  it("counts a server that is still starting", () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    bench.connect();
    expect(bench.connect().exchange.outcome).toBe("TOO_MANY_SERVERS");
  });

  it("counts a server that is still ending: it is a process as long as it lives", async () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    const { session, server } = bench.connected();
    bench.sessions.end(session);
    expect(bench.connect().exchange.outcome).toBe("TOO_MANY_SERVERS");
    await server.end();
    expect(bench.connect().exchange.outcome).toBeUndefined();
    expect([bench.servers.length, server.stopCount]).toEqual([2, 1]);
  });

  it("has room again after every way in which a server without a session can end", async () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    const refused = bench.connect();
    bench.servers.at(-1)?.lane.onRefused(answerOfServer('{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}'));
    await bench.servers.at(-1)?.end();
    const left = bench.connect();
    left.exchange.onDisconnect?.();
    await bench.servers.at(-1)?.end();
    const late = bench.connect();
    vi.advanceTimersByTime(1000);
    await bench.servers.at(-1)?.end();
    bench.connected();
    expect([refused, left, late].map(({ exchange }) => exchange.outcome)).toEqual([1, undefined, "UPSTREAM_NOT_READY"]);
    expect(bench.servers.map(({ stopCount }) => stopCount)).toEqual([1, 1, 1, 0]);
  });

  it("tells a client to come back when the first server may be idle for too long", () => {
    const bench = new LanesBench({ maxPrivateServers: 2 });
    bench.connected();
    vi.advanceTimersByTime(4000);
    bench.connected();
    vi.advanceTimersByTime(1000);
    expect(bench.connect().exchange.error?.details.retryAfterSeconds).toBe((IDLE_TIMEOUT_MS - 5000) / 1000);
  });
});

describe("a drain of all lanes", () => {
  it("refuses every initialize, and starts no server for it", async () => {
    const bench = new LanesBench();
    await bench.lanes.drain();
    const outcomes = [{ capabilities: { roots: {} } }, {}].map((params) => bench.connect(params).exchange.outcome);
    expect([outcomes, bench.servers]).toEqual([["SHUTTING_DOWN", "SHUTTING_DOWN"], []]);
  });

  it("ends GET streams, refuses new requests, and waits for those that run in any lane", async () => {
    const bench = new LanesBench();
    const { session, server } = bench.connected();
    const shared = bench.connect({}).session();
    if (shared === undefined) throw new Error("there is no session");
    const calls = [server.bench.request(session, { method: "tools/call" }), bench.shared.request(shared, { method: "tools/call" })];
    const streams = [listen(session), listen(shared)];
    let isDrained = false;
    const drained = bench.lanes.drain().then(() => (isDrained = true));
    expect(streams.map(({ isEnded }) => isEnded)).toEqual([true, true]);
    expect(server.bench.request(session, { method: "tools/call" }).outcome).toBe("SHUTTING_DOWN");
    server.bench.reply("tools/call");
    await new Promise((resolve) => process.nextTick(resolve));
    expect(isDrained).toBe(false);
    bench.shared.reply("tools/call");
    await drained;
    expect(calls.map(({ outcome }) => outcome)).toEqual([{}, {}]);
  });

  it("answers what still runs or waits when it is over, and leaves no timer behind", () => {
    const bench = new LanesBench();
    const { session, server } = bench.connected();
    const call = server.bench.request(session, { method: "tools/call" });
    const starting = bench.connect();
    bench.lanes.close();
    bench.eventLog.close();
    expect([call.outcome, starting.exchange.outcome, vi.getTimerCount()]).toEqual(["SHUTTING_DOWN", "UPSTREAM_NOT_READY", 0]);
  });

  it("stops every private server, and resolves when the last one has ended", async () => {
    const bench = new LanesBench();
    const [first, second] = [bench.connected(), bench.connected()];
    bench.sessions.end(first.session);
    let isStopped = false;
    const stopped = bench.lanes.stopPrivate().then(() => (isStopped = true));
    expect(second.server.stopCount).toBe(1);
    await second.server.end();
    expect(isStopped).toBe(false);
    await first.server.end();
    await stopped;
    expect(isStopped).toBe(true);
  });

  it("can be cut short: every private server is killed", () => {
    const bench = new LanesBench();
    const [first, second] = [bench.connected(), bench.connected()];
    bench.sessions.end(first.session);
    bench.lanes.kill();
    expect([first.server.killCount, second.server.killCount]).toEqual([1, 1]);
  });
});
