import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { CuttingProxy, type ProxiedRequest } from "../support/cutting-proxy.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { CLIENTS, InteropClient } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";
import { eventIdAt } from "../support/status.ts";

const WATCHED = "test://watched-resource";
const UPDATED = "notifications/resources/updated";
const MESSAGE = "notifications/message";
const LISTS = ["tools", "prompts", "resources"].map((list) => `notifications/${list}/list_changed`);

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

function isStream({ httpMethod, isStream: isOpened }: ProxiedRequest): boolean {
  return httpMethod === "GET" && isOpened;
}

const CUTS: [title: string, isHalfOpen: boolean][] = [
  ["for both sides", false],
  ["unseen by the sidecar", true],
];

describe.concurrent.each(CLIENTS)("the GET stream of the $sdk client of a $lane server", ({ sdk, lane }) => {
  it.each(CUTS)("a stream cut %s is resumed after its last event", async (_title, isHalfOpen) => {
    // A sidecar of its own for the shared lane, too: every session gets list_changed notifications.
    await using own = await Sidecar.start({ command: CONFORMANCE_SERVER });
    await using proxy = await CuttingProxy.start(own.origin);
    await using client = await InteropClient.connect(sdk, proxy.url, { lane });
    await proxy.waitForRequests(1, isStream);
    await client.subscribe(WATCHED);
    await client.toolText("test_change_watched_resource");
    await client.waitToHear(UPDATED);

    proxy.cut(isStream, { isHalfOpen });
    await client.toolText("test_change_lists");
    for (const method of LISTS) await client.waitToHear(method);
    expect(client.heard.map(({ method }) => method)).toEqual([UPDATED, ...LISTS]);
    await client.toolText("test_change_watched_resource");
    await client.waitToHear(UPDATED, () => client.heard.length === 5);
    expect(client.heard.map(({ method }) => method)).toEqual([UPDATED, ...LISTS, UPDATED]);
    expect(proxy.requests.filter(isStream).map(({ lastEventId }) => lastEventId)).toEqual([undefined, await eventIdAt(own, "s1-1")]);
  });

  it("a message in whose middle the stream is cut is delivered once", async () => {
    // A sidecar of its own again: the clients of a shared one change the watched resource, too.
    await using own = await Sidecar.start({ command: CONFORMANCE_SERVER });
    await using proxy = await CuttingProxy.start(own.origin);
    await using client = await InteropClient.connect(sdk, proxy.url, { lane });
    await proxy.waitForRequests(1, isStream);
    await client.subscribe(WATCHED);
    // From the first message on, the client has an id for resumption.
    await client.toolText("test_change_watched_resource");
    await client.waitToHear(UPDATED);
    const cut = proxy.cutBehind(`id: ${await eventIdAt(own, "s1-2")}\nevent: message\ndata: {`);
    await client.toolText("test_change_watched_resource");
    await cut;
    expect(await client.waitToHear(UPDATED, () => client.heard.length === 2)).toEqual({ uri: WATCHED });
    await client.unsubscribe(WATCHED);
    await client.setLevel("info");
    await client.toolText("test_log", { level: "info", data: "the end" });
    await client.waitToHear(MESSAGE);
    expect(client.heard.filter(({ method }) => method === UPDATED)).toHaveLength(2);
  });

  it("the stream is opened again after each of several cuts, even without an event", async () => {
    await using proxy = await CuttingProxy.start(sidecar.origin);
    await using client = await InteropClient.connect(sdk, proxy.url, { lane });
    await client.subscribe(WATCHED);
    for (const times of [1, 2, 3]) {
      await proxy.waitForRequests(times, isStream);
      proxy.cut(isStream);
    }
    await proxy.waitForRequests(4, isStream);
    await client.toolText("test_change_watched_resource");
    await client.waitToHear(UPDATED);
    expect(proxy.openStreams).toBe(1);
  });
});
