import { expect, it } from "vitest";
import { crash, waitForHanging } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import { McpClient } from "../support/mcp-client.ts";
import { readStatus } from "../support/status.ts";

it("two sidecars of one process share neither sessions nor calls, counters or restarts", async () => {
  await using one = await HttpBench.start();
  await using other = await HttpBench.start({ flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "20"] });
  const [witness, victim] = [await one.client(), await other.client()];
  const stranger = new McpClient(other.url, { sessionId: witness.sessionId });
  expect((await stranger.request("tools/list")).error?.data).toMatchObject({ code: "SESSION_NOT_FOUND" });
  const hanging = witness.callTool("hang");
  await waitForHanging(witness, 1);
  await crash(other);
  expect(await victim.toolText("echo", { text: "again" })).toBe("again");
  expect(await readStatus(other)).toMatchObject({
    generation: 2,
    lanes: { shared: { requestsInFlight: 0 } },
    counters: { exits: { signal: 1 } },
  });
  expect(await readStatus(one)).toMatchObject({ generation: 1, lanes: { shared: { requestsInFlight: 1 } }, counters: { exits: {} } });
  expect(await other.stop()).toBe(0);
  await witness.toolText("release");
  expect(JSON.stringify((await hanging).result)).toContain("released");
});
