import { describe, expect, it, vi } from "vitest";
import { LaneBench, type LaneBenchOptions, PrivateLaneBench, messages } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

const REQUEST_TIMEOUT_MS = 1000;
const HOLD_TIMEOUT_MS = 500;

useFakeClock();

function ready(options?: LaneBenchOptions): LaneBench {
  const bench = LaneBench.ready({}, options);
  return bench;
}

const READ = { method: "resources/read", params: { uri: "x:1" } };
const CALL = { method: "tools/call", params: { name: "look" } };

/** The server lists these tools as read-only, as often as it is asked. */
function tellTools(bench: LaneBench, ...names: readonly string[]): void {
  bench.reply("tools/list", { result: { tools: names.map((name) => ({ name, annotations: { readOnlyHint: true } })) } });
}

describe("an idempotent read whose server exits before the answer", () => {
  it("a read precedes the requests of other sessions that waited behind it", () => {
    const bench = LaneBench.ready({ maxInFlight: 1 });
    const [reading, waiting] = [bench.join(), bench.join()];
    bench.request(reading, READ);
    bench.request(waiting, CALL);
    expect(bench.heard()).toMatchObject([READ]);
    bench.lose();
    bench.start();
    expect(bench.heard()).toMatchObject([READ]);
  });

  it("a read keeps waiting, counted once, if the next server has not read it", () => {
    const bench = ready();
    const call = bench.request(bench.join(), READ);
    bench.lose();
    bench.upstream.isReading = false;
    bench.start();
    bench.lose();
    bench.upstream.isReading = true;
    bench.start();
    bench.reply("resources/read");
    expect([call.outcome, bench.counters.requests.repeated]).toEqual([{}, 1]);
  });

  it("a read waits for HOLD_TIMEOUT_MS, and its error says that it was sent", () => {
    const bench = ready();
    const call = bench.request(bench.join(), READ);
    vi.advanceTimersByTime(100);
    bench.lose();
    vi.advanceTimersByTime(HOLD_TIMEOUT_MS - 1);
    expect(call.outcome).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect([call.outcome, call.error?.details]).toEqual(["UPSTREAM_NOT_READY", { sent: true, retrySafe: true, retryAfterSeconds: 1 }]);
    expect(call.error?.message).toContain("The request was sent, but only reads; it is safe to retry.");
    bench.start();
    expect([bench.heard(), bench.counters.requests.repeated]).toEqual([[], 0]);
  });

  it("read and unread requests fail at once if an exit begins a crash loop", () => {
    const bench = ready();
    const session = bench.join();
    const call = bench.request(session, READ);
    bench.upstream.isReading = false;
    const unread = bench.request(session, CALL);
    bench.upstream.isFailed = true;
    bench.lose();
    expect([call.outcome, unread.outcome]).toEqual(["UPSTREAM_FAILED", "UPSTREAM_FAILED"]);
  });

  it("a retry does not extend the timeout", () => {
    const bench = ready();
    const call = bench.request(bench.join(), READ);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS - 1);
    bench.lose();
    bench.start();
    const heard = bench.heard();
    expect(heard).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect([call.outcome, call.error?.details]).toEqual([
      "REQUEST_TIMEOUT",
      { sent: true, retrySafe: true, timeoutMs: REQUEST_TIMEOUT_MS },
    ]);
    expect(bench.heard()).toEqual([{ method: "notifications/cancelled", params: { requestId: heard[0]?.["id"], reason: "timeout" } }]);
  });

  it("a read past its deadline is not retried", () => {
    const bench = ready();
    const call = bench.request(bench.join(), READ);
    vi.setSystemTime(REQUEST_TIMEOUT_MS);
    bench.lose();
    expect(call.outcome).toBe("UPSTREAM_EXITED");
  });

  it("a read is not retried in mode off", () => {
    const bench = ready({ retry: "off" });
    const call = bench.request(bench.join(), READ);
    bench.lose();
    expect([call.outcome, call.error?.details.retrySafe]).toEqual(["UPSTREAM_EXITED", true]);
  });

  it.each(["ping", "tasks/get"])("the read %s is retried", (method) => {
    const bench = ready();
    const call = bench.request(bench.join(), { method });
    bench.lose();
    bench.start();
    bench.reply(method);
    expect(call.outcome).toEqual({});
  });

  it.each([
    ["tools/call", false],
    ["x-vendor/list", false],
    ["tools/list ", false],
    ["constructor", false],
    ["logging/setLevel", true],
    ["resources/subscribe", true],
    ["resources/unsubscribe", true],
    ["tasks/cancel", false],
  ])("the request %s is not retried, and may be repeated: %s", (method, retrySafe) => {
    const bench = ready();
    const call = bench.request(bench.join(), { method, params: { level: "info", uri: "x:1", name: "look" } });
    bench.lose();
    expect([call.outcome, call.error?.details]).toMatchObject(["UPSTREAM_EXITED", { sent: true, retrySafe }]);
    bench.start();
    expect(bench.heard()).toEqual([]);
  });
});

describe("a question about a read whose server exits", () => {
  it("the question is withdrawn, and the next server's question is a new one", () => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, READ);
    const [{ id: wireId } = {}] = bench.heard();
    bench.say({ id: "q", method: "roots/list" });
    bench.lose();
    bench.start();
    bench.say({ id: "q", method: "roots/list" });
    const [first, , second] = messages(call.emitted).map(({ id }) => Number(id));
    expect(second).toBe((first ?? 0) + 1);
    expect(messages(call.emitted)).toMatchObject([
      { id: first, method: "roots/list" },
      { method: "notifications/cancelled", params: { requestId: first } },
      { id: second, method: "roots/list" },
    ]);
    bench.heard();
    bench.answer({ id: first, result: { late: true } });
    bench.answer({ id: second, result: { roots: [] } });
    expect(bench.heard()).toEqual([{ id: "q", result: { roots: [] } }]);
    bench.say({ id: wireId, result: {} });
    expect(call.outcome).toEqual({});
  });
});

describe("a call of a read-only tool", () => {
  function readOnly(...names: readonly string[]): LaneBench {
    const bench = ready({ retry: "read-only" });
    tellTools(bench, ...names);
    return bench;
  }

  it("a failed call of a read-only tool is safe to retry", () => {
    const bench = readOnly("look");
    const session = bench.join();
    const [repeated, timedOut] = [bench.request(session, CALL), bench.request(session, CALL)];
    bench.lose();
    bench.start();
    vi.advanceTimersByTime(HOLD_TIMEOUT_MS);
    bench.lose();
    expect([repeated, timedOut].map(({ error }) => error?.details.retrySafe)).toEqual([true, true]);
    bench.start();
    tellTools(bench, "look");
    const late = bench.request(session, CALL);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
    expect([late.outcome, late.error?.details.retrySafe]).toEqual(["REQUEST_TIMEOUT", true]);
  });

  it("a call is not retried if its server has not listed its tools yet", () => {
    const bench = readOnly("look");
    bench.lose();
    bench.start();
    const call = bench.request(bench.join(), CALL);
    bench.lose();
    expect([call.outcome, call.error?.details.retrySafe]).toEqual(["UPSTREAM_EXITED", false]);
  });

  it("a call is not retried if a tool of the same name is not read-only", () => {
    const bench = ready({ retry: "read-only" });
    const [marked, long] = [{ annotations: { readOnlyHint: true } }, "x".repeat(1001)];
    const tools = [{ name: "a", ...marked }, { name: "b" }, { name: "b", ...marked }, { name: "a" }, { name: long, ...marked }];
    bench.reply("tools/list", { result: { tools: [...tools, { name: "c", ...marked }] } });
    const session = bench.join();
    const calls = ["a", "b", "constructor", long, "c"].map((name) => bench.request(session, { ...CALL, params: { name } }));
    bench.lose();
    expect(calls.map(({ outcome }) => outcome)).toEqual([...calls.slice(1).map(() => "UPSTREAM_EXITED"), undefined]);
  });

  it("a call is not retried if the tools change during each listing", () => {
    const bench = ready({ retry: "read-only" });
    // The fourth list is used although it is outdated, but not for retries.
    for (let times = 0; times < 4; times++) {
      bench.say({ method: "notifications/tools/list_changed" });
      tellTools(bench, "look");
    }
    const call = bench.request(bench.join(), CALL);
    bench.lose();
    expect(call.outcome).toBe("UPSTREAM_EXITED");
  });
});

describe("the sidecar's own tools/list", () => {
  it("the tools of a private server are not listed before notifications/initialized", () => {
    const bench = PrivateLaneBench.ready({}, { retry: "read-only", isInitialized: false });
    bench.say({ method: "notifications/tools/list_changed" });
    expect(bench.heard()).toEqual([]);
    bench.notify(bench.session, { method: "notifications/initialized" });
    expect(bench.heard().map(({ method }) => method)).toEqual(["notifications/initialized", "tools/list"]);
    bench.lose();
    bench.start();
    expect(bench.heard().map(({ method }) => method)).toEqual(["tools/list"]);
  });
});

it("a long read is neither kept nor retried", () => {
  const bench = LaneBench.ready({ maxQueuedBytes: 1_000_000 });
  const call = bench.request(bench.join(), { ...READ, params: { uri: "x:1", padding: "p".repeat(70_000) } });
  bench.heard();
  bench.lose();
  expect(call.outcome).toBe("UPSTREAM_EXITED");
  expect(call.error?.details).toMatchObject({ sent: true, retrySafe: true });
});
