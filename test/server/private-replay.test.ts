import { expect, it } from "vitest";
import { PrivateLaneBench } from "./support/lane-bench.ts";
import type { RecordedReply } from "./support/recorded-reply.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

/** The client sends a request, and the server answers. */
function done(bench: PrivateLaneBench, method: string, params: object, answer?: object): RecordedReply {
  const call = bench.request(bench.session, { method, params });
  bench.reply(method, answer === undefined ? { result: {} } : { ...answer });
  return call;
}

function setLevel(bench: PrivateLaneBench, level: string): void {
  done(bench, "logging/setLevel", { level });
}

function subscribe(bench: PrivateLaneBench, uri: string): void {
  done(bench, "resources/subscribe", { uri });
}

function told(bench: PrivateLaneBench): string[] {
  return bench.heard().map(({ method, params }) => {
    const { level, uri } = (params ?? {}) as { level?: string; uri?: string };
    return [String(method), level ?? uri ?? ""].join(" ").trim();
  });
}

function restart(bench: PrivateLaneBench): string[] {
  bench.lose();
  bench.start();
  return told(bench);
}

const REFUSED = { error: { code: -32_602, message: "no" } };

it("level, roots change and subscriptions are replayed ahead of queued requests", () => {
  const bench = PrivateLaneBench.ready();
  subscribe(bench, "x:1");
  setLevel(bench, "debug");
  bench.notify(bench.session, { method: "notifications/roots/list_changed", params: { n: 1 } });
  bench.notify(bench.session, { method: "notifications/roots/list_changed", params: { n: 2 } });
  subscribe(bench, "x:2");
  setLevel(bench, "error");
  bench.heard();
  bench.lose();
  bench.request(bench.session, { method: "tools/call" });
  bench.start();
  expect(told(bench)).toEqual([
    "logging/setLevel error",
    "notifications/roots/list_changed",
    "resources/subscribe x:1",
    "resources/subscribe x:2",
    "tools/call",
  ]);
});

it("a roots change is replayed while held requests fill MAX_QUEUED_BYTES", () => {
  const bench = PrivateLaneBench.ready({ maxQueuedBytes: 200 });
  bench.notify(bench.session, { method: "notifications/roots/list_changed" });
  bench.heard();
  bench.lose();
  bench.request(bench.session, { method: "tools/call", params: { text: "x".repeat(300) } });
  expect(bench.request(bench.session, { method: "tools/call" }).outcome).toBe("OVERLOADED");
  bench.start();
  expect(told(bench)[0]).toBe("notifications/roots/list_changed");
});

it("a setting that was in flight at the exit fails and is not replayed", () => {
  const bench = PrivateLaneBench.ready();
  const calls = [
    bench.request(bench.session, { id: 1, method: "logging/setLevel", params: { level: "debug" } }),
    bench.request(bench.session, { id: 2, method: "resources/subscribe", params: { uri: "x:1" } }),
  ];
  bench.heard();
  expect(restart(bench)).toEqual([]);
  expect(calls.map(({ outcome, error }) => [outcome, error?.details.retrySafe])).toEqual([
    ["UPSTREAM_EXITED", true],
    ["UPSTREAM_EXITED", true],
  ]);
});

it("a queued level wins over the replayed one", () => {
  const bench = PrivateLaneBench.ready();
  setLevel(bench, "debug");
  bench.lose();
  bench.request(bench.session, { method: "logging/setLevel", params: { level: "error" } });
  bench.start();
  expect(told(bench)).toEqual(["logging/setLevel debug", "logging/setLevel error"]);
});

it("the level that was asked for last is replayed, in whatever order answers came", () => {
  const bench = PrivateLaneBench.ready();
  for (const level of ["debug", "error", "info"]) bench.request(bench.session, { method: "logging/setLevel", params: { level } });
  const [debug, error, info] = bench.heard().map(({ id }) => id);
  for (const id of [error, debug]) bench.say({ id, result: {} });
  bench.say({ id: info, ...REFUSED });
  expect(restart(bench)).toEqual(["logging/setLevel error"]);
});

it("at most 16 requests are replayed at a time, and no withdrawn one", () => {
  const bench = PrivateLaneBench.ready();
  const uris = Array.from({ length: 30 }, (_, number) => `x:${number}`);
  for (const uri of uris) subscribe(bench, uri);
  bench.lose();
  bench.start();
  const first = bench.heard();
  expect(first).toHaveLength(16);
  bench.request(bench.session, { method: "resources/unsubscribe", params: { uri: "x:16" } });
  for (const { id } of first) bench.say({ id, result: {} });
  expect(told(bench)).toEqual(["resources/unsubscribe x:16", ...uris.slice(17).map((uri) => `resources/subscribe ${uri}`)]);
});

it("a server that is ready after the end of the session hears nothing", () => {
  const bench = PrivateLaneBench.ready();
  setLevel(bench, "debug");
  bench.lose();
  bench.lane.endCaller(bench.session);
  bench.start();
  expect(bench.heard()).toEqual([]);
});
