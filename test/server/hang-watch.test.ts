import { describe, expect, it, vi } from "vitest";
import { LaneBench, PrivateLaneBench } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

const REQUEST_TIMEOUT_MS = 1000;
const PING_INTERVAL_MS = 300;
const CALL = { method: "tools/call", params: { name: "x" } };

useFakeClock();

function timeOut(bench: LaneBench, session = bench.join()): void {
  const call = bench.request(session, CALL);
  vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
  expect(call.outcome).toBe("REQUEST_TIMEOUT");
}

function restarts(bench: LaneBench): number {
  return bench.upstream.restartReasons.length;
}

function restartsAfterPing(bench: LaneBench): number {
  vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
  return restarts(bench);
}

function pings(bench: LaneBench): unknown[] {
  return bench
    .heard()
    .filter(({ method }) => method === "ping")
    .map(({ id }) => id);
}

const NOTIFICATION = { method: "notifications/message", params: { level: "info", data: "busy" } };

describe("an unresponsive server", () => {
  it("a silent server is pinged after HUNG_TIMEOUTS timeouts in a row, and restarted once if it stays silent", () => {
    const bench = LaneBench.ready({ hungTimeouts: 3 });
    timeOut(bench);
    timeOut(bench);
    expect(pings(bench)).toEqual([]);
    timeOut(bench);
    expect(pings(bench)).toHaveLength(1);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS - 1);
    expect(restarts(bench)).toBe(0);
    vi.advanceTimersByTime(1);
    const reason = "hung: no output while tools/call timed out, the last of 3 timeouts in a row, nor for 1 s after ping";
    expect(bench.upstream.restartReasons).toEqual([reason]);
    for (let times = 0; times < 3; times++) timeOut(bench);
    expect(restartsAfterPing(bench)).toBe(1);
  });

  it.each([
    ["a result of the ping", (id: unknown) => ({ id, result: {} })],
    ["an error of the ping", (id: unknown) => ({ id, error: { code: -32601, message: "no ping here" } })],
    ["an answer to another request", () => ({ id: 99, result: {} })],
    ["a notification", () => NOTIFICATION],
    ["a request of its own", () => ({ id: 1, method: "ping" })],
  ])("timeouts never restart a server that writes %s within the time of the ping", (_what, answer) => {
    const bench = LaneBench.ready({ hungTimeouts: 2 });
    for (let times = 0; times < 5; times++) {
      timeOut(bench);
      timeOut(bench);
      const [id, ...others] = pings(bench);
      expect([typeof id, others]).toEqual(["number", []]);
      vi.advanceTimersByTime(REQUEST_TIMEOUT_MS - 1);
      bench.say(answer(id));
      expect(restartsAfterPing(bench)).toBe(0);
    }
  });

  it("the count of timeouts begins again after a restart", () => {
    const bench = LaneBench.ready({ hungTimeouts: 2 });
    timeOut(bench);
    bench.lose();
    bench.start();
    timeOut(bench);
    expect(pings(bench)).toEqual([]);
    timeOut(bench);
    expect(restartsAfterPing(bench)).toBe(1);
    bench.lose();
    bench.start();
    timeOut(bench);
    timeOut(bench);
    expect(restartsAfterPing(bench)).toBe(2);
  });

  it("a timeout does not count if its request precedes the timeout counted last", () => {
    const bench = LaneBench.ready({ hungTimeouts: 2 });
    const session = bench.join();
    for (let offsetMs = 0; offsetMs < 5; offsetMs++) {
      bench.request(session, CALL);
      bench.request(session, CALL);
      vi.advanceTimersByTime(100);
    }
    vi.advanceTimersByTime(2 * REQUEST_TIMEOUT_MS);
    expect(pings(bench)).toEqual([]);
    timeOut(bench, session);
    expect(pings(bench)).toHaveLength(1);
  });

  it("a timeout does not count if its request precedes the server's last message", () => {
    const bench = LaneBench.ready({ hungTimeouts: 1 });
    const session = bench.join();
    bench.request(session, CALL);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS - 1);
    bench.say(NOTIFICATION);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
    expect(pings(bench)).toEqual([]);
  });

  it("a request that was held for the handshake counts if the server hangs after it", () => {
    const bench = LaneBench.shared({ hungTimeouts: 1 });
    const held = bench.request(bench.join(), CALL);
    vi.advanceTimersByTime(100);
    bench.start();
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS - 100);
    expect([held.outcome, pings(bench).length]).toEqual(["REQUEST_TIMEOUT", 1]);
  });

  it("a timeout does not count if the request was never sent", () => {
    const bench = LaneBench.ready({ hungTimeouts: 1, holdTimeoutMs: 2 * REQUEST_TIMEOUT_MS });
    const session = bench.join();
    bench.lose();
    const held = bench.request(session, CALL);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
    expect(held.outcome).toBe("REQUEST_TIMEOUT");
    expect(restartsAfterPing(bench)).toBe(0);
  });

  it("a server is not restarted while it reads what comes before the ping", () => {
    const bench = LaneBench.ready({ hungTimeouts: 1 });
    bench.upstream.isReading = false;
    timeOut(bench);
    for (let times = 0; times < 5; times++) {
      bench.upstream.inputs++;
      expect(restartsAfterPing(bench)).toBe(0);
    }
    expect(restartsAfterPing(bench)).toBe(1);
  });

  it.each([
    ["less", 500],
    ["more", 5000],
  ])("a server that never frees its only slot is restarted, with HOLD_TIMEOUT_MS %s than REQUEST_TIMEOUT_MS", (_what, holdTimeoutMs) => {
    const bench = LaneBench.ready({ hungTimeouts: 3, maxInFlight: 1, holdTimeoutMs });
    const session = bench.join();
    for (let elapsedMs = 0; elapsedMs < 10 * REQUEST_TIMEOUT_MS; elapsedMs += 100) {
      bench.request(session, CALL);
      vi.advanceTimersByTime(100);
    }
    expect(restarts(bench)).toBe(1);
  });

  it("a server that waits for its client is not restarted", () => {
    const bench = PrivateLaneBench.ready({ hungTimeouts: 1, pingIntervalMs: PING_INTERVAL_MS });
    const call = bench.request(bench.session, CALL);
    bench.say({ id: 1, method: "elicitation/create", params: {} });
    vi.advanceTimersByTime(5 * REQUEST_TIMEOUT_MS);
    expect(call.isFinished).toBe(false);
    vi.advanceTimersByTime(5 * REQUEST_TIMEOUT_MS - 1);
    expect(restarts(bench)).toBe(0);
  });

  it("short timeouts do not shorten the time of the ping", () => {
    const bench = LaneBench.ready({ hungTimeouts: 3 });
    const session = bench.join();
    for (let times = 0; times < 3; times++) {
      bench.request(session, CALL, true, Date.now(), { timeoutMs: 10 });
      vi.advanceTimersByTime(10);
    }
    expect(pings(bench)).toHaveLength(1);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS - 1);
    expect(restarts(bench)).toBe(0);
    vi.advanceTimersByTime(1);
    expect(restarts(bench)).toBe(1);
  });

  it("a pinged server may be silent for as long as its longest call in flight", () => {
    const bench = LaneBench.ready({ hungTimeouts: 2 });
    const session = bench.join();
    bench.request(session, CALL, true, Date.now(), { timeoutMs: 10 * REQUEST_TIMEOUT_MS });
    for (let times = 0; times < 11; times++) timeOut(bench, session);
    expect(restarts(bench)).toBe(0);
    timeOut(bench, session);
    expect(restarts(bench)).toBe(1);
  });
});

describe("an idle server", () => {
  it("a server with a client's request in flight is not pinged", () => {
    const bench = LaneBench.ready({ hungTimeouts: 5, pingIntervalMs: PING_INTERVAL_MS, requestTimeoutMs: 10 * PING_INTERVAL_MS + 1 });
    bench.request(bench.join(), CALL);
    vi.advanceTimersByTime(9 * PING_INTERVAL_MS);
    expect(pings(bench)).toEqual([]);
    vi.advanceTimersByTime(2 * PING_INTERVAL_MS);
    expect(pings(bench)).toHaveLength(1);
  });

  it("a server that misses HUNG_TIMEOUTS pings in a row is restarted", () => {
    const bench = LaneBench.ready({ hungTimeouts: 3, pingIntervalMs: PING_INTERVAL_MS });
    vi.advanceTimersByTime(2 * PING_INTERVAL_MS + 3 * PING_INTERVAL_MS);
    expect(pings(bench)).toHaveLength(4);
    expect([restarts(bench), restartsAfterPing(bench)]).toEqual([0, 1]);
    const reason = "hung: no output while ping timed out, the last of 3 timeouts in a row, nor for 1 s after ping";
    expect(bench.upstream.restartReasons).toEqual([reason]);
  });
});
