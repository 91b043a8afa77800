import { describe, expect, it, vi } from "vitest";
import { listen } from "./support/lane-bench.ts";
import { IDLE_TIMEOUT_MS, LanesBench, type LanesInput, type SimulatedServer } from "./support/lanes-bench.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";
import type { Session } from "../../src/session/session.ts";

useFakeClock(TIMERS);

interface Connected {
  readonly session: Session;
  readonly server: SimulatedServer;
}

const MINUTE_MS = 60_000;
const FIRST_REQUEST_MS = 5000;

function lanes(input: LanesInput = {}): LanesBench {
  return new LanesBench({ idleTimeoutMs: 60 * MINUTE_MS, ...input });
}

function call({ session, server }: Connected): void {
  server.bench.request(session, { method: "tools/call" });
  server.bench.reply("tools/call");
}

function used(bench: LanesBench): Connected {
  const client = bench.connected();
  call(client);
  return client;
}

/** Connects one client more. @returns its error and its Retry-After, or the numbers of the servers that were stopped for it. */
function replaced(bench: LanesBench, clients: readonly Connected[]): unknown {
  const { reply } = bench.connect();
  if (reply.error !== undefined) return [reply.outcome, reply.error.details.retryAfterSeconds];
  return clients.flatMap(({ server }, index) => (server.stopCount > 0 ? [index] : []));
}

describe("a client without a free place", () => {
  it("an unused server makes room a minute after its last request", () => {
    const bench = lanes();
    const clients = [used(bench), used(bench)];
    vi.advanceTimersByTime(20_000);
    call(clients[0] ?? missing());
    vi.advanceTimersByTime(MINUTE_MS - 20_000 - 1);
    expect(replaced(bench, clients)).toEqual(["TOO_MANY_SERVERS", 1]);
    vi.advanceTimersByTime(1);
    expect(replaced(bench, clients)).toEqual([1]);
    expect(bench.log.lines).toEqual([
      { level: "info", fields: { lane: "private-2", reason: "room for a new client" }, message: "session ended" },
    ]);
  });

  it("a server that was never used makes room before any other, after a moment", () => {
    const bench = lanes({ maxPrivateServers: 3 });
    const clients = [used(bench), bench.connected(), bench.connected()];
    vi.advanceTimersByTime(FIRST_REQUEST_MS - 1);
    expect(replaced(bench, clients)).toEqual(["TOO_MANY_SERVERS", 1]);
    vi.advanceTimersByTime(MINUTE_MS);
    // A notification is a sign of life, but no request.
    clients[1]?.session.touch(Date.now() - FIRST_REQUEST_MS);
    expect(replaced(bench, clients)).toEqual([2]);
    expect(replaced(bench, clients)).toEqual([1, 2]);
  });

  it("a server in use never makes room", () => {
    const bench = lanes();
    const clients = [bench.connected(), bench.connected()];
    listen(clients[0]?.session ?? missing());
    clients[1]?.session.beginCall();
    vi.advanceTimersByTime(10 * MINUTE_MS);
    expect(replaced(bench, clients)).toEqual(["TOO_MANY_SERVERS", 30]);
  });
});

describe("a server without a free place", () => {
  it("a server starts when the other one has exited, and no sooner", async () => {
    const bench = lanes({ maxPrivateServers: 1 });
    const { server } = bench.connected();
    vi.advanceTimersByTime(FIRST_REQUEST_MS);
    const client = bench.connect();
    const next = bench.servers[1];
    expect([client.reply.isFinished, next?.isStarted, bench.pool.load.private.servers]).toEqual([false, false, 1]);
    await server.end();
    expect([next?.isStarted, bench.pool.load.private.servers]).toEqual([true, 1]);
    next?.bench.start();
    expect(client.session()?.lane).toBe(next?.lane);
  });

  it("servers that wait start in the order of their clients, one for each exit", async () => {
    const bench = lanes({ maxPrivateServers: 2 });
    const stopping = [bench.connected(), bench.connected()];
    vi.advanceTimersByTime(FIRST_REQUEST_MS);
    const waiting = [bench.connect(), bench.connect()];
    expect(bench.connect().reply.outcome).toBe("TOO_MANY_SERVERS");
    const started = (): (boolean | undefined)[] => bench.servers.slice(2).map(({ isStarted }) => isStarted);
    await stopping[1]?.server.end();
    expect(started()).toEqual([true, false]);
    await stopping[0]?.server.end();
    expect([started(), waiting.map(({ reply }) => reply.isFinished)]).toEqual([
      [true, true],
      [false, false],
    ]);
  });
});

describe("the limit of private servers", () => {
  it("a starting server counts, and may be unused 5 s after its start", () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    bench.connect();
    const { reply } = bench.connect();
    expect([reply.outcome, reply.error?.details.retryAfterSeconds]).toEqual(["TOO_MANY_SERVERS", 5]);
  });

  it("a rejected client is told to wait for the idle timeout of a server in use", () => {
    const bench = new LanesBench({ maxPrivateServers: 1 });
    listen(bench.connected().session);
    vi.advanceTimersByTime(5.5 * IDLE_TIMEOUT_MS);
    expect(bench.connect().reply.error?.details.retryAfterSeconds).toBe(IDLE_TIMEOUT_MS / 1000);
  });

  it("a rejected client is told when the first server may become idle", () => {
    const bench = new LanesBench({ maxPrivateServers: 2 });
    for (let count = 0; count < 2; count++) {
      const { session, server } = bench.connected();
      server.bench.request(session, { method: "tools/call" });
      server.bench.reply("tools/call");
      if (count === 0) vi.advanceTimersByTime(4000);
    }
    vi.advanceTimersByTime(1000);
    expect(bench.connect().reply.error?.details.retryAfterSeconds).toBe((IDLE_TIMEOUT_MS - 5000) / 1000);
  });
});

function missing(): never {
  throw new Error("there is no such client");
}
