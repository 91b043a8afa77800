import { describe, expect, it, vi } from "vitest";
import { PrivateLaneBench, listen, messages } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

/** The maximum time of a request, equal to the limits of the bench. */
const TIMEOUT_MS = 1000;

useFakeClock();

const ROOTS = { id: "r", method: "roots/list" };

function askedIds(texts: readonly string[]): number[] {
  return messages(texts).flatMap(({ id, method }) => (method === undefined || id === undefined ? [] : [Number(id)]));
}

function ask(bench: PrivateLaneBench, message: object = ROOTS): number {
  const stream = listen(bench.session);
  bench.say({ ...message });
  const [id] = askedIds(stream.texts);
  if (id === undefined) throw new Error("the client was not asked");
  return id;
}

describe("a request of a private server", () => {
  it.each([
    ["a task", { task: { taskId: "a", status: "working" } }, 1],
    ["something else", { role: "assistant" }, 0],
  ])("a client's progress after an answer with %s is carried until the server exits", (_what, result, count) => {
    const bench = PrivateLaneBench.ready();
    const id = ask(bench, { id: "q", method: "sampling/createMessage", params: { _meta: { progressToken: "t" }, task: {} } });
    bench.answer({ id, result });
    bench.heard();
    const later = { method: "notifications/progress", params: { progressToken: id, progress: 0.5 } };
    bench.notify(bench.session, later);
    expect(bench.heard()).toEqual(Array.from({ length: count }, () => ({ ...later, params: { progressToken: "t", progress: 0.5 } })));
    bench.lose();
    bench.start();
    bench.notify(bench.session, later);
    expect(bench.heard()).toEqual([]);
  });

  it("an unanswered request expires on both sides, and a late answer is dropped", () => {
    const bench = PrivateLaneBench.ready();
    const stream = listen(bench.session);
    bench.say(ROOTS);
    vi.advanceTimersByTime(10 * TIMEOUT_MS - 1);
    expect([bench.heard(), stream.texts.length]).toEqual([[], 1]);
    vi.advanceTimersByTime(1);
    expect(bench.heard()).toMatchObject([{ id: "r", error: { code: -32_001 } }]);
    const [id] = askedIds(stream.texts);
    expect(stream.texts.at(-1)).toContain(`"notifications/cancelled","params":{"requestId":${id},`);
    expect([bench.answer({ id, result: {} }), bench.heard()]).toEqual([undefined, []]);
  });

  it("the answer of a client is rejected with OVERLOADED while the server does not read", () => {
    const bench = PrivateLaneBench.ready({ maxQueuedBytes: 200 });
    const id = ask(bench);
    bench.upstream.isReading = false;
    bench.notify(bench.session, { method: "notifications/x", params: { text: "x".repeat(300) } });
    expect(bench.answer({ id, result: {} })).toBe("OVERLOADED");
    bench.upstream.stop();
    bench.spawn();
    bench.upstream.isReading = true;
    expect(bench.answer({ id, result: {} })).toBeUndefined();
    expect(bench.heard()).toEqual([{ id: "r", result: {} }]);
  });
});

describe("the timeout of a client's request", () => {
  it("the timeout does not run while the server waits for the client", () => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, { method: "tools/call" });
    bench.say(ROOTS);
    vi.advanceTimersByTime(5 * TIMEOUT_MS);
    expect(call.isFinished).toBe(false);
    bench.answer({ id: askedIds(call.emitted)[0], result: {} });
    vi.advanceTimersByTime(TIMEOUT_MS - 1);
    expect(call.isFinished).toBe(false);
    vi.advanceTimersByTime(1);
    expect(call.outcome).toBe("REQUEST_TIMEOUT");
  });

  it("a question does not renew the timeout of a request the server has not read", () => {
    const bench = PrivateLaneBench.ready();
    bench.upstream.isReading = false;
    const unread = bench.request(bench.session, { method: "tools/call" });
    vi.advanceTimersByTime(TIMEOUT_MS - 1);
    bench.say(ROOTS);
    vi.advanceTimersByTime(1);
    expect(unread.outcome).toBe("REQUEST_TIMEOUT");
  });
});
