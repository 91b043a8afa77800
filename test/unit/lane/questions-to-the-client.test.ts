import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { idText } from "../../support/json-text.ts";
import { asServerReads } from "../../support/as-server-reads.ts";
import { listen, messages, PrivateLaneBench } from "../support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

/** The maximum time of a request, equal to the limits of the bench. */
const TIMEOUT_MS = 1000;

useFakeClock();

const ROOTS = { id: "r", method: "roots/list" };

/** Returns the ids of the requests on a stream of the client, in order. */
function askedIds(texts: readonly string[]): number[] {
  return messages(texts).flatMap(({ id, method }) => (method === undefined || id === undefined ? [] : [Number(id)]));
}

/** The server sends a request to its client, which listens. @returns the id that the client sees. */
function ask(bench: PrivateLaneBench, message: object = ROOTS): number {
  const stream = listen(bench.session);
  bench.say({ ...message });
  const [id] = askedIds(stream.texts);
  if (id === undefined) throw new Error("the client was not asked");
  return id;
}

describe("a request of a private server", () => {
  it("the server's id and token are replaced for the client and restored for the server", () => {
    fc.assert(
      fc.property(idText, idText, (id, token) => {
        const bench = PrivateLaneBench.ready();
        const stream = listen(bench.session);
        const asked = (own: unknown, ownToken: unknown): string =>
          `{"jsonrpc":"2.0", "id" : ${String(own)} ,"method":"x","params":{"n":9007199254740993,"_meta":{"x":1.0,"progressToken":${String(ownToken)}}}}`;
        bench.say(asked(id, token));
        const [minted] = askedIds(stream.texts);
        expect(stream.texts).toEqual([asked(minted, minted)]);
        const progress = (own: unknown): string =>
          `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.0,"progressToken":${String(own)}}}`;
        bench.notify(bench.session, progress(minted));
        const answer = (own: unknown): string => `{"result":{"id":1,\r\n"x":1.0},"id" : ${String(own)},"jsonrpc":"2.0"}`;
        bench.answer(answer(minted));
        expect(bench.upstream.takeRead()).toEqual([progress(token), answer(id).replace("\r\n", "  ")].map(asServerReads));
      }),
    );
  });

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

  it("a request gets a new id, and its answer has the server's own", () => {
    const bench = PrivateLaneBench.ready();
    const stream = listen(bench.session);
    bench.say(ROOTS);
    bench.say({ ...ROOTS, id: 7 });
    const [first = 0, second] = askedIds(stream.texts);
    expect(second).toBe(first + 1);
    expect(messages(stream.texts)).toEqual([
      { id: first, method: "roots/list" },
      { id: second, method: "roots/list" },
    ]);
    for (const id of [second, first]) expect(bench.answer({ id, result: { roots: [] } })).toBeUndefined();
    expect(bench.heard()).toEqual([
      { id: 7, result: { roots: [] } },
      { id: "r", result: { roots: [] } },
    ]);
  });

  it("a ping of the server is answered by the sidecar", () => {
    const bench = PrivateLaneBench.ready();
    bench.say({ id: 3, method: "ping" });
    expect([bench.heard(), listen(bench.session).texts]).toEqual([[{ id: 3, result: {} }], []]);
  });

  it("a request takes the first answer only, and no unrelated one", () => {
    const bench = PrivateLaneBench.ready();
    const id = ask(bench);
    for (const other of [id + 4, "r", String(id)]) expect(bench.answer({ id: other, result: {} })).toBe("OTHER_REPLICA");
    bench.answer({ id, error: { code: -1, message: "declined" } });
    bench.answer({ id, result: {} });
    expect(bench.heard()).toEqual([{ id: "r", error: { code: -1, message: "declined" } }]);
  });

  it("a cancellation by the server reaches the client with the id the client knows", () => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, { method: "tools/call" });
    bench.say(ROOTS);
    bench.say({ method: "notifications/cancelled", params: { requestId: "r", reason: "late" } });
    const [id] = askedIds(call.emitted);
    expect(messages(call.emitted)).toEqual([
      { id, method: "roots/list" },
      { method: "notifications/cancelled", params: { requestId: id, reason: "late" } },
    ]);
    bench.heard();
    bench.answer({ id, result: {} });
    expect(bench.heard()).toEqual([]);
  });

  it("a cancellation with the client's id cancels nothing", () => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, { method: "tools/call" });
    bench.say(ROOTS);
    const [id] = askedIds(call.emitted);
    bench.say({ method: "notifications/cancelled", params: { requestId: id } });
    expect([call.emitted.length, bench.dropped.notifications]).toEqual([1, 1]);
    bench.heard();
    bench.answer({ id, result: {} });
    expect(bench.heard()).toEqual([{ id: "r", result: {} }]);
  });

  it("progress of the client has the server's token, while the request is open", () => {
    const bench = PrivateLaneBench.ready();
    const id = ask(bench, { ...ROOTS, params: { _meta: { progressToken: "t" } } });
    const progress = { method: "notifications/progress", params: { progressToken: id, progress: 0.5 } };
    expect(bench.notify(bench.session, progress)).toBeUndefined();
    expect(bench.heard()).toEqual([{ method: "notifications/progress", params: { progressToken: "t", progress: 0.5 } }]);
    bench.answer({ id, result: {} });
    bench.heard();
    bench.notify(bench.session, progress);
    expect(bench.heard()).toEqual([]);
  });

  it("a request is rejected if 1024 wait for the client", () => {
    const bench = PrivateLaneBench.ready({ maxQueuedBytes: 1_000_000 });
    const first = ask(bench, { ...ROOTS, id: 0 });
    for (let id = 1; id < 1024; id++) bench.say({ ...ROOTS, id });
    bench.say({ ...ROOTS, id: "one more" });
    expect(bench.heard()).toMatchObject([{ id: "one more", error: { code: -32_000 } }]);
    bench.answer({ id: first, result: {} });
    bench.say({ ...ROOTS, id: "again" });
    expect(bench.heard()).toEqual([{ id: 0, result: {} }]);
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

  it("a request ends with its server, and its answer never reaches the next server", () => {
    const bench = PrivateLaneBench.ready();
    bench.say(ROOTS);
    bench.lose();
    bench.start();
    const stream = listen(bench.session);
    bench.say(ROOTS);
    const [past = 0, id] = askedIds(stream.texts);
    bench.answer({ id: past, result: { from: "the past" } });
    expect(bench.heard()).toEqual([]);
    expect(messages(stream.texts)).toEqual([
      { id: past, method: "roots/list" },
      { method: "notifications/cancelled", params: { requestId: past, reason: "the MCP server has stopped" } },
      { id: past + 1, method: "roots/list" },
    ]);
    bench.answer({ id, result: {} });
    expect(bench.heard()).toEqual([{ id: "r", result: {} }]);
  });

  it("a request ends with its session", () => {
    const bench = PrivateLaneBench.ready();
    const id = ask(bench);
    bench.lane.endCaller(bench.session);
    bench.answer({ id, result: {} });
    vi.advanceTimersByTime(10 * TIMEOUT_MS);
    expect(bench.heard()).toEqual([]);
  });

  it("an overlong request is rejected so that the server does not wait", () => {
    const bench = PrivateLaneBench.ready();
    bench.lane.onOverlongLine({ bytes: 5000, idText: '"r"', hasMethod: true, isForMemory: false, hasTextBefore: false });
    expect(bench.heard()).toMatchObject([{ id: "r", error: { code: -32_600 } }]);
  });

  it.each(['"id":1,"id":2,"method":"roots/list"', '"method":"roots/list","id":1,"\\u006dethod":"ping"'])(
    "an ambiguous request is rejected: {%s}",
    (members) => {
      const bench = PrivateLaneBench.ready();
      const stream = listen(bench.session);
      bench.say(`{"jsonrpc":"2.0",${members.replace("ping", "sampling/createMessage")}}`);
      expect(stream.texts).toEqual([]);
      expect(bench.heard()).toMatchObject([{ error: { code: -32_600 } }]);
    },
  );

  it("an answer that is too long with the server's id is rejected, and may be sent again", () => {
    const bench = PrivateLaneBench.ready({ maxQueuedBytes: 200 });
    const serverId = "s".repeat(100);
    const id = ask(bench, { ...ROOTS, id: serverId });
    bench.upstream.isReading = false;
    bench.notify(bench.session, { method: "notifications/x", params: { text: "x".repeat(50) } });
    expect(bench.answer({ id, result: {} })).toBe("OVERLOADED");
    bench.upstream.stop();
    bench.spawn();
    bench.upstream.isReading = true;
    expect(bench.answer({ id, result: {} })).toBeUndefined();
    expect(bench.heard()).toEqual([{ id: serverId, result: {} }]);
  });

  it("an expired request is counted as dropped while the server does not read", () => {
    const bench = PrivateLaneBench.ready({ maxQueuedBytes: 200 });
    bench.say(ROOTS);
    bench.upstream.isReading = false;
    bench.notify(bench.session, { method: "notifications/x", params: { text: "x".repeat(300) } });
    vi.advanceTimersByTime(10 * TIMEOUT_MS);
    expect(bench.dropped.requests).toBe(1);
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

  it("an answer of the client reaches the server while held requests fill MAX_QUEUED_BYTES", () => {
    const bench = PrivateLaneBench.ready({ maxInFlight: 1, maxQueuedBytes: 200 });
    const [call] = ["x", "x".repeat(300)].map((text) => bench.request(bench.session, { method: "tools/call", params: { text } }));
    expect(bench.request(bench.session, { method: "tools/call" }).outcome).toBe("OVERLOADED");
    bench.say(ROOTS);
    bench.heard();
    expect(bench.answer({ id: askedIds(call?.emitted ?? [])[0], result: {} })).toBeUndefined();
    expect(bench.heard()).toEqual([{ id: "r", result: {} }]);
  });

  it("an answer of the client renews the timeout", () => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, { method: "tools/call" });
    bench.say(ROOTS);
    vi.advanceTimersByTime(TIMEOUT_MS - 1);
    bench.answer({ id: askedIds(call.emitted)[0], result: {} });
    vi.advanceTimersByTime(TIMEOUT_MS - 1);
    expect(call.isFinished).toBe(false);
    vi.advanceTimersByTime(1);
    expect(call.outcome).toBe("REQUEST_TIMEOUT");
  });

  it("the timeout is renewed up to ten times in all", () => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, { method: "tools/call" });
    for (let count = 1; count <= 20; count++) {
      bench.say({ ...ROOTS, id: count });
      vi.advanceTimersByTime(TIMEOUT_MS / 2);
    }
    expect([call.outcome, Date.now()]).toEqual(["REQUEST_TIMEOUT", 10 * TIMEOUT_MS]);
  });

  it("a closed lane leaves no timer behind", () => {
    const bench = PrivateLaneBench.ready();
    bench.request(bench.session, { method: "tools/call" });
    bench.say(ROOTS);
    bench.lane.endCaller(bench.session);
    bench.session.streams.close();
    bench.lane.close();
    bench.eventLog.close();
    bench.say({ ...ROOTS, id: 2 });
    expect(vi.getTimerCount()).toBe(0);
  });
});
