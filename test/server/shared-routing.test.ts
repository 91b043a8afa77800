import { describe, expect, it } from "vitest";
import { LaneBench, listen, messages } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

describe("a request of a shared server", () => {
  it("a ping is answered and any other request refused without a client noticing", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    const [stream, call] = [listen(session), bench.request(session, { method: "tools/call" })];
    bench.heard();
    bench.say({ id: "p", method: "ping" });
    bench.say({ id: 1, method: "sampling/createMessage", params: {} });
    expect(bench.heard()).toMatchObject([
      { id: "p", result: {} },
      { id: 1, error: { code: -32_601 } },
    ]);
    expect([stream.texts, call.emitted, call.isFinished]).toEqual([[], [], false]);
  });

  it.each(["sampling/createMessage", "elicitation/create", "roots/list", 'x/"odd"\n'])(
    "the method %j is refused as one that no shared client offers",
    (method) => {
      const bench = LaneBench.ready();
      bench.say({ id: 5, method, params: {} });
      const message = `${method} is not available: this MCP server is shared, and the sidecar declared no client capabilities`;
      expect(bench.heard()).toEqual([{ id: 5, error: { code: -32_601, message } }]);
    },
  );

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

describe("a client of a shared server", () => {
  it.each(["notifications/initialized", "notifications/roots/list_changed", "notifications/progress"])(
    "the notification %s of one client is not carried",
    (method) => {
      const bench = LaneBench.ready();
      expect([bench.notify(bench.join(), { method, params: { progressToken: 1, progress: 1 } }), bench.heard()]).toEqual([undefined, []]);
    },
  );

  it("any other notification of a client is carried", () => {
    const bench = LaneBench.ready();
    bench.notify(bench.join(), { method: "notifications/custom", params: { x: 1 } });
    expect(bench.heard()).toEqual([{ method: "notifications/custom", params: { x: 1 } }]);
  });

  it("tasks/list is refused, since it would show the tasks of all clients", () => {
    const bench = LaneBench.ready();
    const call = bench.request(bench.join(), { id: "t", method: "tasks/list" });
    expect([call.outcome, call.response?.startsWith('{"jsonrpc":"2.0","id":"t",'), bench.heard()]).toEqual([-32_601, true, []]);
  });

  it("an answer of a client that was not asked is dropped", () => {
    const bench = LaneBench.ready();
    expect([bench.answer({ id: 1, result: {} }, bench.join()), bench.heard()]).toEqual([undefined, []]);
  });

  it("clients with equal ids and tokens get their own answers and progress", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    const text = '{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"_meta":{"progressToken":0}}}';
    const [callOfA, callOfB] = [bench.request(a, text), bench.request(b, text)];
    const [first, second] = bench.heard();
    for (const request of [second, first]) {
      // The id is the token, too.
      const id = request?.["id"];
      expect(request).toMatchObject({ params: { _meta: { progressToken: id } } });
      bench.say({ method: "notifications/progress", params: { progressToken: id, progress: id } });
      bench.say({ id, result: { of: id } });
    }
    expect([messages(callOfA.emitted), callOfA.outcome]).toEqual([
      [{ method: "notifications/progress", params: { progressToken: 0, progress: first?.["id"] } }],
      { of: first?.["id"] },
    ]);
    expect([messages(callOfB.emitted), callOfB.outcome]).toEqual([
      [{ method: "notifications/progress", params: { progressToken: 0, progress: second?.["id"] } }],
      { of: second?.["id"] },
    ]);
  });
});

describe("list_changed of a shared server", () => {
  it.each(["tools", "prompts", "resources"])("list_changed of %s reaches every session on one stream", (kind) => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    const [older, newer] = [listen(a), listen(a)];
    const call = bench.request(a, { method: "tools/call" });
    bench.say({ method: `notifications/${kind}/list_changed` });
    expect([older.texts, newer.texts.length, call.emitted, listen(b).texts.length]).toEqual([[], 1, [], 1]);
    bench.lane.endCaller(a);
    bench.say({ method: `notifications/${kind}/list_changed` });
    expect(newer.texts).toHaveLength(1);
  });

  it("repeated list_changed waits once for a session", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    for (const kind of ["tools", "tools", "prompts", "tools"]) bench.say({ method: `notifications/${kind}/list_changed` });
    expect(messages(listen(session).texts).map(({ method }) => method)).toEqual([
      "notifications/tools/list_changed",
      "notifications/prompts/list_changed",
    ]);
  });
});

describe("a notification of a shared server without an owner", () => {
  it.each(["notifications/cancelled", "notifications/tasks/status", "notifications/elicitation/complete", "notifications/custom"])(
    "the notification %s is dropped and counted",
    (method) => {
      const bench = LaneBench.ready();
      const session = bench.join();
      const [stream, call] = [listen(session), bench.request(session, { method: "tools/call" })];
      bench.say({ method, params: { requestId: 1, taskId: "t" } });
      expect([stream.texts, call.emitted, bench.dropped.notifications]).toEqual([[], [], 1]);
    },
  );

  it("progress without a waiting call is dropped and counted", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    const [stream, call] = [listen(session), bench.request(session, { method: "tools/call" })];
    const [asked] = bench.heard();
    for (const progressToken of [asked?.["id"], 99, "1", undefined]) {
      bench.say({ method: "notifications/progress", params: { progressToken, progress: 1 } });
    }
    expect([stream.texts, call.emitted, bench.dropped.notifications]).toEqual([[], [], 4]);
  });
});
