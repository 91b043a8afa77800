import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Session } from "../../../src/mux/session.ts";
import { LaneBench, PrivateLaneBench } from "../support/lane-bench.ts";

/** As the limits of the bench are. */
const REQUEST_TIMEOUT_MS = 1000;
const PING_INTERVAL_MS = 300;
const CALL = { method: "tools/call", params: { name: "x" } };

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
});

afterEach(() => {
  vi.useRealTimers();
});

/** A shared lane whose server is ready. */
function ready(limits: Parameters<typeof LaneBench.shared>[0]): LaneBench {
  const bench = LaneBench.shared(limits);
  bench.start();
  return bench;
}

/** A call whose time runs out. */
function timeOut(bench: LaneBench, session = bench.join()): void {
  const call = bench.request(session, CALL);
  vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
  expect(call.outcome).toBe("REQUEST_TIMEOUT");
}

function restarts(bench: LaneBench): number {
  return bench.upstream.restartReasons.length;
}

describe("a server that says nothing", () => {
  it("is started again after so many timeouts in a row, once, with the reason", () => {
    const bench = ready({ hungTimeouts: 3 });
    timeOut(bench);
    timeOut(bench);
    expect(restarts(bench)).toBe(0);
    timeOut(bench);
    const reason = "hung: it said nothing while tools/call ran out of time, the last of 3 in a row";
    expect(bench.upstream.restartReasons).toEqual([reason]);
    for (let times = 0; times < 3; times++) timeOut(bench);
    expect(restarts(bench)).toBe(1);
  });

  it("is started again after a single one, where that is wanted", () => {
    const bench = ready({ hungTimeouts: 1 });
    timeOut(bench);
    expect(bench.upstream.restartReasons).toEqual(["hung: it said nothing while tools/call ran out of time"]);
  });

  it("is watched anew after its restart", () => {
    const bench = ready({ hungTimeouts: 2 });
    timeOut(bench);
    bench.lose();
    bench.start();
    timeOut(bench);
    expect(restarts(bench)).toBe(0);
    timeOut(bench);
    expect(restarts(bench)).toBe(1);
    bench.lose();
    bench.start();
    timeOut(bench);
    timeOut(bench);
    expect(restarts(bench)).toBe(2);
  });

  it("is not hung by timeouts of requests that were made before the one that was counted last", () => {
    const bench = ready({ hungTimeouts: 2 });
    const session = bench.join();
    for (let offsetMs = 0; offsetMs < 5; offsetMs++) {
      bench.request(session, CALL);
      bench.request(session, CALL);
      vi.advanceTimersByTime(100);
    }
    vi.advanceTimersByTime(2 * REQUEST_TIMEOUT_MS);
    expect(restarts(bench)).toBe(0);
    timeOut(bench, session);
    expect(restarts(bench)).toBe(1);
  });

  it.each([
    ["an answer to another request", { id: 99, result: {} }],
    ["an error", { id: 99, error: { code: 1, message: "no" } }],
    ["a notification", { method: "notifications/message", params: { level: "info", data: "busy" } }],
    ["a request of its own", { id: 1, method: "ping" }],
  ])("is not hung once it has said something: %s", (_what, message) => {
    const bench = ready({ hungTimeouts: 2 });
    timeOut(bench);
    bench.say(message);
    timeOut(bench);
    expect(restarts(bench)).toBe(0);
  });

  it("is not hung once it has sent a line that is too long", () => {
    const bench = ready({ hungTimeouts: 2 });
    timeOut(bench);
    bench.lane.onOverlongLine({ bytes: 2000, idText: "99", hasMethod: false });
    timeOut(bench);
    expect(restarts(bench)).toBe(0);
  });

  it("is not hung by the timeout of a request that was made before it spoke", () => {
    const bench = ready({ hungTimeouts: 1 });
    const session = bench.join();
    bench.request(session, CALL);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS - 1);
    bench.say({ method: "notifications/message", params: { level: "info", data: "busy" } });
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
    expect(restarts(bench)).toBe(0);
  });

  it("is not hung by requests whose clients took most of the time themselves", () => {
    const bench = ready({ hungTimeouts: 1 });
    const session = bench.join();
    const late = bench.request(session, CALL, true, -600);
    const tooLate = bench.request(session, CALL, true, -REQUEST_TIMEOUT_MS);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
    expect([late.outcome, tooLate.outcome]).toEqual(["REQUEST_TIMEOUT", "REQUEST_TIMEOUT"]);
    expect(restarts(bench)).toBe(0);
    bench.request(session, CALL, true, Date.now() - 400);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
    expect(restarts(bench)).toBe(1);
  });

  it("is not hung by requests that it was never sent", () => {
    const bench = ready({ hungTimeouts: 1, holdTimeoutMs: 2 * REQUEST_TIMEOUT_MS });
    const session = bench.join();
    bench.lose();
    const held = bench.request(session, CALL);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
    expect(held.outcome).toBe("REQUEST_TIMEOUT");
    expect(restarts(bench)).toBe(0);
  });

  it("is hung as well where it does not even read", () => {
    const bench = ready({ hungTimeouts: 2 });
    bench.upstream.isReading = false;
    timeOut(bench);
    timeOut(bench);
    expect(restarts(bench)).toBe(1);
  });

  it.each([
    ["less", 500],
    ["more", 5000],
  ])("is hung as well where requests always wait for its only slot, for %s than their time", (_what, holdTimeoutMs) => {
    const bench = ready({ hungTimeouts: 3, maxInFlight: 1, holdTimeoutMs });
    const session = bench.join();
    for (let elapsedMs = 0; elapsedMs < 10 * REQUEST_TIMEOUT_MS; elapsedMs += 100) {
      bench.request(session, CALL);
      vi.advanceTimersByTime(100);
    }
    expect(restarts(bench)).toBe(1);
  });

  it("is not hung while it waits for its client", () => {
    const bench = new PrivateLaneBench({ hungTimeouts: 1, pingIntervalMs: PING_INTERVAL_MS });
    bench.start();
    const call = bench.request(bench.session, CALL);
    bench.say({ id: 1, method: "elicitation/create", params: {} });
    vi.advanceTimersByTime(5 * REQUEST_TIMEOUT_MS);
    expect(call.isFinished).toBe(false);
    vi.advanceTimersByTime(5 * REQUEST_TIMEOUT_MS - 1);
    expect(restarts(bench)).toBe(0);
  });

  it("is not pinged unless that is wanted", () => {
    const bench = ready({ hungTimeouts: 1 });
    vi.advanceTimersByTime(100 * REQUEST_TIMEOUT_MS);
    expect([bench.heard(), restarts(bench)]).toEqual([[], 0]);
  });
});

describe("a server that says nothing to calls with a time of their own", () => {
  /** A call that runs out after so long. */
  function timeOutAfter(bench: LaneBench, session: Session, timeoutMs: number): void {
    const call = bench.request(session, CALL, true, Date.now(), { timeoutMs });
    vi.advanceTimersByTime(timeoutMs);
    expect(call.outcome).toBe("REQUEST_TIMEOUT");
  }

  it("is not hung by many short ones, as long as it was not silent for REQUEST_TIMEOUT_MS", () => {
    const bench = ready({ hungTimeouts: 1 });
    const session = bench.join();
    for (let times = 0; times < 9; times++) timeOutAfter(bench, session, 100);
    expect(restarts(bench)).toBe(0);
    bench.say({ method: "notifications/message", params: { level: "info", data: "busy" } });
    for (let times = 0; times < 9; times++) timeOutAfter(bench, session, 100);
    expect(restarts(bench)).toBe(0);
    timeOutAfter(bench, session, 100);
    expect(restarts(bench)).toBe(1);
  });

  it("is hung once short ones have run out for HUNG_TIMEOUTS times as long", () => {
    const bench = ready({ hungTimeouts: 3 });
    const session = bench.join();
    for (let times = 0; times < 29; times++) timeOutAfter(bench, session, 100);
    expect(restarts(bench)).toBe(0);
    timeOutAfter(bench, session, 100);
    expect(restarts(bench)).toBe(1);
  });

  it("counts no silence in which it had nothing to do", () => {
    const bench = ready({ hungTimeouts: 1 });
    vi.advanceTimersByTime(10 * REQUEST_TIMEOUT_MS);
    timeOutAfter(bench, bench.join(), 100);
    expect(restarts(bench)).toBe(0);
  });

  it("may be silent while it has one that may take long, but not for longer", () => {
    const bench = ready({ hungTimeouts: 2 });
    const session = bench.join();
    bench.request(session, CALL, true, Date.now(), { timeoutMs: 10 * REQUEST_TIMEOUT_MS });
    for (let times = 0; times < 9; times++) timeOut(bench, session);
    expect(restarts(bench)).toBe(0);
    timeOut(bench, session);
    expect(restarts(bench)).toBe(0);
    timeOut(bench, session);
    expect(restarts(bench)).toBe(1);
  });

  it("is hung where one after another of those runs out", () => {
    const bench = ready({ hungTimeouts: 2 });
    const session = bench.join();
    for (let times = 0; times < 4; times++) {
      bench.request(session, CALL, true, Date.now(), { timeoutMs: 3 * REQUEST_TIMEOUT_MS });
      vi.advanceTimersByTime(2 * REQUEST_TIMEOUT_MS);
    }
    expect(restarts(bench)).toBe(1);
  });
});

describe("an idle server", () => {
  /** The ids of the pings since this was last asked. */
  function pings(bench: LaneBench): unknown[] {
    return bench
      .heard()
      .filter(({ method }) => method === "ping")
      .map(({ id }) => id);
  }

  it.each([
    ["a result", { result: {} }],
    ["an error", { error: { code: -32601, message: "no ping here" } }],
  ])("is sent a ping at every interval, and %s is an answer", (_what, answer) => {
    const bench = ready({ hungTimeouts: 1, pingIntervalMs: PING_INTERVAL_MS });
    // The handshake counts as a word.
    vi.advanceTimersByTime(2 * PING_INTERVAL_MS);
    for (let times = 0; times < 5; times++) {
      const [id, ...others] = pings(bench);
      expect([typeof id, others]).toEqual(["number", []]);
      bench.say({ id, ...answer });
      // The answer is a word, too: the next interval needs no ping.
      vi.advanceTimersByTime(2 * PING_INTERVAL_MS);
    }
    expect(restarts(bench)).toBe(0);
  });

  it("is not pinged while it talks", () => {
    const bench = ready({ hungTimeouts: 1, pingIntervalMs: PING_INTERVAL_MS });
    for (let times = 0; times < 10; times++) {
      bench.say({ method: "notifications/message", params: { level: "info", data: "busy" } });
      vi.advanceTimersByTime(PING_INTERVAL_MS);
    }
    expect(pings(bench)).toEqual([]);
  });

  it("is not pinged while a client's request is in flight", () => {
    const bench = ready({ hungTimeouts: 5, pingIntervalMs: PING_INTERVAL_MS, requestTimeoutMs: 10 * PING_INTERVAL_MS });
    bench.request(bench.join(), CALL);
    vi.advanceTimersByTime(9 * PING_INTERVAL_MS);
    expect(pings(bench)).toEqual([]);
    vi.advanceTimersByTime(2 * PING_INTERVAL_MS);
    expect(pings(bench)).toHaveLength(1);
  });

  it("is started again where it does not answer so many pings in a row", () => {
    const bench = ready({ hungTimeouts: 3, pingIntervalMs: PING_INTERVAL_MS });
    vi.advanceTimersByTime(2 * PING_INTERVAL_MS + 3 * PING_INTERVAL_MS - 1);
    expect(restarts(bench)).toBe(0);
    vi.advanceTimersByTime(1);
    expect(bench.upstream.restartReasons).toEqual(["hung: it said nothing while ping ran out of time, the last of 3 in a row"]);
  });

  it("is started again after a mixture of pings and requests", () => {
    const bench = ready({ hungTimeouts: 3, pingIntervalMs: 10 * REQUEST_TIMEOUT_MS });
    const session = bench.join();
    vi.advanceTimersByTime(20 * REQUEST_TIMEOUT_MS);
    timeOut(bench, session);
    vi.advanceTimersByTime(9 * REQUEST_TIMEOUT_MS);
    expect(restarts(bench)).toBe(0);
    timeOut(bench, session);
    expect(restarts(bench)).toBe(1);
  });

  it("is not pinged while there is none, and again once there is one", () => {
    const bench = ready({ hungTimeouts: 1, pingIntervalMs: PING_INTERVAL_MS });
    bench.lose();
    vi.advanceTimersByTime(10 * PING_INTERVAL_MS);
    expect(restarts(bench)).toBe(0);
    bench.start();
    expect(pings(bench)).toEqual([]);
    vi.advanceTimersByTime(3 * PING_INTERVAL_MS);
    expect(pings(bench)).toHaveLength(1);
    expect(restarts(bench)).toBe(1);
  });

  it("is left alone once its lane is closed", () => {
    const bench = ready({ hungTimeouts: 1, pingIntervalMs: PING_INTERVAL_MS });
    bench.lane.close();
    vi.advanceTimersByTime(10 * PING_INTERVAL_MS);
    expect([pings(bench), restarts(bench), vi.getTimerCount()]).toEqual([[], 0, 0]);
  });
});
