import { expect, it } from "vitest";
import {
  EVERYTHING,
  noticeOf,
  readListens,
  type ServerListen,
  subscriptionIdOf,
  waitForListens,
  waitUntilFree,
} from "../support/listens.ts";
import { readSeen } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { StartOptions, RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

const LISTENED = "notifications/resources/updated";
const TOOLS_CHANGED = "notifications/tools/list_changed";

function start(options: StartOptions = {}): Promise<RunningSidecar> {
  return HttpBench.start({ mode: "modern-only", ...options });
}

it.each([5, "5", "é"])("all messages have the id %j of the request, with its type", async (id) => {
  await using sidecar = await start();
  const client = sidecar.modernClient();
  await using listen = await client.listen(EVERYTHING, { id });
  expect(listen.acknowledgement).toMatchObject({ method: "notifications/subscriptions/acknowledged" });
  expect([subscriptionIdOf(listen.acknowledgement), listen.accepted]).toEqual([id, EVERYTHING]);
  expect(listen.stream.headers).toMatchObject({ "content-type": "text/event-stream", "x-accel-buffering": "no" });
  await client.callTool("change_list", { list: "prompts" });
  await client.callTool("touch", { uri: "fixture://a/b" });
  expect([await listen.next(), await listen.next()].map(noticeOf)).toEqual([
    ["notifications/prompts/list_changed", id],
    [LISTENED, id, "fixture://a/b"],
  ]);
  const [{ id: wireId }] = (await readListens(client)) as readonly [ServerListen];
  await client.callTool("end_listens", { id: wireId });
  const [ended, ...others] = await listen.rest();
  expect(others).toEqual([]);
  expect(ended).toMatchObject({ id, result: { resultType: "complete" } });
  expect(subscriptionIdOf(ended ?? listen.acknowledgement)).toBe(id);
  await waitUntilFree(sidecar);
});

it("the server gets the filter unchanged, and its acknowledgement passes", async () => {
  const capabilities = { tools: { listChanged: true }, resources: { subscribe: true } };
  const result = JSON.stringify({
    resultType: "complete",
    supportedVersions: ["2026-07-28"],
    capabilities,
    ttlMs: 0,
    cacheScope: "private",
  });
  await using sidecar = await start({ env: { FIXTURE_DISCOVER_RESULT: result } });
  const client = sidecar.modernClient();
  const filter = { ...EVERYTHING, "example.com/other": [1] };
  await using listen = await client.listen(filter);
  expect(listen.accepted).toEqual({ toolsListChanged: true, resourceSubscriptions: ["fixture://a"] });
  expect(await readListens(client)).toMatchObject([{ requested: filter }]);
});

it("clients with the same id have subscriptions of their own", async () => {
  await using sidecar = await start();
  const [client, other] = [sidecar.modernClient(), sidecar.modernClient()];
  await using first = await client.listen({ resourceSubscriptions: ["fixture://a"] }, { id: 1 });
  await using second = await other.listen({ resourceSubscriptions: ["fixture://b"] }, { id: 1 });
  for (const uri of ["fixture://b", "fixture://a"]) expect(await client.toolText("touch", { uri })).toBe("1");
  expect(noticeOf(await first.next())).toEqual([LISTENED, 1, "fixture://a"]);
  expect(noticeOf(await second.next())).toEqual([LISTENED, 1, "fixture://b"]);
  await first.close();
  await waitForListens(client, 1);
  await client.callTool("touch", { uri: "fixture://b" });
  expect(noticeOf(await second.next())).toEqual([LISTENED, 1, "fixture://b"]);
});

it("a subscription that the server cancels ends with a result", async () => {
  await using sidecar = await start();
  const client = sidecar.modernClient();
  await using listen = await client.listen(EVERYTHING, { id: "mine" });
  const [{ id: wireId }] = (await readListens(client)) as readonly [ServerListen];
  await client.callTool("cancel_listens", { id: wireId });
  const messages = await listen.rest();
  expect(messages).toMatchObject([{ id: "mine", result: { resultType: "complete" } }]);
  expect(messages.map(subscriptionIdOf)).toEqual(["mine"]);
  await waitUntilFree(sidecar);
});

it("a subscription ends with a result even if that of the server is too long", async () => {
  await using sidecar = await start({ flags: ["--max-line-bytes", "65536"] });
  const client = sidecar.modernClient();
  await using listen = await client.listen(EVERYTHING, { id: "mine" });
  await client.callTool("end_listens", { length: 70_000, id: (await readListens(client))[0]?.id });
  expect(await listen.rest()).toMatchObject([{ id: "mine", result: { resultType: "complete" } }]);
  await waitUntilFree(sidecar);
});

it("the server gets a cancellation when the client leaves before the acknowledgement", async () => {
  await using sidecar = await start();
  const client = sidecar.modernClient();
  await client.callTool("mute", { method: "subscriptions/listen" });
  const leaving = new AbortController();
  const listening = client.listen(EVERYTHING, { signal: leaving.signal });
  while ((await readSeen(client)).filter((method) => method === "subscriptions/listen").length < 2);
  leaving.abort();
  await expect(listening).rejects.toThrow("aborted");
  while (!(await readSeen(client)).some((method) => method.startsWith("notifications/cancelled")));
  await waitUntilFree(sidecar);
});

it("a client has at most 256 subscriptions, and its other requests are unaffected", async () => {
  await using sidecar = await start();
  const client = sidecar.modernClient();
  const listens = await Promise.all(Array.from({ length: 256 }, () => client.listen({ toolsListChanged: true })));
  const refused = await client.begin("subscriptions/listen", { notifications: {} });
  expect(refused.status).toBe(429);
  expect(refused.headers["retry-after"]).toBe("1");
  expect((await refused.answer()).error?.data).toMatchObject({ code: "SESSION_OVERLOADED" });
  expect(await client.toolText("change_list", { list: "tools" })).toBe("257");
  for (const listen of listens) expect((await listen.next()).method).toBe(TOOLS_CHANGED);
  expect((await readStatus(sidecar)).memory["subscriptions"]).toBeGreaterThan(256 * 1024);
  await listens.pop()?.close();
  await waitForListens(client, 255);
  listens.push(await client.listen({ toolsListChanged: true }));
  for (const listen of listens) await listen.close();
  await waitForListens(client, 0);
  await waitUntilFree(sidecar);
});
