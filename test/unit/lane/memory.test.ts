import { describe, expect, it, vi } from "vitest";
import { SessionStreams } from "../../../src/sessions/session-streams.ts";
import { collectGarbage, countAlive } from "../support/garbage.ts";
import { LaneBench, listen } from "../support/lane-bench.ts";
import { LanesBench } from "../support/lanes-bench.ts";
import { RecordedSink } from "../support/recorded-sink.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";
import { ACCOUNT } from "../support/memory.ts";

const COUNT = 20;

useFakeClock(TIMERS);

/** A session of a shared lane that uses all features, and ends. */
function useUp(bench: LaneBench, number: number): WeakRef<object>[] {
  const session = bench.join();
  listen(session);
  bench.request(session, { method: "logging/setLevel", params: { level: "debug" } });
  if (number === 0) bench.reply("logging/setLevel");
  for (const uri of ["x:all", `x:${number}`]) {
    bench.request(session, { method: "resources/subscribe", params: { uri } });
    bench.reply("resources/subscribe");
  }
  bench.request(session, { method: "resources/unsubscribe", params: { uri: `x:${number}` } });
  bench.reply("resources/unsubscribe");
  const answered = bench.request(session, { method: "tools/call" });
  bench.reply("tools/call");
  const request = session.streams.openForRequest();
  request.attach(new RecordedSink());
  request.emit("progress");
  const stream = session.streams.openForRequest();
  stream.finish("answer");
  const unanswered = bench.request(session, { method: "tools/call" });
  bench.say({ method: "notifications/message", params: { level: "info" } });
  session.streams.endStandalone();
  bench.say({ method: "notifications/tools/list_changed" });
  bench.lane.endCaller(session);
  session.streams.close();
  return [session, session.streams, stream, request, answered, unanswered].map((each) => new WeakRef(each));
}

describe("memory", () => {
  it("ended sessions of a shared server leave no session, stream or request in memory", async () => {
    const bench = LaneBench.ready();
    const refs = Array.from({ length: COUNT }, (_, number) => useUp(bench, number)).flat();
    bench.heard();
    expect([bench.eventLog.size, await countAlive(refs)]).toEqual([0, 0]);
  });

  it("ended private servers leave no server, session or request in memory", async () => {
    const bench = new LanesBench();
    const refs: WeakRef<object>[] = [];
    for (let number = 0; number < COUNT; number++) {
      await (async () => {
        const { session, server } = bench.connected();
        listen(session);
        server.bench.say({ id: number, method: "roots/list" });
        refs.push(
          new WeakRef(session),
          new WeakRef(server),
          new WeakRef(server.lane),
          new WeakRef(server.bench.request(session, { method: "x" })),
        );
        bench.sessions.end(session);
        server.bench.say({ method: "notifications/message", params: {} });
        await server.end();
        bench.servers.length = 0;
      })();
    }
    expect([bench.sessions.size, bench.eventLog.size, await countAlive(refs)]).toEqual([0, 0, 0]);
  });

  it("a kept message does not keep the chunk it came in", () => {
    // Longer ones are not on the heap.
    const [{ eventLog: log }, chunkLength] = [LaneBench.shared(), 512 * 1024];
    const streams = new SessionStreams(log.forClient(ACCOUNT));
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    for (let number = 0; number < 100; number++) streams.emit(Buffer.alloc(chunkLength, `${number},`).toString().slice(100, 200));
    collectGarbage();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(20 * chunkLength);
    expect(log.size).toBe(100);
  });

  it("the stream of an answered request is released once its answer expires", async () => {
    const bench = new LanesBench();
    const { session } = bench.connected();
    const refs = Array.from({ length: COUNT }, () => {
      const stream = session.streams.openForRequest();
      stream.finish("answer");
      return new WeakRef<object>(stream);
    });
    expect(await countAlive(refs)).toBe(COUNT);
    vi.advanceTimersByTime(bench.eventLog.limits.replayMaxAgeMs);
    expect(await countAlive(refs)).toBe(0);
  });
});
