import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import type { EventStream } from "../support/event-stream.ts";
import { crash, waitForHanging } from "../support/fixture-server.ts";
import { answerOf } from "../support/held-call.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { HttpReply } from "../support/http-client.ts";
import { messageTexts } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { initializeRequest, McpClient } from "../support/mcp-client.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { waitForGeneration } from "../support/status.ts";

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

const SUBSCRIBE = "resources/subscribe";
const UNSUBSCRIBE = "resources/unsubscribe";

/** Shows the source of a response: the sidecar responds with `{}`, the fixture with the request. */
async function request(client: LaneClient, method: string, uri: string): Promise<"carried" | "answered"> {
  const { result } = await client.request(method, { uri });
  expect([{}, { method, params: { uri } }]).toContainEqual(result);
  return result?.["method"] === method ? "carried" : "answered";
}

async function endAndRead(client: LaneClient, stream: EventStream): Promise<unknown[]> {
  await client.end();
  return (await stream.rest()).map(({ params }) => params?.["uri"]);
}

it("an update is delivered unchanged, and kept once for the GET stream", async () => {
  const client = await LaneClient.connectShared(sidecar);
  await request(client, SUBSCRIBE, "x://1");
  const line = String.raw`{ "params":{"uri":"x:\/\/1","title":"caf\u00e9","x":1.0},"method":"notifications/resources/updated","jsonrpc":"2.0"}`;
  for (let count = 0; count < 3; count++) await client.write(line);
  await client.toolText("echo", { text: "all are read" });
  using stream = await client.openStream();
  expect(await stream.nextText()).toBe(line);
  expect(await endAndRead(client, stream)).toEqual([]);
});

it.each([{ uri: 1 }, {}, undefined])("the server judges a subscription with the params %j", async (params) => {
  const client = await LaneClient.connectShared(sidecar);
  for (const method of [SUBSCRIBE, UNSUBSCRIBE]) {
    const reply = await client.post({ jsonrpc: "2.0", id: 2, method, params });
    expect(JSON.parse(reply.body)).toEqual({ jsonrpc: "2.0", id: 2, result: { method, ...(params === undefined ? {} : { params }) } });
  }
});

it("a session may have at most 1024 subscriptions", async () => {
  const [client, other] = [await LaneClient.connectShared(sidecar), await LaneClient.connectShared(sidecar)];
  for (let first = 0; first < 1024; first += 64)
    await Promise.all(Array.from({ length: 64 }, (_, index) => request(client, SUBSCRIBE, `x://${first + index}`)));
  expect((await client.request(SUBSCRIBE, { uri: "x://1024" })).error).toEqual({
    code: -32000,
    message: "This client has 1024 subscriptions, its limit; end some first",
  });
  expect(await request(other, SUBSCRIBE, "x://1024")).toBe("carried");
  expect(await request(client, UNSUBSCRIBE, "x://0")).toBe("carried");
  expect(await request(client, SUBSCRIBE, "x://1024")).toBe("answered");
});

function progressLine(token: string, rest = `"progress":1`): string {
  return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},${rest}}}`;
}

const client = await sidecar.client();

it.each([`"a token"`, `"7"`, `7`, `0`, `-1`, `1.50e1`, `9007199254740993`, `""`, String.raw`"\u00e9\/\ud83d\ude00"`, `"r1-1"`])(
  "progress carries the token %s as its client spelled it",
  async (token) => {
    const body = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":${token}},"name":"progress","arguments":{"steps":2}}}`;
    const messages = messageTexts(await client.post(body));
    expect(messages.slice(0, 2)).toEqual([progressLine(token), progressLine(token, `"progress":2`)]);
    expect(JSON.parse(messages[2] ?? "")).toEqual(answerOf());
  },
);

it("progress reaches the client otherwise unchanged", async () => {
  const line = `{ "params" : {"total":1.0,"progressToken": $ID ,"progress":9007199254740993,"message":"caf\\u00e9 $","x":{"progressToken":1}},"method":"notifications/progress","jsonrpc":"2.0"}`;
  const params = {
    name: "raw_line",
    arguments: { line: `${line}\n{"jsonrpc":"2.0","id":$ID,"result":{}}` },
    _meta: { progressToken: "t" },
  };
  const messages = messageTexts(await client.post({ jsonrpc: "2.0", id: 7, method: "tools/call", params }));
  expect(messages).toEqual([line.replace("$ID", `"t"`), `{"jsonrpc":"2.0","id":7,"result":{}}`]);
});
