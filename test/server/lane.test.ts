import { describe, expect, it, vi } from "vitest";
import { LaneBench, listen, requestOfClient } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

const REQUEST_TIMEOUT_MS = 1000;
const HOLD_TIMEOUT_MS = 500;

useFakeClock();

const CALL = { method: "tools/call", params: { name: "x" } };

describe("a request", () => {
  it("an unread request goes to the next server and may wait anew", () => {
    const bench = LaneBench.ready();
    bench.upstream.isReading = false;
    const session = bench.join();
    const call = bench.request(session, CALL);
    bench.notify(session, { method: "notifications/custom" });
    vi.advanceTimersByTime(HOLD_TIMEOUT_MS - 1);
    bench.lose();
    vi.advanceTimersByTime(HOLD_TIMEOUT_MS - 1);
    expect(call.isFinished).toBe(false);
    bench.upstream.isReading = true;
    bench.start();
    bench.notify(session, { method: "notifications/later" });
    expect(bench.heard().map(({ method }) => method)).toEqual(["tools/call", "notifications/custom", "notifications/later"]);
  });
});

describe("a request that is late or queued", () => {
  it("a request that was given up is forgotten once a thousand later ones were", () => {
    const bench = LaneBench.ready({ maxInFlight: 2000, maxSessionRequests: 2000, maxQueuedBytes: 1_000_000 });
    const session = bench.join();
    for (let count = 0; count < 1001; count++) bench.request(session, CALL).disconnect();
    const [first, second] = bench.heard().filter(({ method }) => method === "tools/call");
    for (const each of [first, second]) bench.say({ id: each?.["id"], result: {} });
    expect(bench.dropped).toMatchObject({ lateAnswers: 1, unknownAnswers: 1 });
  });

  it("the ids of two servers begin at different numbers, so no answer can be forged", () => {
    const first = Array.from({ length: 20 }, () => {
      const bench = LaneBench.ready();
      bench.request(bench.join(), CALL);
      return Number(bench.heard()[0]?.["id"]);
    });
    expect(new Set(first).size).toBeGreaterThan(15);
    for (const id of first) expect(Number.isInteger(id) && id >= 1 && id <= 2 ** 30).toBe(true);
  });
});

describe("the time of a request", () => {
  it("its response begins after STREAM_AFTER_MS, however often the server gets it again meanwhile", () => {
    const bench = LaneBench.ready({ streamAfterMs: 200 });
    const reply = bench.request(bench.join(), { method: "x/repeated" });
    for (let times = 0; times < 3; times++) {
      for (const call of bench.lane.calls.ofClients) {
        vi.advanceTimersByTime(60);
        bench.lane.calls.suspend(call, false);
        vi.advanceTimersByTime(50);
        bench.lane.calls.repeat(call, requestOfClient({ id: 1, method: "x/repeated" }));
      }
    }
    expect(reply.keepAliveCount).toBe(1);
  });

  it("a defect when it is over fails the request, and leaves no timer", () => {
    const bench = LaneBench.ready({ requestTimeoutMs: 100 });
    const reply = bench.request(bench.join(), { method: "x/late" });
    bench.lane.calls.onTimeout = () => {
      throw new Error("a defect");
    };
    vi.advanceTimersByTime(100);
    expect([reply.outcome, bench.lane.calls.values().length, vi.getTimerCount()]).toEqual(["INTERNAL_ERROR", 0, 0]);
  });
});

describe("a client's cancellation", () => {
  it("a cancellation is sent without its long reason to a server with a full queue", () => {
    const bench = LaneBench.ready({ maxQueuedBytes: 300 });
    const session = bench.join();
    const call = bench.request(session, CALL);
    bench.heard();
    bench.upstream.isReading = false;
    bench.notify(session, { method: "notifications/custom", params: { text: "x".repeat(100) } });
    const before = bench.upstream.queuedBytes;
    bench.notify(session, { method: "notifications/cancelled", params: { requestId: 1, reason: "x".repeat(10_000) } });
    expect(call.outcome).toBe("dismissed");
    expect(bench.upstream.queuedBytes - before).toBeLessThan(200);
  });

  it("a queued message counts in UTF-8 bytes towards MAX_QUEUED_BYTES", () => {
    const bench = LaneBench.shared({ maxQueuedBytes: 600 });
    const session = bench.join();
    const request = { method: "x/waiting", params: { text: "€".repeat(100) } };
    const first = bench.request(session, request);
    const { queuedBytes } = bench.lane.calls.load;
    const second = bench.request(session, request);
    expect([first.outcome, second.outcome]).toEqual([undefined, "OVERLOADED"]);
    bench.start();
    const read = bench.upstream.takeRead().find((text) => text.includes("€")) ?? "";
    expect(queuedBytes).toBe(Buffer.byteLength(read));
    expect(bench.lane.calls.load.queuedBytes).toBe(0);
  });

  it("a cancellation withdraws an unread request, and the server hears nothing", () => {
    const bench = LaneBench.ready();
    bench.upstream.isReading = false;
    const session = bench.join();
    const call = bench.request(session, CALL);
    bench.notify(session, { method: "notifications/cancelled", params: { requestId: 1 } });
    expect([call.outcome, bench.upstream.queuedBytes]).toEqual(["dismissed", 0]);
  });
});

describe("a request that settles without being sent", () => {
  it("a rejected request leaves no log level and no subscription behind", () => {
    const bench = LaneBench.ready({ maxHeldRequests: 1 });
    const session = bench.join();
    bench.lose();
    bench.request(session, CALL);
    const refused = [
      bench.request(session, { method: "logging/setLevel", params: { level: "info" } }),
      bench.request(session, { method: "resources/subscribe", params: { uri: "x:1" } }),
    ];
    expect(refused.map(({ outcome }) => outcome)).toEqual(["UPSTREAM_NOT_READY", "UPSTREAM_NOT_READY"]);
    bench.start();
    expect(bench.heard().map(({ method }) => method)).toEqual(["tools/call"]);
    bench.say({ method: "notifications/message", params: { level: "error" } });
    bench.say({ method: "notifications/resources/updated", params: { uri: "x:1" } });
    expect([listen(session).texts, bench.dropped.notifications]).toEqual([[], 2]);
  });
});

describe("a request of the sidecar itself", () => {
  it("a failed request of the sidecar is logged and reaches no session", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    for (const [session, level] of [
      [a, "debug"],
      [b, "error"],
    ] as const)
      bench.request(session, { method: "logging/setLevel", params: { level } });
    bench.reply("logging/setLevel");
    bench.lane.endCaller(a);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
    expect(bench.log.lines.filter(({ level }) => level === "warn")).toMatchObject([
      { fields: { method: "logging/setLevel" }, message: "internal request failed" },
    ]);
  });
});

describe("a lane that is closed", () => {
  it("a closed lane has answered every request and has no timer left", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    const running = bench.request(session, CALL);
    bench.lose();
    const held = bench.request(session, CALL);
    bench.lane.close();
    expect([running.outcome, held.outcome, vi.getTimerCount()]).toEqual(["UPSTREAM_EXITED", "SHUTTING_DOWN", 0]);
  });
});
