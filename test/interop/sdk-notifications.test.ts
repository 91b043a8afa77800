import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { CLIENTS, type HeardNotification, InteropClient, SDKS } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";

const WATCHED = "test://watched-resource";
const UPDATED = "notifications/resources/updated";
const MESSAGE = "notifications/message";
const LISTS = ["tools", "prompts", "resources"].map((list) => `notifications/${list}/list_changed`);

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

function logged({ heard }: InteropClient): unknown[] {
  return heard.filter(({ method }) => method === MESSAGE).map(({ params }) => params["data"]);
}

describe.each(CLIENTS)("the $sdk client of a $lane server", ({ sdk, lane }) => {
  it("the client gets updates of a resource while it is subscribed", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane });
    await client.subscribe(WATCHED);
    await client.toolText("test_change_watched_resource");
    expect(await client.waitToHear(UPDATED)).toEqual({ uri: WATCHED });
    await client.unsubscribe(WATCHED);
    await client.toolText("test_change_watched_resource");
    // Notifications on one stream keep their order, so an unwanted one would arrive before the next.
    await client.toolText("test_change_lists");
    await client.waitToHear(LISTS[2] ?? "");
    expect(client.heard.filter(({ method }) => method === UPDATED)).toEqual([{ method: UPDATED, params: { uri: WATCHED } }]);
    expect(client.errors).toEqual([]);
  });

  it("the client gets list_changed once for each list", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane });
    await client.toolText("test_change_lists");
    for (const method of LISTS) await client.waitToHear(method);
    expect(client.heard).toEqual(LISTS.map((method): HeardNotification => ({ method, params: {} })));
  });

  it("the client gets log messages of its level and above", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane });
    await client.setLevel("warning");
    for (const level of ["info", "warning", "error", "debug"]) await client.toolText("test_log", { level, data: `at ${level}` });
    await client.setLevel("debug");
    await client.toolText("test_log", { level: "debug", data: "the last one" });
    await client.waitToHear(MESSAGE, ({ data }) => data === "the last one");
    expect(client.heard.map(({ params }) => params)).toEqual([
      { level: "warning", data: "at warning" },
      { level: "error", data: "at error" },
      { level: "debug", data: "the last one" },
    ]);
  });
});

describe.each(SDKS)("two %s clients of a shared server", (sdk) => {
  const lane = "shared";

  it("a client gets updates only while it is subscribed itself", async () => {
    await using first = await InteropClient.connect(sdk, sidecar.url, { lane });
    await using second = await InteropClient.connect(sdk, sidecar.url, { lane });
    await first.subscribe(WATCHED);
    await second.subscribe(WATCHED);
    await second.unsubscribe(WATCHED);
    await second.toolText("test_change_watched_resource");
    await second.toolText("test_change_lists");
    await first.waitToHear(UPDATED);
    for (const client of [first, second]) await client.waitToHear(LISTS[2] ?? "");
    expect(first.heard.map(({ method }) => method)).toEqual([UPDATED, ...LISTS]);
    expect(second.heard.map(({ method }) => method)).toEqual(LISTS);
  });

  it("each client gets its own log messages, at its own level", async () => {
    await using talkative = await InteropClient.connect(sdk, sidecar.url, { lane });
    await using quiet = await InteropClient.connect(sdk, sidecar.url, { lane });
    await talkative.setLevel("debug");
    await quiet.setLevel("error");
    await quiet.toolText("test_log", { level: "info", data: "of quiet, at info" });
    await talkative.toolText("test_log", { level: "debug", data: "of talkative, at debug" });
    await quiet.toolText("test_log", { level: "error", data: "of quiet, at error" });
    await quiet.waitToHear(MESSAGE);
    await talkative.waitToHear(MESSAGE);
    await quiet.toolText("test_change_lists");
    for (const client of [talkative, quiet]) await client.waitToHear(LISTS[2] ?? "");
    expect(logged(talkative)).toEqual(["of talkative, at debug"]);
    expect(logged(quiet)).toEqual(["of quiet, at error"]);
  });
});
