import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { JsonObject } from "../../../src/jsonrpc/message.ts";
import type { Session } from "../../../src/mux/session.ts";
import { LaneBench, listen, messages } from "../support/lane-bench.ts";
import { LanesBench, type PrivateServer } from "../support/lanes-bench.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: 0, toFake: ["setTimeout", "clearTimeout", "Date"] });
});

afterEach(() => {
  vi.useRealTimers();
});

const CHANGING = { tools: { listChanged: true }, prompts: { listChanged: false }, resources: { listChanged: true, subscribe: true } };
const CHANGES = ["notifications/tools/list_changed", "notifications/resources/list_changed"];

function methods(texts: readonly string[]): unknown[] {
  return messages(texts).map(({ method }) => method);
}

/** A client of a server of its own that offers this. */
function connect(bench: LanesBench, capabilities: JsonObject): { readonly session: Session; readonly server: PrivateServer } {
  const client = bench.connect();
  const server = bench.servers.at(-1);
  server?.bench.start(capabilities);
  const session = client.session();
  if (server === undefined || session === undefined) throw new Error("there is no session");
  return { session, server };
}

describe("the lists of a server that was started anew", () => {
  it("may have changed: every session of a shared server is told, on its GET stream or when it opens one, once", () => {
    const bench = LaneBench.shared();
    bench.start(CHANGING);
    const [a, b] = [bench.join(), bench.join()];
    const stream = listen(a);
    const call = bench.request(a, { method: "resources/list" });
    for (let times = 0; times < 3; times++) {
      bench.lose();
      bench.start(CHANGING);
    }
    expect([methods(stream.texts), call.emitted]).toEqual([[...CHANGES, ...CHANGES, ...CHANGES], []]);
    expect(methods(listen(b).texts)).toEqual(CHANGES);
  });

  it("may have changed: the session of a private server is told", () => {
    const bench = new LanesBench();
    const { session, server } = connect(bench, CHANGING);
    const stream = listen(session);
    server.bench.lose();
    server.bench.start(CHANGING);
    expect([methods(stream.texts), server.bench.heard()]).toEqual([CHANGES, []]);
  });

  it("are no news with the first server, whichever start that was, nor to who comes with a later one", () => {
    const bench = new LanesBench();
    bench.shared.lose();
    const [early, late] = [bench.connect({}), bench.connect({})];
    bench.shared.start(CHANGING);
    const sessions = [early, late].map((client) => client.session());
    const own = bench.connect();
    bench.servers[0]?.bench.lose();
    bench.servers[0]?.bench.start(CHANGING);
    sessions.push(own.session());
    for (const session of sessions) expect(session === undefined ? "none" : listen(session).texts).toEqual([]);
  });

  it("are not spoken of where the server says that it does not tell", () => {
    const bench = LaneBench.shared();
    bench.start({ tools: {} });
    const stream = listen(bench.join());
    bench.lose();
    bench.start({ tools: {} });
    expect(stream.texts).toEqual([]);
  });
});

describe("a session of a server that was started anew", () => {
  it("goes on where that offers the same or more", () => {
    const bench = new LanesBench();
    bench.shared.lose();
    bench.shared.start({ tools: {} });
    const client = bench.connect({});
    bench.shared.lose();
    bench.shared.start({ tools: { listChanged: true }, prompts: {} }, "2024-11-05");
    expect([bench.sessions.size, client.session() !== undefined, bench.shared.ended]).toEqual([1, true, []]);
  });

  it("ends where that offers less than it was answered with, and not where others were", () => {
    const bench = new LanesBench();
    bench.shared.lose();
    bench.shared.start({ tools: {} });
    const modest = bench.connect({}).session();
    bench.shared.lose();
    bench.shared.start({ tools: {}, prompts: { listChanged: true } });
    const [one, other] = [bench.connect({}).session(), bench.connect({}).session()];
    const stream = one === undefined ? undefined : listen(one);
    bench.shared.lose();
    bench.shared.start({ tools: {}, prompts: {} });
    expect([bench.shared.ended, stream?.isEnded, bench.sessions.size]).toEqual([[one, other], true, 1]);
    expect(modest === undefined ? undefined : bench.sessions.use(modest.id, 0)).toBe(modest);
    expect(bench.shared.log.lines.filter(({ message }) => message === "sessions ended")).toEqual([
      {
        level: "warn",
        fields: { generation: 4, count: 2, reason: "the mcp server no longer offers prompts.listChanged" },
        message: "sessions ended",
      },
    ]);
  });

  it("goes on where that does not list tasks, which no session of a shared server was offered", () => {
    const bench = LaneBench.shared();
    bench.start({ tasks: { list: {}, cancel: {} } });
    bench.join();
    bench.lose();
    bench.start({ tasks: { cancel: {} } });
    expect(bench.ended).toEqual([]);
  });

  it("ends as to its requests: what was not sent is answered as any later one is, so that it can be repeated in a new session", () => {
    const bench = LaneBench.shared();
    bench.start({ prompts: {} });
    const session = bench.join();
    const sent = bench.request(session, { method: "prompts/list" });
    bench.lose();
    const held = bench.request(session, { method: "tools/call" });
    bench.heard();
    bench.start({});
    expect([held.outcome, held.error?.details]).toEqual(["SESSION_NOT_FOUND", { sent: false, retrySafe: true }]);
    expect(held.error?.message).toContain("no longer offers prompts. Call initialize again.");
    expect([sent.outcome, sent.error?.details, bench.heard()]).toEqual(["REQUEST_CANCELLED", { sent: true, retrySafe: true }, []]);
  });

  it("ends, where the server is its own, with that server", () => {
    const bench = new LanesBench();
    const { session, server } = connect(bench, { logging: {} });
    const level = server.bench.request(session, { method: "logging/setLevel", params: { level: "info" } });
    server.bench.reply("logging/setLevel");
    server.bench.lose();
    server.bench.start({});
    expect([level.outcome, server.stopCount, bench.sessions.size, server.bench.heard()]).toEqual([{}, 1, 0, []]);
  });

  it("ends, where the server is its own, with another revision of the protocol", () => {
    const bench = new LanesBench();
    const { server } = connect(bench, {});
    server.bench.lose();
    server.bench.start({}, "2025-06-18");
    expect([server.stopCount, bench.sessions.size]).toEqual([1, 0]);
  });

  it("that has ended before is not ended again", () => {
    const bench = LaneBench.shared();
    bench.start({ prompts: {} });
    bench.lane.endSession(bench.join());
    bench.lose();
    bench.start({});
    expect([bench.ended, bench.log.messages]).toEqual([[], []]);
  });
});

describe("an initialize that has waited for a server", () => {
  it("is answered once, by the first that is ready, and not by the next", () => {
    const bench = new LanesBench();
    bench.shared.lose();
    const client = bench.connect({});
    bench.shared.start({ tools: {} });
    bench.shared.lose();
    bench.shared.start({ tools: {}, prompts: {} });
    expect([client.exchange.outcome, bench.sessions.size]).toEqual([{ protocolVersion: "2025-11-25", capabilities: { tools: {} } }, 1]);
  });
});
