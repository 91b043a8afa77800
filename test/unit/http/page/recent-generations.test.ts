import { describe, expect, it } from "vitest";
import { RecentGenerations } from "../../../../src/http/page/recent-generations.ts";
import type { UpstreamExit, UpstreamHandshake, UpstreamInput } from "../../../../src/upstream/port.ts";

describe("the last generations", () => {
  const input = {} as UpstreamInput;
  const handshake = {} as UpstreamHandshake;
  const exit = { kind: "crash", reason: "exited with code 1", at: new Date(0), stderrTail: ["line"] } as unknown as UpstreamExit;

  it("each generation of each lane has its start, its readiness and its exit", () => {
    const generations = new RecentGenerations();
    const [shared, own] = [generations.observe("shared", false), generations.observe("private-1", false)];
    shared.onStarted(input);
    own.onStarted(input);
    shared.onReady(handshake);
    shared.onLost(exit, []);
    const before = generations.all;
    shared.onStarted(input);
    expect(generations.all).not.toBe(before);
    expect(generations.all).toMatchObject([
      {
        lane: "shared",
        number: 1,
        readyAt: expect.any(String) as string,
        exit: { kind: "crash", stderrTail: ["line"], likelyCause: null },
      },
      { lane: "private-1", number: 1, readyAt: null, exit: null },
      { lane: "shared", number: 2, readyAt: null, exit: null },
    ]);
  });

  it("a probe that the server refuses is forgotten", () => {
    const generations = new RecentGenerations();
    const probe = generations.observe("modern", true);
    probe.onStarted(input);
    expect(generations.all).toHaveLength(1);
    probe.onLost(exit, []);
    expect(generations.all).toEqual([]);
    probe.onStarted(input);
    probe.onReady(handshake);
    probe.onLost(exit, []);
    expect(generations.all).toMatchObject([{ lane: "modern", number: 2, exit: { kind: "crash" } }]);
  });

  it("30 are kept, first of all those that run", () => {
    const generations = new RecentGenerations();
    generations.observe("shared", false).onStarted(input);
    const crashing = generations.observe("private-1", false);
    for (let index = 0; index < 100; index++) {
      crashing.onStarted(input);
      crashing.onLost(exit, []);
    }
    expect(generations.all).toHaveLength(30);
    expect(generations.all[0]).toMatchObject({ lane: "shared", exit: null });
    expect(generations.all.at(-1)).toMatchObject({ number: 100 });
  });
});
