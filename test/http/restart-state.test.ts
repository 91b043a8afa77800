import { describe, expect, it } from "vitest";
import { crashServerOf } from "../support/crash.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];

/** Returns the messages that the server has received, except tool calls: their methods and subjects. */
async function told(client: LaneClient): Promise<string[]> {
  const messages = (await client.lines()).map((line) => JSON.parse(line) as { method: string; params?: { level?: string; uri?: string } });
  return messages
    .filter(({ method }) => method !== "tools/call")
    .map(({ method, params }) => `${method} ${params?.level ?? params?.uri ?? ""}`.trim());
}

describe("a restarted private server", () => {
  it("each restarted server gets initialize, level, roots and subscriptions again", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await LaneClient.connect(sidecar);
    await client.request("logging/setLevel", { level: "debug" });
    await client.request("resources/subscribe", { uri: "x://1" });
    await client.request("resources/subscribe", { uri: "x://2" });
    await client.request("resources/unsubscribe", { uri: "x://1" });
    await client.notify("notifications/roots/list_changed");
    await client.request("logging/setLevel", { level: "error" });
    for (let crashes = 0; crashes < 3; crashes++) {
      await crashServerOf(sidecar, client);
      expect(await told(client)).toEqual([
        "initialize",
        "notifications/initialized",
        "logging/setLevel error",
        "notifications/roots/list_changed",
        "resources/subscribe x://2",
      ]);
    }
  });

  it("the server gets nothing that the former one rejected, and nothing of other clients", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const [client, other] = [await LaneClient.connect(sidecar), await LaneClient.connect(sidecar)];
    await other.request("logging/setLevel", { level: "debug" });
    await client.toolText("refuse", { method: "resources/subscribe" });
    await client.toolText("refuse", { method: "logging/setLevel" });
    expect((await client.request("resources/subscribe", { uri: "x://1" })).error?.code).toBe(-32602);
    expect((await client.request("logging/setLevel", { level: "info" })).error?.code).toBe(-32602);
    await crashServerOf(sidecar, client);
    expect(await told(client)).toEqual(["initialize", "notifications/initialized"]);
  });

  it("the responses to replayed requests never reach the client", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await LaneClient.connect(sidecar);
    using stream = await client.openStream();
    await client.request("logging/setLevel", { level: "debug" });
    await client.request("resources/subscribe", { uri: "x://1" });
    await crashServerOf(sidecar, client);
    await told(client);
    await client.end();
    expect(await stream.rest()).toEqual([]);
  });
});
