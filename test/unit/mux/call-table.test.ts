import { describe, expect, it, vi } from "vitest";
import { SidecarError } from "../../../src/errors.ts";
import { extendDeadline } from "../../../src/mux/call-table.ts";
import { CallBench } from "../support/calls.ts";

const GONE = new SidecarError("UPSTREAM_EXITED", "gone");

describe("the call table", () => {
  it("gives an answer to the call that the server has read, once, and never to one that it cannot know", () => {
    const bench = new CallBench();
    const [written, queued] = [bench.add(), bench.add({ state: "queued" })];
    expect(bench.table.takeAnswered(queued.wireId, "results")).toBeUndefined();
    expect(bench.table.takeAnswered(String(written.wireId), "results")).toBeUndefined();
    expect(bench.table.takeAnswered(written.wireId, "results")).toBe(written);
    expect([bench.table.takeAnswered(written.wireId, "results"), bench.table.size]).toEqual([undefined, 1]);
  });

  it("tells each call once how it ended: with a result or not", () => {
    const bench = new CallBench();
    const onSettled = Array.from({ length: 4 }, () => vi.fn<(hasResult: boolean) => void>());
    const [answered, refused, givenUp, lost] = onSettled.map((each) => bench.add({ onSettled: each }));
    bench.table.takeAnswered(answered?.wireId, "results");
    bench.table.takeAnswered(refused?.wireId, "errors");
    if (givenUp !== undefined) bench.table.giveUp(givenUp, "timeout", GONE);
    bench.table.failWritten(() => GONE);
    expect(onSettled.map((each) => each.mock.calls)).toEqual([[[true]], [[false]], [[false]], [[false]]]);
    expect(lost?.exchange.outcome).toBe("UPSTREAM_EXITED");
  });

  it("has settled a call before its client is answered, so that what the client does next finds it so", () => {
    const bench = new CallBench();
    const order: string[] = [];
    const call = bench.add({ onSettled: () => order.push("settled") });
    vi.spyOn(call.exchange, "fail").mockImplementation(() => order.push("answered"));
    bench.table.giveUp(call, "timeout", GONE);
    expect([order, bench.table.size]).toEqual([["settled", "answered"], 0]);
  });

  it("tells the server of a call that is given up where it has read it, and takes back the others", () => {
    const bench = new CallBench();
    const [written, held, queued] = [bench.add(), bench.add({ state: "queued" }), bench.add({ state: "queued" })];
    bench.turns.hold(held);
    for (const call of [written, held, queued]) bench.table.giveUp(call, "no use", GONE);
    expect(bench.upstream.takeRead().map((line) => JSON.parse(line) as unknown)).toEqual([
      { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: written.wireId, reason: "no use" } },
    ]);
    expect([bench.turns.size, queued.state]).toEqual([0, "withdrawn"]);
    expect([bench.table.takeAbandoned(written.wireId), bench.table.takeAbandoned(held.wireId)]).toEqual(["no use", undefined]);
  });

  it("counts each call of a client once, where it ends, and lets another be sent", () => {
    const bench = new CallBench();
    const release = vi.spyOn(bench.turns, "release");
    const [result, error, long, lost, left, late] = Array.from({ length: 6 }, () => bench.add());
    if (left === undefined || late === undefined) throw new Error("there are six");
    bench.table.takeAnswered(result?.wireId, "results");
    bench.table.takeAnswered(error?.wireId, "errors");
    bench.table.takeAnswered(long?.wireId, "UPSTREAM_RESPONSE_TOO_LARGE");
    bench.table.giveUp(left, "client disconnected", "unread");
    bench.table.expire(100);
    expect([release.mock.calls.length, lost?.exchange.outcome]).toEqual([6, "REQUEST_TIMEOUT"]);
    bench.table.giveUp(bench.add(), "cancelled by the client", "dismissed");
    bench.add();
    bench.table.failWritten(() => GONE);
    expect(bench.counters.toJSON()).toMatchObject({
      requests: { accepted: 8 },
      answers: {
        results: 1,
        errors: 1,
        dismissed: 1,
        unread: 1,
        failures: { UPSTREAM_RESPONSE_TOO_LARGE: 1, REQUEST_TIMEOUT: 2, UPSTREAM_EXITED: 1 },
      },
    });
  });

  it("counts no call of the sidecar's own", () => {
    const bench = new CallBench();
    const before = JSON.stringify(bench.counters);
    bench.table.takeAnswered(bench.add({ session: "own" }).wireId, "results");
    bench.table.giveUp(bench.add({ session: "own" }), "no use", GONE);
    expect(JSON.stringify(bench.counters)).toBe(before);
  });

  it("resolves when it is empty, at once where it is", async () => {
    const bench = new CallBench();
    await bench.table.whenEmpty();
    const call = bench.add();
    let isEmpty = false;
    const empty = bench.table.whenEmpty().then(() => (isEmpty = true));
    await Promise.resolve();
    expect(isEmpty).toBe(false);
    bench.table.takeAnswered(call.wireId, "results");
    expect(await empty).toBe(true);
  });
});

describe("a session", () => {
  it("is in use while a call of it is awaited, and was used last when that settled", () => {
    const bench = new CallBench();
    const calls = [bench.add(), bench.add()];
    for (const { wireId } of calls) {
      expect([bench.session.isInUse, bench.table.size > 0]).toEqual([true, true]);
      bench.table.takeAnswered(wireId, "results");
    }
    expect([bench.session.isInUse, bench.table.size, bench.session.lastUsedAtMs]).toEqual([false, 0, 70]);
  });

  it("is not waited for on behalf of the sidecar's own requests", async () => {
    const bench = new CallBench();
    const own = bench.add({ session: "own" });
    expect([bench.table.size, bench.session.isInUse]).toEqual([0, false]);
    await bench.table.whenEmpty();
    expect(bench.table.takeAnswered(own.wireId, "results")).toBe(own);
    expect(bench.table.size).toBe(0);
  });
});

describe("the deadlines of calls", () => {
  it("end what is due and tell when the next one is", () => {
    const bench = new CallBench();
    const [due, later, queued] = [bench.add({ deadlineMs: 100 }), bench.add({ deadlineMs: 300 }), bench.add({ state: "queued" })];
    expect(bench.table.expire(100)).toBe(300);
    expect([due, later, queued].map(({ exchange }) => exchange.outcome)).toEqual(["REQUEST_TIMEOUT", undefined, "REQUEST_TIMEOUT"]);
    expect([due, queued].map(({ exchange }) => exchange.error?.details.sent)).toEqual([true, false]);
    expect(bench.table.expire(300)).toBe(Number.POSITIVE_INFINITY);
  });

  it("are extended for what the server has read, not for what waits for it", () => {
    const bench = new CallBench();
    const [written, queued] = [bench.add({ deadlineMs: 100 }), bench.add({ deadlineMs: 100, state: "queued" })];
    bench.table.extend(60);
    expect([written.deadlineMs, queued.deadlineMs]).toEqual([160, 100]);
  });

  it("are never brought forward by an extension, and never put behind the last one", () => {
    const call = new CallBench().add({ deadlineMs: 500, lastDeadlineMs: 1000 });
    extendDeadline(call, 60);
    expect(call.deadlineMs).toBe(500);
    extendDeadline(call, 950);
    expect(call.deadlineMs).toBe(1000);
    extendDeadline(call, 2000);
    expect(call.deadlineMs).toBe(1000);
  });
});

describe("answers that are long in coming", () => {
  it("are begun after the silence, to the millisecond, and told when the next one is due", () => {
    const bench = new CallBench();
    const [first, second] = [bench.add({ acceptedAtMs: 0 }), bench.add({ acceptedAtMs: 30 })];
    expect(bench.table.keepAlive(99, 100)).toBe(100);
    expect(first.exchange.keepAliveCount).toBe(0);
    expect(bench.table.keepAlive(100, 100)).toBe(130);
    expect([first, second].map(({ exchange }) => exchange.keepAliveCount)).toEqual([1, 0]);
    expect(bench.table.keepAlive(130, 100)).toBe(Number.POSITIVE_INFINITY);
    expect(second.exchange.keepAliveCount).toBe(1);
  });

  it("are none of calls that are held: they may yet be answered 503", () => {
    const bench = new CallBench();
    const held = bench.add({ state: "queued" });
    expect([bench.table.keepAlive(500, 100), held.exchange.keepAliveCount]).toEqual([600, 0]);
    held.state = "written";
    expect([bench.table.keepAlive(600, 100), held.exchange.keepAliveCount]).toEqual([Number.POSITIVE_INFINITY, 1]);
  });

  it("are none of calls that were answered", () => {
    const bench = new CallBench();
    const call = bench.add();
    bench.table.takeAnswered(call.wireId, "results");
    expect([bench.table.keepAlive(1000, 100), call.exchange.keepAliveCount]).toEqual([Number.POSITIVE_INFINITY, 0]);
  });
});
