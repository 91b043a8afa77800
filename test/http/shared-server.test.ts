import { describe, expect, it } from "vitest";
import { crash, waitForHanging } from "../support/fixture-server.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import type { HttpReply } from "../support/http-client.ts";
import { LaneClient } from "../support/lane-client.ts";
import { initializeRequest, McpClient } from "../support/mcp-client.ts";
import { waitForGeneration } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

function initialize(sidecar: RunningSidecar): Promise<HttpReply> {
  return new McpClient(sidecar.url).post(initializeRequest());
}

const sidecar = disposeAfterAll(await HttpBench.start({ flags: ["--log-level", "debug"] }));

it.each(["tools", "prompts", "resources"])(
  "every session gets %s/list_changed once, whether or not it has calls or streams",
  async (list) => {
    const line = JSON.stringify({ jsonrpc: "2.0", method: `notifications/${list}/list_changed` });
    const clients = await Promise.all(Array.from({ length: 4 }, () => LaneClient.connectShared(sidecar)));
    const [listening, twice, busy, absent] = clients;
    if (listening === undefined || twice === undefined || busy === undefined || absent === undefined) throw new Error("four clients");
    using stream = await listening.openStream();
    using older = await twice.openStream();
    using newer = await twice.openStream();
    using busyStream = await busy.openStream();
    const hanging = busy.begin("hang");
    await waitForHanging(busy, 1);
    await listening.write(line);
    expect([await stream.nextText(), await newer.nextText(), await busyStream.nextText()]).toEqual([line, line, line]);
    await listening.write(line);
    expect([await stream.nextText(), await newer.nextText(), await busyStream.nextText()]).toEqual([line, line, line]);
    await busy.toolText("release");
    expect((await hanging).isStream).toBe(false);
    // One copy was kept for the session that had no stream then.
    using late = await absent.openStream();
    expect(await late.nextText()).toBe(line);
    await Promise.all(clients.map((client) => client.end()));
    for (const each of [stream, older, newer, busyStream, late]) expect(await each.rest()).toEqual([]);
  },
);

it.each([
  ["notifications/elicitation/complete", { elicitationId: "e-1" }],
  ["notifications/tasks/status", { taskId: "t-1", status: "completed" }],
  ["notifications/cancelled", { requestId: 1 }],
  ["notifications/x-vendor", {}],
])("%s is dropped, since it may concern any session", async (method, params) => {
  const client = await LaneClient.connectShared(sidecar);
  using stream = await client.openStream();
  await client.write({ jsonrpc: "2.0", method, params });
  await sidecar.waitForLog("server notification dropped", (line) => line["method"] === method);
  await client.end();
  expect(await stream.rest()).toEqual([]);
});

it.each(["notifications/initialized", "notifications/roots/list_changed", "notifications/progress"])(
  "a client's %s is dropped, since the server would attribute it to all clients",
  async (method) => {
    const client = await LaneClient.connectShared(sidecar);
    const before = (await client.lines()).length;
    expect(await client.post({ jsonrpc: "2.0", method, params: { progressToken: 1, progress: 1 } })).toMatchObject({
      status: 202,
      body: "",
    });
    // Only the two calls for the lines were added.
    expect(await client.lines()).toHaveLength(before + 1);
  },
);

it("progress never reaches a call of the next generation, or a finished call", async () => {
  await using own = await HttpBench.start({ flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "20", "--log-level", "debug"] });
  const client = await LaneClient.connectShared(own);
  using stream = await client.openStream();
  const lost = client.begin("hang", {}, 2, { progressToken: "t" });
  const [lostId] = await waitForHanging(client, 1);
  await crash(own);
  expect((await (await lost).answer()).error?.data?.["code"]).toBe("UPSTREAM_EXITED");
  await waitForGeneration(own, 2);
  const hanging = client.begin("hang", {}, 2, { progressToken: "t" });
  await waitForHanging(client, 1);
  await client.write({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: lostId, progress: 1 } });
  await own.waitForLog("server notification dropped", (line) => line["method"] === "notifications/progress");
  await client.toolText("release");
  expect((await hanging).isStream).toBe(false);
  await client.end();
  expect(await stream.rest()).toEqual([]);
});

describe("a shared server with tasks", () => {
  const result = (list: string): string =>
    String.raw`{ "serverInfo":{"name":"\u0066ixture","version":1.0} ,"capabilities":{"list":{},"tools":{},"tasks":{"x":9007199254740993,"cancel":{ },${list}"requests":{"list":{},"tools":{"call":{"10":1,"2":1.50}}}},"10":{}},"tasks":{"list":{}},"protocolVersion":"2025-11-25","instructions":"a\/b"}`;

  it.each([`"list":{},`, `"list" : { "a":[1] } , `, `"l\\u0069st":{},"list":null,`, ""])(
    "tasks/list is removed from the capabilities, and all else is unchanged: %s",
    async (list) => {
      await using own = await HttpBench.start({ env: { FIXTURE_INITIALIZE_RESULT: result(list) } });
      expect((await initialize(own)).body).toBe(`{"jsonrpc":"2.0","id":1,"result":${result("")}}`);
    },
  );

  it("tasks/list is rejected, and other task methods are forwarded", async () => {
    const client = await LaneClient.connectShared(sidecar);
    expect(await client.request("tasks/list", {}, "my id")).toEqual({
      status: 200,
      jsonrpc: "2.0",
      id: "my id",
      error: { code: -32601, message: "tasks/list is not available: this MCP server is shared by several clients" },
    });
    for (const method of ["tasks/get", "tasks/result", "tasks/cancel"]) {
      expect((await client.request(method, { taskId: "t" })).result).toEqual({ method, params: { taskId: "t" } });
    }
    expect(await client.received("tasks/list")).toEqual([]);
  });
});
