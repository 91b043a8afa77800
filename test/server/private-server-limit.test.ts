import { describe, expect, it, vi } from "vitest";
import { answerOfServer, listen } from "./support/lane-bench.ts";
import { IDLE_TIMEOUT_MS, LanesBench } from "./support/lanes-bench.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";

useFakeClock(TIMERS);

describe("the limit of private servers", () => {
  it("one private server too many is rejected, and shared clients are served", () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    const { session, server } = bench.connected();
    server.bench.request(session, { method: "tools/call" });
    server.bench.reply("tools/call");
    const refused = bench.connect();
    expect([refused.exchange.outcome, refused.exchange.error?.details.retryAfterSeconds]).toEqual(["TOO_MANY_SERVERS", 10]);
    expect([bench.connect({}).exchange.outcome, bench.servers.length]).toEqual([{}, 1]);
  });

  it("a starting server counts, and may be unused 5 s after its start", () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    bench.connect();
    const { exchange } = bench.connect();
    expect([exchange.outcome, exchange.error?.details.retryAfterSeconds]).toEqual(["TOO_MANY_SERVERS", 5]);
  });

  it("a stopping server counts until its process is gone", async () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    const { session, server } = bench.connected();
    bench.sessions.end(session);
    const next = bench.connect();
    expect([next.exchange.outcome, bench.servers[1]?.isStarted]).toEqual([undefined, false]);
    expect(bench.connect().exchange.outcome).toBe("TOO_MANY_SERVERS");
    await server.end();
    expect(bench.servers.map(({ isStarted, stopCount }) => [isStarted, stopCount])).toEqual([
      [true, 1],
      [true, 0],
    ]);
  });

  it("a server that ends without a session makes room again", async () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    const refused = bench.connect();
    bench.servers.at(-1)?.lane.onRefused(answerOfServer('{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}'));
    await bench.servers.at(-1)?.end();
    const left = bench.connect();
    left.exchange.disconnect();
    await bench.servers.at(-1)?.end();
    const late = bench.connect();
    vi.advanceTimersByTime(1000);
    await bench.servers.at(-1)?.end();
    bench.connected();
    expect([refused, left, late].map(({ exchange }) => exchange.outcome)).toEqual([1, undefined, "UPSTREAM_NOT_READY"]);
    expect(bench.servers.map(({ stopCount }) => stopCount)).toEqual([1, 1, 1, 0]);
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

describe("a drain of all lanes", () => {
  it("a draining sidecar rejects every initialize and starts no server", async () => {
    const bench = new LanesBench();
    await bench.lanes.drain();
    const outcomes = [{ capabilities: { roots: {} } }, {}].map((params) => bench.connect(params).exchange.outcome);
    expect([outcomes, bench.servers]).toEqual([["SHUTTING_DOWN", "SHUTTING_DOWN"], []]);
  });

  it("a drain ends GET streams, rejects requests and waits for those in flight", async () => {
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

  it("closing the lanes fails the remaining requests and leaves no timer", () => {
    const bench = new LanesBench();
    const { session, server } = bench.connected();
    const call = server.bench.request(session, { method: "tools/call" });
    const starting = bench.connect();
    void bench.lanes.stop();
    bench.eventLog.close();
    expect([call.outcome, starting.exchange.outcome, vi.getTimerCount()]).toEqual(["SHUTTING_DOWN", "UPSTREAM_NOT_READY", 0]);
  });

  it("stopping resolves once the last private server has exited", async () => {
    const bench = new LanesBench();
    const [first, second] = [bench.connected(), bench.connected()];
    bench.sessions.end(first.session);
    let isStopped = false;
    const stopped = bench.lanes.stop().then(() => (isStopped = true));
    expect(second.server.stopCount).toBe(1);
    await second.server.end();
    expect(isStopped).toBe(false);
    await first.server.end();
    await stopped;
    expect(isStopped).toBe(true);
  });

  it.each<[string, (bench: LanesBench) => void]>([
    ["stop", ({ lanes }) => void lanes.stop()],
    ["kill", ({ lanes }) => lanes.kill()],
  ])("every initialize is rejected after a %s, and starts no server", (_how, end) => {
    const bench = new LanesBench();
    end(bench);
    const outcomes = [{ capabilities: { roots: {} } }, {}].map((params) => bench.connect(params).exchange.outcome);
    expect([outcomes, bench.servers]).toEqual([["SHUTTING_DOWN", "SHUTTING_DOWN"], []]);
  });

  it("a kill reaches every private server", () => {
    const bench = new LanesBench();
    const [first, second] = [bench.connected(), bench.connected()];
    bench.sessions.end(first.session);
    bench.lanes.kill();
    expect([first.server.killCount, second.server.killCount]).toEqual([1, 1]);
  });
});
