import { describe, expect, it } from "vitest";
import { PrivateLaneBench, listen } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

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
