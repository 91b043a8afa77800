import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import { offer } from "../support/offers.ts";
import { CLIENTS, InteropClient } from "../support/sdk-clients.ts";
import { HttpBench } from "../support/http-bench.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];
const OFFER = offer({ tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, logging: {} });

describe.each(CLIENTS)("a client of the SDK $sdk with a $lane server", ({ sdk, lane }) => {
  it("the session, level and subscriptions survive a crash, and the client gets list_changed", async () => {
    await using sidecar = await HttpBench.start({
      mode: "keeps-state",
      flags: QUICK_RESTART,
      env: { FIXTURE_INITIALIZE_RESULT: OFFER },
    });
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane, answer: () => ({ roots: [] }) });
    const { sessionId } = client;
    await client.subscribe("x://kept");
    await client.subscribe("x://ended");
    await client.unsubscribe("x://ended");
    await client.setLevel("warning");
    for (let crashes = 0; crashes < 2; crashes++) {
      client.heard.length = 0;
      await crash(sidecar);
      for (const uri of ["x://ended", "x://kept"]) await client.callTool("touch", { uri });
      for (const level of ["info", "error"]) await client.callTool("log", { level, data: level });
      await client.waitToHear("notifications/resources/updated", ({ uri }) => uri === "x://kept");
      await client.waitToHear("notifications/message", ({ data }) => data === "error");
      await client.waitToHear("notifications/tools/list_changed");
      await client.waitToHear("notifications/resources/list_changed");
      // No other messages: neither below the level nor about ended subscriptions.
      expect(client.heard.map(({ method }) => method).toSorted()).toEqual([
        "notifications/message",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/tools/list_changed",
      ]);
    }
    expect([client.sessionId, client.errors]).toEqual([sessionId, []]);
  });
});
