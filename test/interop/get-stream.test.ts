import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { CuttingProxy, type ProxiedRequest } from "../support/cutting-proxy.ts";
import { CLIENTS, InteropClient } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";
import { eventIdAt } from "../support/status.ts";

const WATCHED = "test://watched-resource";
const UPDATED = "notifications/resources/updated";
const MESSAGE = "notifications/message";
const LISTS = ["tools", "prompts", "resources"].map((list) => `notifications/${list}/list_changed`);

function isStream({ httpMethod, isStream: isOpened }: ProxiedRequest): boolean {
  return httpMethod === "GET" && isOpened;
}

describe.concurrent.each(CLIENTS)("the GET stream of the $sdk client of a $lane server", ({ sdk, lane }) => {
  // Both ways of a cut, with each SDK.
  const isHalfOpen = lane === "shared";

  it("a stream that is cut, also in the middle of a message, is resumed after its last event", async () => {
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
    const cut = proxy.cutBehind(`id: ${await eventIdAt(own, "s1-5")}\nevent: message\ndata: {`, { isHalfOpen });
    await client.toolText("test_change_watched_resource");
    await cut;
    await client.waitToHear(UPDATED, () => client.heard.length === 5);
    await client.unsubscribe(WATCHED);
    await client.setLevel("info");
    await client.toolText("test_log", { level: "info", data: "the end" });
    await client.waitToHear(MESSAGE);
    expect(client.heard.map(({ method }) => method)).toEqual([UPDATED, ...LISTS, UPDATED, MESSAGE]);
    const lastIds = [undefined, await eventIdAt(own, "s1-1"), await eventIdAt(own, "s1-4")];
    expect(proxy.requests.filter(isStream).map(({ lastEventId }) => lastEventId)).toEqual(lastIds);
  });
});
