import { LoggingLevelSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { useFakeClock } from "../support/fake-clock.ts";
import { LaneBench, listen } from "./support/lane-bench.ts";

const LEVELS = LoggingLevelSchema.options;

useFakeClock();

function log(level: string): { readonly method: string; readonly params: object } {
  return { method: "notifications/message", params: { level, data: "x" } };
}

function setLevel(level: string): { readonly method: string; readonly params: object } {
  return { method: "logging/setLevel", params: { level } };
}

describe("a log message of a shared server", () => {
  it("a session that was answered before gets no message of the request in flight", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    bench.request(a, setLevel("info"));
    bench.reply("logging/setLevel");
    bench.request(b, setLevel("info"));
    bench.request(a, { method: "tools/call" });
    bench.reply("tools/call");
    const call = bench.request(b, { method: "tools/call" });
    bench.say(log("info"));
    expect([call.emitted.length, listen(a).texts, listen(b).texts]).toEqual([1, [], []]);
  });

  it("queued requests that were not sent do not count as in flight", () => {
    const bench = LaneBench.shared({ maxInFlight: 1 });
    bench.start();
    const [a, b] = [bench.join(), bench.join()];
    bench.request(a, setLevel("info"));
    bench.reply("logging/setLevel");
    const calls = [a, b].map((session) => bench.request(session, { method: "tools/call" }));
    bench.say(log("info"));
    expect(calls.map(({ emitted }) => emitted.length)).toEqual([1, 0]);
  });

  it("a session keeps its former level if the server rejects a new one", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    bench.request(session, setLevel("error"));
    bench.reply("logging/setLevel");
    bench.request(session, setLevel("debug"));
    bench.reply("logging/setLevel", { error: { code: -32_603, message: "?" } });
    const call = bench.request(session, { method: "tools/call" });
    bench.say(log("info"));
    bench.say(log("critical"));
    expect(call.emitted).toHaveLength(1);
  });

  it("the level is sent again with the next request if the server's level is uncertain", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    bench.request(a, setLevel("info"));
    bench.reply("logging/setLevel");
    bench.request(b, setLevel("debug"));
    bench.reply("logging/setLevel", { error: { code: -32_603, message: "?" } });
    expect(bench.request(b, setLevel("error")).outcome).toEqual({});
    expect(bench.heard()).toMatchObject([setLevel("info")]);
  });

  it("a level that a client sets meanwhile overrides the sidecar's queued one", () => {
    const bench = LaneBench.ready();
    const [a, b, c] = [bench.join(), bench.join(), bench.join()];
    bench.request(a, setLevel("info"));
    bench.request(b, setLevel("error"));
    for (let number = 0; number < 20; number++) {
      bench.request(c, { method: "resources/subscribe", params: { uri: `x:${number}` } });
      bench.reply("resources/subscribe");
    }
    bench.lane.endCaller(c);
    bench.lane.endCaller(a);
    expect(bench.request(b, setLevel("debug")).isFinished).toBe(false);
    const asked = bench.heard();
    expect(asked.at(-1)).toMatchObject(setLevel("debug"));
    for (const { id } of asked) bench.say({ id, result: {} });
    expect(bench.heard().filter(({ method }) => method === "logging/setLevel")).toEqual([]);
  });

  it("a late level of one session does not replace the more verbose one of another", () => {
    const bench = LaneBench.ready({ maxInFlight: 1 });
    const [a, b] = [bench.join(), bench.join()];
    for (const method of ["x/one", "x/two"]) bench.request(a, { method });
    const calls = [bench.request(a, setLevel("error")), bench.request(b, setLevel("debug"))];
    const levels: unknown[] = [];
    for (let [request] = bench.heard(); request !== undefined; [request] = bench.heard()) {
      if (request["method"] === "logging/setLevel") levels.push(request["params"]);
      bench.say({ id: request["id"], result: { by: "server" } });
    }
    expect(levels).toEqual([{ level: "debug" }]);
    expect(calls.map(({ outcome }) => outcome)).toEqual([{}, { by: "server" }]);
  });
});

describe("the log level of a shared server", () => {
  it("the server is told the most verbose level that a session wants, and never twice", () => {
    const step = fc.record({ index: fc.nat({ max: 2 }), level: fc.option(fc.constantFrom(...LEVELS)), isLost: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const bench = LaneBench.ready();
        const sessions = [0, 1, 2].map(() => bench.join());
        const chosen = new Map<number, number>();
        let told: unknown;
        for (const { index, level, isLost } of steps) {
          const session = sessions[index];
          if (session === undefined) continue;
          if (level === null) {
            bench.lane.endCaller(session);
            sessions[index] = bench.join();
            chosen.delete(index);
          } else {
            bench.request(session, setLevel(level));
            chosen.set(index, LEVELS.indexOf(level));
          }
          for (const { id, params } of bench.heard()) {
            expect(params).not.toEqual({ level: told });
            told = (params as { readonly level: string }).level;
            bench.say({ id, result: {} });
          }
          // If no session wants logs, the level stays unchanged.
          expect(told).toBe(chosen.size === 0 ? told : LEVELS[Math.min(...chosen.values())]);
          if (!isLost) continue;
          bench.lose();
          bench.start();
          const [again] = bench.heard();
          expect(again?.["params"]).toEqual(chosen.size === 0 ? undefined : { level: told });
          if (again === undefined) told = undefined;
          else bench.say({ id: again["id"], result: {} });
        }
      }),
    );
  });
});
