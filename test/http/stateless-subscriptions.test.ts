import { describe, expect, it } from "vitest";
import {
  EVERYTHING,
  noticeOf,
  readListens,
  type ServerListen,
  subscriptionIdOf,
  waitForListens,
  waitUntilFree,
} from "../support/listens.ts";
import { readSeen, offer, Gate } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { StartOptions, RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";
import type { ModernClient } from "../support/modern-client.ts";
import { TempDir } from "../support/temp-dir.ts";
import { flagsForTokens, tokenClients, TOKENS } from "../support/token-clients.ts";
import { writeFile } from "node:fs/promises";
import { failureOf } from "../support/error-reply.ts";
import { listedTool, ListedTools } from "../support/listed-tools.ts";

describe("subscriptions at a server without sessions", () => {
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
});

describe("subscriptions at a server with sessions", () => {
  const CAPABILITIES = { tools: { listChanged: true }, prompts: {}, resources: { subscribe: true, listChanged: true } };
  const UPDATED = "notifications/resources/updated";

  function start(capabilities: object = CAPABILITIES, options: StartOptions = {}): Promise<RunningSidecar> {
    const env = { FIXTURE_INITIALIZE_RESULT: offer(capabilities), ...options.env };
    return HttpBench.start({ ...options, mode: "keeps-state", env });
  }

  async function notify(client: ModernClient, method: string, params?: object): Promise<void> {
    await client.callTool("raw_line", {
      line: `${JSON.stringify({ jsonrpc: "2.0", method, params })}\n{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`,
    });
  }

  function changed(list: string): string {
    return `notifications/${list}/list_changed`;
  }

  async function subscribing(client: ModernClient): Promise<string[]> {
    const lines = (JSON.parse(await client.toolText("lines")) as string[]).map(
      (line) => JSON.parse(line) as { readonly method?: string; readonly params?: { readonly uri?: string } },
    );
    return lines
      .filter(({ method }) => method?.startsWith("resources/") === true)
      .map(({ method, params }) => `${method === "resources/subscribe" ? "+" : "-"}${params?.uri}`);
  }

  async function waitForSubscribing(client: ModernClient, expected: readonly string[]): Promise<void> {
    for (;;) {
      const found = await subscribing(client);
      if (found.length < expected.length) continue;
      expect(found).toEqual(expected);
      return;
    }
  }

  it("the acknowledgement has the part of the filter that the capabilities allow", async () => {
    await using sidecar = await start();
    await using listen = await sidecar.modernClient().listen({ ...EVERYTHING, taskIds: ["t"], other: 1 }, { id: "mine" });
    expect(listen.acknowledgement).toMatchObject({ method: "notifications/subscriptions/acknowledged" });
    expect(subscriptionIdOf(listen.acknowledgement)).toBe("mine");
    expect(listen.accepted).toEqual({ toolsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ["fixture://a"] });
  });

  it("a server without resources is not asked for any", async () => {
    await using sidecar = await start({ tools: {} });
    const client = sidecar.modernClient();
    await using listen = await client.listen(EVERYTHING);
    expect(listen.accepted).toEqual({});
    expect(await subscribing(client)).toEqual([]);
  });

  it("URIs are subscribed before the acknowledgement, once for all clients, and released with the last", async () => {
    await using sidecar = await start();
    const client = sidecar.modernClient();
    const first = await client.listen({ resourceSubscriptions: ["x://1", "x://2", "x://1"] });
    expect(first.accepted).toEqual({ resourceSubscriptions: ["x://1", "x://2"] });
    expect(await subscribing(client)).toEqual(["+x://1", "+x://2"]);
    const second = await sidecar.modernClient().listen({ resourceSubscriptions: ["x://2", "x://3"] });
    expect(await subscribing(client)).toEqual(["+x://1", "+x://2", "+x://3"]);
    await first.close();
    await waitForSubscribing(client, ["+x://1", "+x://2", "+x://3", "-x://1"]);
    await client.callTool("touch", { uri: "x://2" });
    expect(noticeOf(await second.next())).toEqual([UPDATED, subscriptionIdOf(second.acknowledgement), "x://2"]);
    await second.close();
    await waitForSubscribing(client, ["+x://1", "+x://2", "+x://3", "-x://1", "-x://2", "-x://3"]);
    await waitUntilFree(sidecar);
  });

  it("a URI is shared with sessions", async () => {
    await using sidecar = await start();
    const client = sidecar.modernClient();
    const session = await sidecar.client();
    await session.request("resources/subscribe", { uri: "x://1" });
    const listen = await client.listen({ resourceSubscriptions: ["x://1"] });
    using stream = await session.openStream();
    await client.callTool("touch", { uri: "x://1" });
    expect(noticeOf(await listen.next())).toEqual([UPDATED, subscriptionIdOf(listen.acknowledgement), "x://1"]);
    const ofSession = await stream.next();
    expect(ofSession).toMatchObject({ method: UPDATED, params: { uri: "x://1" } });
    expect(subscriptionIdOf(ofSession)).toBeUndefined();
    await listen.close();
    while ((await readStatus(sidecar)).stateless?.subscriptions !== 0);
    await session.request("resources/unsubscribe", { uri: "x://1" });
    expect(await subscribing(client)).toEqual(["+x://1", "-x://1"]);
  });

  it("each client gets exactly the notifications of its filter", async () => {
    await using sidecar = await start();
    const client = sidecar.modernClient();
    await using tools = await client.listen({ toolsListChanged: true, resourcesListChanged: false }, { id: "tools" });
    await using resources = await client.listen({ resourcesListChanged: true, resourceSubscriptions: ["x://1"] }, { id: "resources" });
    await using nothing = await client.listen({}, { id: "nothing" });
    for (const list of ["prompts", "resources", "tools"]) await notify(client, changed(list));
    for (const uri of ["x://2", "x://12", "x://1"]) await notify(client, UPDATED, { uri, _meta: { "example.com/x": 1 } });
    await notify(client, "notifications/message", { level: "error", data: "" });
    await notify(client, changed("tools"));
    expect([await tools.next(), await tools.next()].map(noticeOf)).toEqual([
      [changed("tools"), "tools"],
      [changed("tools"), "tools"],
    ]);
    const ofResources = [await resources.next(), await resources.next()];
    expect(ofResources.map(noticeOf)).toEqual([
      [changed("resources"), "resources"],
      [UPDATED, "resources", "x://1"],
    ]);
    expect(ofResources[1]?.params?.["_meta"]).toMatchObject({ "example.com/x": 1 });
    sidecar.kill("SIGTERM");
    for (const listen of [tools, resources, nothing]) expect(await listen.rest()).toMatchObject([{ result: { resultType: "complete" } }]);
  });

  it("many URIs are all subscribed, though the server takes few requests at a time", async () => {
    await using sidecar = await start(CAPABILITIES, {
      flags: ["--max-in-flight", "4", "--max-held-requests", "32", "--max-session-requests", "2"],
    });
    const client = sidecar.modernClient();
    const uris = Array.from({ length: 500 }, (_, index) => `x://${index}`);
    const listen = await client.listen({ resourceSubscriptions: uris });
    expect(listen.accepted).toEqual({ resourceSubscriptions: uris });
    await listen.close();
    await waitUntilFree(sidecar);
    while ((await readSeen(client)).filter((method) => method === "resources/unsubscribe").length < uris.length);
  });

  it("a subscription watches at most 1024 URIs, and the acknowledgement has them", async () => {
    await using sidecar = await start();
    const uris = Array.from({ length: 1500 }, (_, index) => `x://${index}`);
    await using listen = await sidecar.modernClient().listen({ resourceSubscriptions: uris });
    expect(listen.accepted).toEqual({ resourceSubscriptions: uris.slice(0, 1024) });
  });

  it("the URIs of a subscription count as memory until its end", async () => {
    await using sidecar = await start(CAPABILITIES, { flags: ["--memory-budget-bytes", "4194304"] });
    const client = sidecar.modernClient();
    // In memory, each of these takes over half of the quarter that one client may have for subscriptions.
    const filter = (name: string): object => ({
      resourceSubscriptions: Array.from({ length: 30 }, (_, index) => `${name}${"x".repeat(7000)}${index}`),
    });
    const listen = await client.listen(filter("a"));
    expect((await readStatus(sidecar)).memory["subscriptions"]).toBeGreaterThan(2 * 30 * 7000);
    const { status, error } = await client.request("subscriptions/listen", { notifications: filter("b") });
    expect({ status, code: error?.data?.["code"] }).toEqual({ status: 503, code: "OUT_OF_MEMORY" });
    await listen.close();
    await waitUntilFree(sidecar);
  });

  it("the subscriptions of one client ask the server one after another, and others meanwhile", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await start(CAPABILITIES, { flags: await flagsForTokens(directory) });
    const [one, other] = tokenClients(sidecar, {});
    await one.callTool("mute", { method: "resources/subscribe" });
    const leaving = new AbortController();
    const waiting = ["a", "b"].map((name) => one.listen({ resourceSubscriptions: [`x://${name}`] }, { signal: leaving.signal }));
    while ((await subscribing(other)).length < 1);
    const ofOther = other.listen({ resourceSubscriptions: ["x://c"] }, { signal: leaving.signal });
    await waitForSubscribing(other, ["+x://a", "+x://c"]);
    // Those without resources need not wait.
    await using listen = await one.listen({ toolsListChanged: true });
    expect(listen.accepted).toEqual({ toolsListChanged: true });
    leaving.abort();
    for (const listening of [...waiting, ofOther]) await expect(listening).rejects.toThrow("aborted");
  });

  it.each(["*/*", "application/json, text/*", "application/json, text/event-stream"])(
    "a client may listen with Accept: %s",
    async (accept) => {
      await using sidecar = await start();
      await using listen = await sidecar.modernClient().listen({}, { headers: { Accept: accept } });
      expect(listen.accepted).toEqual({});
    },
  );

  it("the stream begins although the server is slow to accept a URI", async () => {
    await using sidecar = await start(CAPABILITIES, { flags: ["--stream-after-ms", "100", "--keep-alive-ms", "100"] });
    const client = sidecar.modernClient();
    await client.callTool("mute", { method: "resources/subscribe" });
    using stream = await client.begin("subscriptions/listen", { notifications: { resourceSubscriptions: ["x://1"] } });
    expect([stream.status, stream.isStream, (await stream.block())?.data]).toEqual([200, true, undefined]);
  });

  it("nothing comes before the acknowledgement", async () => {
    await using sidecar = await start(CAPABILITIES, { flags: ["--request-timeout-ms", "1500", "--hung-timeouts", "100"] });
    const client = sidecar.modernClient();
    await using first = await client.listen({ resourceSubscriptions: ["x://1"] });
    await client.callTool("mute", { method: "resources/subscribe" });
    const waiting = client.listen({ toolsListChanged: true, resourceSubscriptions: ["x://1", "x://2"] });
    while ((await subscribing(client)).length < 2);
    await client.callTool("touch", { uri: "x://1" });
    expect((await first.next()).method).toBe(UPDATED);
    await using second = await waiting;
    expect(second.accepted).toEqual({ toolsListChanged: true, resourceSubscriptions: ["x://1"] });
    await client.callTool("touch", { uri: "x://1" });
    expect((await second.next()).method).toBe(UPDATED);
  });

  it("a client that leaves before the acknowledgement leaves no subscription", async () => {
    await using sidecar = await start();
    const client = sidecar.modernClient();
    await client.callTool("mute", { method: "resources/subscribe" });
    const leaving = new AbortController();
    const listening = client.listen({ resourceSubscriptions: ["x://1", "x://2"] }, { signal: leaving.signal });
    while ((await subscribing(client)).length < 2);
    leaving.abort();
    await expect(listening).rejects.toThrow("aborted");
    await waitForSubscribing(client, ["+x://1", "+x://2", "-x://1", "-x://2"]);
    await waitUntilFree(sidecar);
  });
});

describe("a request that waits", () => {
  const [FIRST, ...OTHERS] = TOKENS;

  it.each(["tools/call", "subscriptions/listen"])("%s is rejected if its token is removed meanwhile", async (method) => {
    await using directory = await TempDir.create();
    await using gate = await Gate.create();
    const flags = await flagsForTokens(directory);
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags, untilReady: false });
    const params = method === "tools/call" ? { name: "echo", arguments: {} } : { notifications: {} };
    const waiting = sidecar.modernClient({ token: FIRST }).request(method, params);
    const headers = { Authorization: `Bearer ${OTHERS[0]}` };
    while ((await readStatus(sidecar, headers)).lanes.shared.waiting !== 1);
    await writeFile(directory.file("tokens"), OTHERS.join("\n"));
    await sidecar.waitForLog("auth tokens reloaded");
    await gate.open();
    expect(failureOf(await waiting)).toEqual([401, -32603, "UNAUTHORIZED"]);
    expect((await readStatus(sidecar, headers)).stateless?.subscriptions).toBe(0);
  });

  it("a request holds no memory after its client has disconnected", async () => {
    await using gate = await Gate.create();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, untilReady: false });
    const stop = new AbortController();
    const abandoned = sidecar.modernClient().callTool("echo", {}, { signal: stop.signal });
    while ((await readStatus(sidecar)).lanes.shared.waiting !== 1);
    stop.abort();
    await expect(abandoned).rejects.toThrow("aborted");
    while ((await readStatus(sidecar)).lanes.shared.waiting !== 0);
    expect((await readStatus(sidecar)).memory).toMatchObject({ requests: 0 });
  });

  it("calls that wait for the list of tools count for the limit of their client", async () => {
    await using tools = await ListedTools.create([listedTool("echo")]);
    await tools.fallSilent();
    await using sidecar = await HttpBench.start({ env: tools.env, flags: ["--max-session-requests", "2", "--child-era", "legacy"] });
    const client = sidecar.modernClient();
    const calls = [1, 2, 3].map((id) => client.callTool("echo", {}, { id }));
    expect(failureOf(await Promise.race(calls))).toEqual([429, -32603, "SESSION_OVERLOADED"]);
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, 429]);
  });
});
