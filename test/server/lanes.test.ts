import { describe, expect, it, vi } from "vitest";
import type { JsonObject } from "../../src/protocol/message.ts";
import type { Caller } from "../../src/sessions/caller.ts";
import type { Session } from "../../src/sessions/session.ts";
import { answerOfServer, listen, requestOfClient } from "./support/lane-bench.ts";
import { type Client, IDLE_TIMEOUT_MS, LanesBench } from "./support/lanes-bench.ts";
import { RecordedExchange } from "./support/recorded-exchange.ts";
import { StatelessCaller } from "./support/stateless-caller.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";
import { ACCOUNT } from "./support/memory.ts";

useFakeClock(TIMERS);

/** Returns true if the client got a private server. */
function isPrivate(bench: LanesBench, client: Client): boolean {
  if (client.session()?.lane === bench.shared.lane) return false;
  expect(bench.servers).toHaveLength(1);
  return true;
}

describe("a client's server", () => {
  it.each([
    [{ capabilities: { sampling: {} } }, true],
    [{ capabilities: { elicitation: { url: {} } } }, true],
    [{ capabilities: { roots: { listChanged: true } } }, true],
    [{ capabilities: {} }, false],
    [{ capabilities: { experimental: { sampling: {} }, tasks: {} } }, false],
    [{ capabilities: ["sampling"] }, false],
    [{ capabilities: null }, false],
    [{ sampling: {} }, false],
    ["none", false],
  ] as const)("a client with the params %j gets a private server in isolation auto: %j", (params, expected) => {
    const bench = new LanesBench();
    expect(isPrivate(bench, bench.connect(params))).toBe(expected);
  });

  it.each([
    ["shared", { capabilities: { sampling: {}, roots: {} } }, false],
    ["session", { capabilities: {} }, true],
    ["session", {}, true],
  ] as const)("isolation %s with the params %j gives a private server: %j", (isolation, params, expected) => {
    const bench = new LanesBench({ isolation });
    expect(isPrivate(bench, bench.connect(params))).toBe(expected);
  });

  it("a private server hears the client's own initialize and answers it itself", () => {
    const bench = new LanesBench();
    const client = bench.connect({ capabilities: { roots: {} }, protocolVersion: "2025-03-26" });
    const [server] = bench.servers;
    expect(server?.initialize).toBe(
      '{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"capabilities":{"roots":{}},"protocolVersion":"2025-03-26"}}',
    );
    expect([client.session(), client.exchange.isFinished, bench.sessions.size]).toEqual([undefined, false, 0]);
    server?.bench.start();
    expect(client.session()).toMatchObject({ protocolVersion: "2025-11-25", lane: server?.lane });
    expect([client.exchange.response, bench.sessions.size]).toEqual(['{"jsonrpc":"2.0","id":"i","result":{}}', 1]);
  });

  it("an initialize waits for the shared server if none runs", () => {
    const bench = new LanesBench();
    bench.shared.lose();
    const client = bench.connect({});
    expect([client.exchange.isFinished, client.session()]).toEqual([false, undefined]);
    bench.shared.start();
    expect([client.exchange.outcome, client.session()?.lane]).toEqual([{}, bench.shared.lane]);
  });

  it("an initialize is rejected if too many bytes wait", () => {
    const bench = new LanesBench();
    bench.shared.lose();
    const clients = [1, 2].map((number) => bench.connect({ text: String(number).repeat(6000) }));
    expect(clients.map(({ exchange }) => exchange.outcome)).toEqual([undefined, "OVERLOADED"]);
  });

  it("a private server's message reaches its own session only", () => {
    const bench = new LanesBench();
    const [a, b] = [bench.connected(), bench.connected()];
    const streams = [listen(a.session), listen(b.session)];
    b.server.bench.say({ id: 1, method: "roots/list" });
    expect(streams.map(({ texts }) => texts.length)).toEqual([0, 1]);
  });
});

describe("the end of a private server and its session", () => {
  it("a private server stops when the client ends its session", () => {
    const bench = new LanesBench();
    const { session, server } = bench.connected();
    const stream = listen(session);
    const call = server.bench.request(session, { method: "tools/call" });
    bench.sessions.end(session);
    expect([server.stopCount, stream.isEnded, call.outcome, bench.sessions.size]).toEqual([1, true, "REQUEST_CANCELLED", 0]);
  });

  it("a private server stops when its session is evicted", () => {
    const bench = new LanesBench({ maxSessions: 1 });
    const { server } = bench.connected();
    bench.connect({ capabilities: {} });
    expect([server.stopCount, bench.sessions.size]).toEqual([1, 1]);
  });

  it("the session ends when its private server is gone for good", async () => {
    const bench = new LanesBench();
    const { session, server } = bench.connected();
    const call = server.bench.request(session, { method: "tools/call" });
    const stream = listen(session);
    await server.end();
    expect([bench.sessions.use(session.id, 0), call.outcome, stream.isEnded]).toEqual([undefined, "REQUEST_CANCELLED", true]);
  });

  it("a private server stops although the end of its session fails", () => {
    const bench = new LanesBench();
    const { session, server } = bench.connected();
    const stream = listen(session);
    // Its exchange throws when the session ends.
    server.bench.request(session, { method: "tools/call" }).dismiss();
    expect(() => bench.sessions.end(session)).toThrow("answered twice");
    expect([server.stopCount, stream.isEnded]).toEqual([1, true]);
  });

  it.each<[string, (session: Session) => Caller]>([
    ["session", (session) => session],
    ["lane", () => new StatelessCaller()],
  ])("a private server that exits is removed although the end of its %s fails", async (_what, callerOf) => {
    const bench = new LanesBench();
    const { session, server } = bench.connected();
    server.bench.request(callerOf(session), { method: "tools/call" }).dismiss();
    await server.end();
    expect([server.stopCount, bench.sessions.size, bench.lanes.load.private.servers]).toEqual([1, 0, 0]);
    expect(bench.shared.counters.defects).toBe(1);
  });

  it("an idle private server stops exactly SESSION_IDLE_TIMEOUT_MS after the last use", () => {
    const bench = new LanesBench();
    const { session, server } = bench.connected();
    vi.advanceTimersByTime(IDLE_TIMEOUT_MS - 1);
    bench.sessions.use(session.id, Date.now());
    vi.advanceTimersByTime(IDLE_TIMEOUT_MS - 1);
    expect(server.stopCount).toBe(0);
    vi.advanceTimersByTime(1);
    expect([server.stopCount, bench.sessions.size]).toEqual([1, 0]);
    expect(bench.log.lines).toEqual([{ level: "info", fields: { lane: "private-1", reason: "idle" }, message: "session ended" }]);
  });

  it("the idle time of a private server begins with its last answer", () => {
    const bench = new LanesBench();
    const { session, server } = bench.connected();
    server.bench.request(session, { method: "tools/call" });
    vi.advanceTimersByTime(900);
    server.bench.reply("tools/call");
    vi.advanceTimersByTime(IDLE_TIMEOUT_MS - 1);
    expect(server.stopCount).toBe(0);
    vi.advanceTimersByTime(1);
    expect(server.stopCount).toBe(1);
  });

  it("a private server with a listener or a request in flight is not idle", () => {
    const bench = new LanesBench({ maxPrivateServers: 3 });
    const [listened, busy, asking] = [bench.connected(), bench.connected(), bench.connected()];
    const stream = listened.session.streams.openStandalone();
    const [sink] = [listen(listened.session)];
    for (let time = 0; time < 3 * IDLE_TIMEOUT_MS; time += 500) {
      // Shorter than a request's time limit, so that there is always one in flight.
      busy.server.bench.request(busy.session, { method: "tools/call" });
      asking.server.bench.say({ id: time, method: "roots/list" });
      vi.advanceTimersByTime(500);
    }
    expect([listened, busy, asking].map(({ server }) => server.stopCount)).toEqual([0, 0, 1]);
    stream.end();
    listened.session.streams.endStandalone();
    expect(sink.isEnded).toBe(true);
    vi.advanceTimersByTime(3 * IDLE_TIMEOUT_MS);
    expect([listened, busy, asking].map(({ server }) => server.stopCount)).toEqual([1, 1, 1]);
  });

  it("a private server that takes long to stop is stopped once", () => {
    const bench = new LanesBench();
    const first = bench.connected();
    vi.advanceTimersByTime(IDLE_TIMEOUT_MS / 2);
    const second = bench.connected();
    vi.advanceTimersByTime(IDLE_TIMEOUT_MS);
    expect([first.server.stopCount, second.server.stopCount]).toEqual([1, 1]);
    expect(bench.log.messages).toEqual(["session ended", "session ended"]);
  });

  it("a shared session never ends for being idle", () => {
    const bench = new LanesBench();
    bench.connect({});
    vi.advanceTimersByTime(10 * IDLE_TIMEOUT_MS);
    expect(bench.sessions.size).toBe(1);
  });
});

describe("a session beyond MAX_SESSIONS", () => {
  /** Sessions of a shared server, each used a second after the one before. There is no room for more. */
  function full(count: number): { readonly bench: LanesBench; readonly sessions: Session[]; readonly kept: () => boolean[] } {
    const bench = new LanesBench({ maxSessions: count });
    const sessions = Array.from({ length: count }, () => {
      vi.advanceTimersByTime(1000);
      const session = bench.connect({}).session();
      if (session === undefined) throw new Error("there is no session");
      return session;
    });
    return { bench, sessions, kept: () => sessions.map((session) => bench.sessions.use(session.id, 0) !== undefined) };
  }

  it("a new session ends the one that was unused for longest", () => {
    const { bench, sessions, kept } = full(3);
    const [first] = sessions;
    bench.sessions.use(first?.id ?? "", Date.now());
    const added = bench.connect({}).session();
    expect([kept(), bench.sessions.size, added?.isInUse]).toEqual([[true, false, true], 3, false]);
  });

  it("a new session evicts no session in use if another is idle", () => {
    const { bench, sessions, kept } = full(3);
    const [listening, waiting] = sessions;
    if (listening === undefined || waiting === undefined) throw new Error("there are three");
    const stream = listen(listening);
    const call = bench.shared.request(waiting, { method: "tools/call" });
    bench.connect({});
    expect([kept(), stream.isEnded, call.isFinished]).toEqual([[true, true, false], false, false]);
  });

  it("a new session is rejected if all are in use, before its server starts", () => {
    const { bench, sessions, kept } = full(2);
    const streams = sessions.map(listen);
    const clients = [bench.connect({}), bench.connect()];
    expect(clients.map(({ exchange }) => [exchange.outcome, exchange.error?.details])).toEqual(
      clients.map(() => ["TOO_MANY_SESSIONS", { sent: false, retrySafe: true, retryAfterSeconds: 5 }]),
    );
    expect([kept(), streams.map(({ isEnded }) => isEnded), bench.servers]).toEqual([[true, true], [false, false], []]);
    expect(bench.shared.counters.toJSON()).toMatchObject({ requests: { refused: { TOO_MANY_SESSIONS: 2 } } });
  });

  it("a held initialize is rejected if all sessions are in use when its server answers", async () => {
    const { bench, sessions, kept } = full(1);
    const client = bench.connect();
    sessions.map(listen);
    bench.servers[0]?.bench.start();
    expect([client.exchange.outcome, client.session(), kept(), bench.servers[0]?.stopCount]).toEqual([
      "TOO_MANY_SESSIONS",
      undefined,
      [true],
      1,
    ]);
    await bench.servers[0]?.end();
    expect(bench.lanes.load.private.servers).toBe(0);
  });

  it("a flood of one holder ends no session of another", () => {
    const bench = new LanesBench({ maxSessions: 8 });
    const other = bench.connect({}, "10.0.0.1").session();
    for (let count = 0; count < 20; count++) bench.connect({}, "10.0.0.2");
    expect([bench.sessions.get(other?.id ?? ""), bench.sessions.size]).toEqual([other, 6]);
  });

  it.each(["constructor", "__proto__", "toString", "", "0"])("no session has the id %j", (id) => {
    const { bench } = full(1);
    expect(bench.sessions.use(id, 0)).toBeUndefined();
  });

  it("every session has an id of its own", () => {
    const ids = full(100).sessions.map(({ id }) => id);
    expect(new Set(ids).size).toBe(100);
    for (const id of ids) expect(id).toMatch(/^[\w-]{64,512}$/);
  });
});

describe("a private server without a session", () => {
  it("a private server that refuses initialize is stopped, and the client gets its error", () => {
    const bench = new LanesBench();
    const client = bench.connect();
    bench.servers[0]?.lane.onRefused(answerOfServer('{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}'));
    expect(client.exchange.response).toBe('{"jsonrpc":"2.0","id":"i","error":{"code":-32602,"message":"no"}}');
    expect([client.session(), bench.servers[0]?.stopCount]).toEqual([undefined, 1]);
  });

  it("a private server is stopped if its client disconnects during initialize", () => {
    const bench = new LanesBench();
    const client = bench.connect();
    client.exchange.disconnect();
    expect(bench.servers[0]?.stopCount).toBe(1);
    bench.servers[0]?.bench.start();
    expect([client.session(), bench.sessions.size]).toEqual([undefined, 0]);
  });

  it("a private server is stopped if it is not ready within the request timeout", () => {
    const bench = new LanesBench();
    const client = bench.connect();
    vi.advanceTimersByTime(999);
    expect(client.exchange.isFinished).toBe(false);
    vi.advanceTimersByTime(1);
    bench.servers[0]?.lane.onRefused(answerOfServer('{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"too late"}}'));
    expect([client.exchange.outcome, bench.servers[0]?.stopCount]).toEqual(["UPSTREAM_NOT_READY", 1]);
  });

  it.each<[string, JsonObject]>([
    ["shared", {}],
    ["private", { sampling: {} }],
  ])("a held initialize of a %s server is answered although its session cannot be opened", (_what, capabilities) => {
    const bench = new LanesBench();
    bench.shared.lose();
    const exchange = new RecordedExchange("1", Date.now());
    const request = requestOfClient({ id: 1, method: "initialize", params: { capabilities } });
    const fail = (): never => {
      throw new Error("no session");
    };
    bench.opener.initialize(exchange, request, fail, { memory: ACCOUNT });
    const lane = bench.servers[0]?.bench ?? bench.shared;
    lane.start();
    expect([exchange.error?.code, exchange.error?.details.sent]).toEqual(["INTERNAL_ERROR", false]);
    expect(lane.counters.toJSON()).toMatchObject({ defects: 1, answers: { results: 0, failures: { INTERNAL_ERROR: 1 } } });
    expect(bench.servers.map(({ stopCount }) => stopCount)).toEqual(bench.servers.map(() => 1));
  });

  it("a client is told at once if its private server cannot be started", async () => {
    const bench = new LanesBench();
    const client = bench.connect();
    await bench.servers[0]?.end();
    expect([client.exchange.outcome, bench.sessions.size]).toEqual(["UPSTREAM_NOT_READY", 0]);
  });
});

it("a long initialize of a client that needs a private server is rejected", () => {
  const bench = new LanesBench();
  const client = bench.connect({ capabilities: { sampling: {} }, padding: "p".repeat(256 * 1024) });
  expect([client.exchange.outcome, bench.servers.length]).toEqual(["INVALID_REQUEST", 0]);
});
