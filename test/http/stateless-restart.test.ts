import { describe, expect, it } from "vitest";
import { Gate, QUICK_RESTART, crashProcess, offer, readWhere } from "../support/fixture-server.ts";
import { EVERYTHING, noticeOf, waitForListens, waitUntilFree } from "../support/listens.ts";
import type { ModernClient } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { StartOptions, RunningSidecar } from "../support/running-sidecar.ts";

const UPDATED = "notifications/resources/updated";
const LISTS = ["tools", "prompts", "resources"].map((list) => `notifications/${list}/list_changed`);
const GRACEFUL = { result: { resultType: "complete" } };

function start(mode: string, { env, flags = [] }: StartOptions = {}): Promise<RunningSidecar> {
  return HttpBench.start({ mode, flags: [...QUICK_RESTART, ...flags], ...(env === undefined ? {} : { env }) });
}

async function crashServerOf(sidecar: RunningSidecar, client: ModernClient): Promise<void> {
  await crashProcess(sidecar, (await readWhere(client)).pid);
}

function discoverResult(capabilities: object): string {
  return JSON.stringify({ resultType: "complete", supportedVersions: ["2026-07-28"], capabilities, ttlMs: 0, cacheScope: "private" });
}

// A server without sessions is the shared process; a server of both eras has a second one.
describe.each(["modern-only", "dual"])("a restarted server in mode %s", (mode) => {
  it("subscriptions are opened again, with one notice of each accepted list", async () => {
    await using sidecar = await start(mode);
    const client = sidecar.modernClient();
    await using listen = await client.listen(EVERYTHING, { id: "all" });
    await using one = await client.listen({ promptsListChanged: true }, { id: "one" });
    for (let crashes = 0; crashes < 2; crashes++) {
      await crashServerOf(sidecar, client);
      const notices = [await listen.next(), await listen.next(), await listen.next()].map(noticeOf);
      expect(notices).toEqual(expect.arrayContaining(LISTS.map((method) => [method, "all"])));
      expect(noticeOf(await one.next())).toEqual(["notifications/prompts/list_changed", "one"]);
      await client.callTool("touch", { uri: "fixture://a" });
      expect(noticeOf(await listen.next())).toEqual([UPDATED, "all", "fixture://a"]);
    }
    await client.callTool("change_list", { list: "prompts" });
    for (const each of [listen, one]) expect((await each.next()).method).toBe("notifications/prompts/list_changed");
  });

  it("a subscription ends with a result if the restarted server accepts less of it", async () => {
    await using gate = await Gate.create();
    const FIXTURE_NEXT_DISCOVER_RESULT = discoverResult({ tools: { listChanged: true }, resources: { subscribe: true } });
    await using sidecar = await start(mode, { env: { ...gate.env, FIXTURE_NEXT_DISCOVER_RESULT } });
    const client = sidecar.modernClient();
    await using reduced = await client.listen(EVERYTHING, { id: 1 });
    await using kept = await client.listen({ toolsListChanged: true, resourceSubscriptions: ["x://1"] }, { id: 2 });
    const { pid } = await readWhere(client);
    await gate.open();
    await crashProcess(sidecar, pid);
    expect(await reduced.rest()).toMatchObject([{ id: 1, ...GRACEFUL }]);
    expect(noticeOf(await kept.next())).toEqual(["notifications/tools/list_changed", 2]);
    await waitForListens(client, 1);
    await kept.close();
    await waitUntilFree(sidecar);
  });

  it("requests and subscriptions that arrive during the restart are served after it", async () => {
    await using gate = await Gate.create();
    await gate.open();
    await using sidecar = await start(mode, { env: { ...gate.env, FIXTURE_GATED_DISCOVERY: "1" } });
    const client = sidecar.modernClient();
    await client.toolText("where");
    const { pid } = await readWhere(client);
    await gate.close();
    await crashProcess(sidecar, pid);
    const listening = client.listen({ toolsListChanged: true }, { id: "late" });
    const leaving = new AbortController();
    const left = client.listen({ toolsListChanged: true }, { signal: leaving.signal });
    const calling = client.toolText("echo", { text: "held" });
    // The sidecar has these requests when it has answered a later one.
    expect((await client.request("server/discover")).status).toBe(200);
    leaving.abort();
    await expect(left).rejects.toThrow("aborted");
    await gate.open();
    await using listen = await listening;
    expect(listen.accepted).toEqual({ toolsListChanged: true });
    expect(await calling).toBe("held");
    await client.callTool("change_list", { list: "tools" });
    expect(noticeOf(await listen.next())).toEqual(["notifications/tools/list_changed", "late"]);
    await waitForListens(client, 1);
    await listen.close();
    await waitUntilFree(sidecar);
  });
});

describe("a restarted server with sessions", () => {
  const CAPABILITIES = { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } };

  it("a subscription ends with a result if the restarted server offers less of it", async () => {
    await using gate = await Gate.create();
    const env = {
      ...gate.env,
      FIXTURE_INITIALIZE_RESULT: offer(CAPABILITIES),
      FIXTURE_NEXT_INITIALIZE_RESULT: offer({ tools: { listChanged: true }, resources: { listChanged: true } }),
    };
    await using sidecar = await start("keeps-state", { env });
    const client = sidecar.modernClient();
    await using reduced = await client.listen({ toolsListChanged: true, resourceSubscriptions: ["x://1"] }, { id: 1 });
    await using kept = await client.listen({ toolsListChanged: true }, { id: 2 });
    const { pid } = await readWhere(client);
    await gate.open();
    await crashProcess(sidecar, pid);
    expect((await reduced.rest()).at(-1)).toMatchObject({ id: 1, ...GRACEFUL });
    expect(noticeOf(await kept.next())).toEqual(["notifications/tools/list_changed", 2]);
    await kept.close();
    await waitUntilFree(sidecar);
  });
});
