import { describe, expect, it } from "vitest";
import type { Session } from "../../src/sessions/session.ts";
import { LaneBench, listen } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

/** A session whose call was answered with a task, and the token that the server knows. */
function withTask(bench: LaneBench): { readonly session: Session; readonly token: unknown } {
  const session = bench.join();
  bench.request(session, { method: "tools/call", params: { task: {}, _meta: { progressToken: "own" } } });
  const token = bench.heard().at(-1)?.["id"];
  bench.say({ id: token, result: { task: { taskId: "t", status: "working" } } });
  return { session, token };
}

function progress(bench: LaneBench, progressToken: unknown): void {
  bench.say({ method: "notifications/progress", params: { progressToken, progress: 1 } });
}

describe("the progress of a task", () => {
  it.each([
    [{ result: { task: { taskId: "t", status: "working" } } }, 1],
    [{ result: { content: [] } }, 0],
    [{ result: { task: "t" } }, 0],
    [{ result: { task: { taskId: 1 } } }, 0],
    [{ result: { task: null } }, 0],
    [{ result: [] }, 0],
    [{ result: null }, 0],
    [{ error: { code: 1, message: "no" } }, 0],
  ])("progress after the answer %j is delivered %i times", (answer, count) => {
    const bench = LaneBench.ready();
    const session = bench.join();
    bench.request(session, { method: "tools/call", params: { _meta: { progressToken: "own" } } });
    const token = bench.heard()[0]?.["id"];
    bench.say({ id: token, ...answer });
    for (const each of [token, `0${String(token)}`, undefined]) progress(bench, each);
    expect([listen(session).texts.length, bench.dropped.notifications]).toEqual([count, 3 - count]);
  });

  it("progress of a task is dropped after 1024 newer tasks", () => {
    const bench = LaneBench.ready();
    const tasks = Array.from({ length: 1025 }, () => withTask(bench));
    for (const { token } of [tasks[0], tasks[1]].filter((task) => task !== undefined)) progress(bench, token);
    expect(tasks.slice(0, 2).map(({ session }) => listen(session).texts.length)).toEqual([0, 1]);
  });
});
