import { expect, it, vi } from "vitest";
import type { JsonObject } from "../../src/mcp/message.ts";
import { toolNotFound } from "../../src/server/failures.ts";
import type { Config } from "../../src/config/load.ts";
import type { Call } from "../../src/server/call.ts";
import { type CallVerdict } from "../../src/server/call.ts";
import { useFakeClock } from "../support/fake-clock.ts";
import { LaneBench, OpenPolicy } from "./support/lane-bench.ts";

const CAPABLE = { tools: {} };
const CALL = { method: "tools/call", params: { name: "a" } };

useFakeClock();

class Watcher extends OpenPolicy {
  override readonly needsTools = true;
  readonly told: [generation: number, names: unknown[]][] = [];
  override onTools(tools: readonly JsonObject[], generation: number): void {
    this.told.push([generation, tools.map(({ name }) => name)]);
  }

  override onLost(): void {
    this.told.push([0, []]);
  }

  override review({ toolName: name, text }: Call): CallVerdict | undefined {
    return name === "b" ? toolNotFound(name) : text.includes('"wrong"') ? { resultText: '{"isError":true}' } : undefined;
  }
}

function watched(limits: Partial<Config> = {}): { readonly bench: LaneBench; readonly watcher: Watcher } {
  const watcher = new Watcher();
  return { watcher, bench: LaneBench.shared(limits, { policy: watcher, retry: "read-only" }) };
}

function heardMethods(bench: LaneBench): unknown[] {
  return bench.heard().map(({ method }) => method);
}

const NOT_LISTED = 'tools/list did not return the tools: the server answered with an error: {"code":-32603,"message":"no"}';

it("the server is not restarted for a listing that the end of the lane or of the server interrupts", () => {
  const { bench } = watched();
  bench.start(CAPABLE);
  bench.lose();
  bench.start(CAPABLE);
  bench.lane.close();
  expect([heardMethods(bench), bench.upstream.restartReasons]).toEqual([["tools/list", "notifications/cancelled"], []]);
});

it("a queued request is rejected as not sent if the listing takes too long", () => {
  const { bench } = watched();
  bench.start(CAPABLE);
  const reply = bench.request(bench.join(), CALL);
  vi.advanceTimersByTime(600);
  expect(reply.error).toMatchObject({ code: "UPSTREAM_NOT_READY", details: { sent: false, retrySafe: true } });
  expect(reply.error?.message).toContain("has not listed its tools yet");
});

it("a server that does not list its tools is restarted, and queued requests go on", () => {
  const { bench, watcher } = watched();
  bench.start(CAPABLE);
  const reply = bench.request(bench.join(), CALL);
  bench.reply("tools/list", { error: { code: -32603, message: "no" } });
  expect(bench.upstream.restartReasons).toEqual([NOT_LISTED]);
  bench.lose();
  bench.start(CAPABLE);
  bench.reply("tools/list", { result: { tools: [{ name: "a" }] } });
  expect([watcher.told.at(-1), heardMethods(bench), reply.outcome]).toEqual([[2, ["a"]], ["tools/call"], undefined]);
});

it("changed tools are listed again while calls go on", () => {
  const { bench, watcher } = watched();
  bench.start(CAPABLE);
  bench.reply("tools/list", { result: { tools: [] } });
  bench.say({ method: "notifications/tools/list_changed" });
  bench.request(bench.join(), CALL);
  const heard = bench.heard();
  expect(heard.map(({ method }) => method)).toEqual(["tools/list", "tools/call"]);
  bench.say({ id: heard[0]?.["id"], result: { tools: [{ name: "new" }] } });
  expect(watcher.told).toEqual([
    [1, []],
    [1, ["new"]],
  ]);
});

it("a queued call is judged by the changed tools before it is sent", () => {
  const { bench, watcher } = watched({ maxInFlight: 1 });
  bench.start(CAPABLE);
  bench.reply("tools/list", { result: { tools: [] } });
  const session = bench.join();
  const running = bench.request(session, CALL);
  const [{ id } = {}] = bench.heard();
  const waiting = ["b", "b", "wrong", "a"].map((name) => bench.request(session, { method: "tools/call", params: { name } }));
  bench.say({ method: "notifications/tools/list_changed" });
  bench.reply("tools/list", { result: { tools: [{ name: "a" }] } });
  const refused = ["TOOL_NOT_FOUND", "TOOL_NOT_FOUND", { isError: true }];
  expect([watcher.told.length, waiting.map(({ outcome }) => outcome)]).toEqual([2, [...refused, undefined]]);
  bench.say({ id, result: {} });
  expect([running.outcome, heardMethods(bench), bench.lane.calls.load.requestsInFlight]).toEqual([{}, ["tools/call"], 1]);
});

it("known tools survive two failed listings, and the third restarts the server", () => {
  const { bench, watcher } = watched();
  bench.start(CAPABLE);
  bench.reply("tools/list", { result: { tools: [{ name: "a" }] } });
  bench.say({ method: "notifications/tools/list_changed" });
  const fail = (): void => bench.reply("tools/list", { error: { code: -32603, message: "no" } });
  for (let times = 0; times < 2; times++) fail();
  bench.request(bench.join(), CALL);
  expect([watcher.told.length, bench.upstream.restartReasons]).toEqual([1, []]);
  expect(bench.log.messages.filter((message) => message.includes("tools not listed"))).toHaveLength(2);
  fail();
  expect(bench.upstream.restartReasons).toEqual([NOT_LISTED]);
});

it("a successful listing resets the count of failures", () => {
  const { bench } = watched();
  bench.start(CAPABLE);
  bench.reply("tools/list", { result: { tools: [] } });
  for (let times = 0; times < 5; times++) {
    bench.say({ method: "notifications/tools/list_changed" });
    bench.reply("tools/list", { error: { code: -32603, message: "no" } });
    bench.reply("tools/list", { result: { tools: [] } });
  }
  expect(bench.upstream.restartReasons).toEqual([]);
});

it("notifications and the sidecar's own requests do not wait for the tools", () => {
  const { bench } = watched();
  const session = bench.join();
  bench.start(CAPABLE);
  bench.notify(session, { method: "notifications/x" });
  expect(heardMethods(bench)).toEqual(["tools/list", "notifications/x"]);
});

it("tools that change during each listing are taken as they are, and listed again", () => {
  const { bench, watcher } = watched();
  bench.start(CAPABLE);
  bench.reply("tools/list", { result: { tools: [] } });
  const change = (): void => bench.say({ method: "notifications/tools/list_changed" });
  const list = (name: string): void => bench.reply("tools/list", { result: { tools: [{ name }] } });
  change();
  for (const name of ["1", "2", "3", "4"]) {
    for (let times = 0; times < 10; times++) change();
    list(name);
  }
  list("5");
  expect([watcher.told, bench.heard()]).toEqual([
    [
      [1, []],
      [1, ["4"]],
      [1, ["5"]],
    ],
    [],
  ]);
});

it("tools that change constantly are listed once a second, also after a defect of a listing", () => {
  const { bench } = watched();
  bench.start(CAPABLE);
  const { calls } = bench.lane;
  const answerAll = (): number => {
    let count = 0;
    for (let asked = bench.heard(); asked.length > 0; asked = bench.heard()) {
      count += asked.length;
      bench.say({ method: "notifications/tools/list_changed" });
      bench.say({ id: asked[0]?.["id"], result: { tools: [] } });
    }
    return count;
  };
  expect(answerAll()).toBe(60);
  for (let seconds = 1; seconds <= 3; seconds++) {
    vi.advanceTimersByTime(1001);
    expect(answerAll()).toBe(1);
  }
  vi.spyOn(calls, "requestOwn").mockImplementationOnce(() => {
    throw new Error("a defect");
  });
  vi.advanceTimersByTime(1001);
  expect(answerAll()).toBe(0);
  bench.say({ method: "notifications/tools/list_changed" });
  vi.advanceTimersByTime(1001);
  expect(answerAll()).toBe(1);
});
