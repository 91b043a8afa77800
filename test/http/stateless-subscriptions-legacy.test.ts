import { expect, it } from "vitest";
import { offer, readSeen } from "../support/fixture-server.ts";
import { EVERYTHING, noticeOf, subscriptionIdOf, waitUntilFree } from "../support/listens.ts";
import type { ModernClient } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { StartOptions, RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";
import { flagsForTokens, tokenClients } from "../support/token-clients.ts";

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
