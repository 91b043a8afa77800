import { describe, expect, it, vi } from "vitest";
import { useFakeClock } from "../support/fake-clock.ts";
import { LaneBench, listen } from "./support/lane-bench.ts";

const REQUEST_TIMEOUT_MS = 1000;
const CALL = { method: "tools/call", params: { name: "x", _meta: { progressToken: 1 } } };
const TASK = { result: { task: { taskId: "t", status: "working" } } };

useFakeClock();

function progress(bench: LaneBench, progressToken: unknown): void {
  bench.say({ method: "notifications/progress", params: { progressToken, progress: 1 } });
}

describe("progress of a shared server", () => {
  it.each([(id: unknown) => `0${String(id)}`, () => 0, () => null, () => ({})])(
    "progress under another token is dropped and renews no timeout (%#)",
    (tokenFor) => {
      const bench = LaneBench.ready();
      const call = bench.request(bench.join(), CALL);
      vi.advanceTimersByTime(REQUEST_TIMEOUT_MS - 1);
      progress(bench, tokenFor(bench.heard()[0]?.["id"]));
      vi.advanceTimersByTime(1);
      expect([call.outcome, call.emitted, bench.dropped.notifications]).toEqual(["REQUEST_TIMEOUT", [], 1]);
    },
  );

  it("progress for a call without a token, or one that the server has not read, is dropped", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    const call = bench.request(session, { method: "tools/call" });
    const id = Number(bench.heard()[0]?.["id"]);
    bench.upstream.isReading = false;
    const unread = bench.request(session, CALL);
    for (const token of [id, id + 1]) progress(bench, token);
    expect([call.emitted, unread.emitted, listen(session).texts, bench.dropped.notifications]).toEqual([[], [], [], 2]);
  });

  it.each([
    [TASK, 1],
    [{ result: { content: [] } }, 0],
    [{ result: { task: "t" } }, 0],
    [{ result: { task: { taskId: 1 } } }, 0],
    [{ result: { task: null } }, 0],
    [{ result: [] }, 0],
    [{ result: null }, 0],
    [{ error: { code: 1, message: "no" } }, 0],
  ])("progress after the answer %j is delivered %i times", (answer, count) => {
    const bench = LaneBench.ready();
    const session = bench.join();
    bench.request(session, CALL);
    const token = bench.heard()[0]?.["id"];
    bench.say({ id: token, ...answer });
    for (const each of [token, `0${String(token)}`, undefined]) progress(bench, each);
    expect([listen(session).texts.length, bench.dropped.notifications]).toEqual([count, 3 - count]);
  });

  it("progress of a task is dropped after 1024 newer tasks", () => {
    const bench = LaneBench.ready();
    const tasks = Array.from({ length: 1025 }, () => {
      const session = bench.join();
      bench.request(session, CALL);
      const token = bench.heard()[0]?.["id"];
      bench.say({ id: token, ...TASK });
      return { session, token };
    });
    for (const { token } of tasks.slice(0, 2)) progress(bench, token);
    expect(tasks.slice(0, 2).map(({ session }) => listen(session).texts.length)).toEqual([0, 1]);
  });
});

describe("a request of a shared server", () => {
  it("a refusal does not repeat a method of a megabyte", () => {
    const bench = LaneBench.ready();
    bench.say({ id: 5, method: "x".repeat(1_000_000) });
    expect(bench.upstream.takeRead()[0]?.length).toBeLessThan(300);
  });

  it("requests of a server that does not read are dropped and fill no memory", () => {
    const bench = LaneBench.ready();
    bench.upstream.isReading = false;
    for (let id = 0; id < 1000; id++) bench.say({ id, method: "roots/list" });
    expect(bench.upstream.queuedBytes).toBeLessThanOrEqual(10_000);
    expect(bench.dropped.requests).toBeGreaterThan(900);
  });
});
