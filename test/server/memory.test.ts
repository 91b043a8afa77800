import { describe, expect, it, vi } from "vitest";
import { TaskOwners } from "../../src/server/tasks.ts";
import { LaneBench, PrivateLaneBench, listen, messages } from "./support/lane-bench.ts";
import { LanesBench } from "./support/lanes-bench.ts";
import { RecordedSink } from "./support/recorded-sink.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";
import { AMPLE_MEMORY } from "./support/memory.ts";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const COUNT = 20;

useFakeClock(TIMERS);

const PADDING = { text: "p".repeat(4000) };

function usedForRequests(): number {
  return AMPLE_MEMORY.status.requests;
}

function questionId(bench: PrivateLaneBench): unknown {
  const sink = listen(bench.session);
  bench.say({ id: 1, method: "roots/list" });
  return messages(sink.texts)[0]?.["id"];
}

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
  stream.emit("answer");
  stream.end();
  const unanswered = bench.request(session, { method: "tools/call" });
  bench.say({ method: "notifications/message", params: { level: "info" } });
  session.streams.endStandalone();
  bench.say({ method: "notifications/tools/list_changed" });
  bench.lane.endCaller(session);
  session.streams.close();
  return [session, session.streams, stream, request, answered, unanswered].map((each) => new WeakRef(each));
}

describe("memory", () => {
  it("ended sessions of a shared server leave no session, stream, request or timer in memory", async () => {
    const bench = LaneBench.ready();
    const refs = Array.from({ length: COUNT }, (_, number) => useUp(bench, number)).flat();
    bench.heard();
    bench.lose();
    expect([bench.eventLog.bytes, vi.getTimerCount(), await countAlive(refs)]).toEqual([0, 0, 0]);
  });

  it("ended private servers leave no server, session, request or timer in memory", async () => {
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
        expect(vi.getTimerCount()).toBe(0);
        bench.servers.length = 0;
      })();
    }
    expect([bench.sessions.size, bench.eventLog.bytes, vi.getTimerCount(), await countAlive(refs)]).toEqual([0, 0, 0, 0]);
  });

  it.each<[string, (bench: PrivateLaneBench) => void]>([
    [
      "a repeated initialized notification",
      (bench) => bench.notify(bench.session, { method: "notifications/initialized", params: PADDING }),
    ],
    ["an answer to the server", (bench) => bench.answer({ id: questionId(bench), result: PADDING })],
    [
      "a cancellation",
      (bench) => {
        bench.upstream.isReading = true;
        bench.request(bench.session, { id: 7, method: "tools/call" });
        bench.upstream.isReading = false;
        bench.notify(bench.session, { method: "notifications/cancelled", params: { requestId: 7, reason: PADDING.text } });
      },
    ],
    ["a notification", (bench) => bench.notify(bench.session, { method: "notifications/x", params: PADDING })],
  ])("%s counts until the server reads it, or exits", (_name, send) => {
    const bench = PrivateLaneBench.ready();
    bench.upstream.isReading = false;
    const before = usedForRequests();
    send(bench);
    expect(usedForRequests() - before).toBeGreaterThan(2 * PADDING.text.length);
    bench.lose();
    bench.upstream.isReading = true;
    bench.start();
    // The initialized notification is kept for the next start.
    expect(usedForRequests() - before).toBeLessThan(2 * PADDING.text.length);
    bench.lane.endCaller(bench.session);
    expect(usedForRequests()).toBe(before);
  });

  it("requests that were not sent make room for other clients, the newest first", () => {
    const bench = LaneBench.ready({ maxInFlight: 1 });
    const session = bench.join();
    const [sent, older, newer] = [1, 2, 3].map((id) => bench.request(session, { id, method: "tools/call", params: PADDING }));
    const before = usedForRequests();
    expect([...bench.lane.freeUnsent("another client")]).toEqual([]);
    const steps = bench.lane.freeUnsent(session.memory.holder);
    steps.next();
    expect([sent?.outcome, older?.outcome, newer?.outcome]).toEqual([undefined, undefined, "OUT_OF_MEMORY"]);
    expect(before - usedForRequests()).toBeGreaterThan(PADDING.text.length);
    expect([...steps].length).toBe(1);
    expect([sent?.outcome, older?.outcome]).toEqual([undefined, "OUT_OF_MEMORY"]);
  });
});

describe("the tasks of a shared server", () => {
  it("the last 10,000 tasks of all clients are remembered", () => {
    const owners = new TaskOwners();
    for (let number = 0; number <= 10_000; number++) owners.add(`task ${number}`, `client ${number % 20}`);
    expect([0, 1, 10_000].map((number) => owners.isOfOther(`task ${number}`, "another client"))).toEqual([false, true, true]);
  });
});

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** On a busy machine, one collection has once left an object that nothing holds. A leak is left by all of them. */
const MAX_COLLECTIONS = 20;

/** Returns the number of these objects in memory after garbage collections. The caller must not hold them while it awaits this. */
async function countAlive(refs: readonly WeakRef<object>[]): Promise<number> {
  let alive = refs.length;
  for (let collections = 0; alive > 0 && collections < MAX_COLLECTIONS; collections++) {
    // WeakRef targets that were read in this turn stay alive until its end.
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    alive = refs.filter((ref) => ref.deref() !== undefined).length;
  }
  return alive;
}
