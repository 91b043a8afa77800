import { expect, it } from "vitest";
import type { EventStream } from "../support/event-stream.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

const SUBSCRIBE = "resources/subscribe";
const UNSUBSCRIBE = "resources/unsubscribe";

/** Shows the source of a response: the sidecar responds with `{}`, the fixture with the request. */
async function request(client: LaneClient, method: string, uri: string): Promise<"carried" | "answered"> {
  const { result } = await client.request(method, { uri });
  expect([{}, { method, params: { uri } }]).toContainEqual(result);
  return result?.["method"] === method ? "carried" : "answered";
}

function connect(sidecar: RunningSidecar, count: number): Promise<LaneClient[]> {
  return Promise.all(Array.from({ length: count }, () => LaneClient.connectShared(sidecar)));
}

async function endAndRead(client: LaneClient, stream: EventStream): Promise<unknown[]> {
  await client.end();
  return (await stream.rest()).map(({ params }) => params?.["uri"]);
}

it("an update is delivered unchanged, and kept once for the GET stream", async () => {
  await using sidecar = await HttpBench.start();
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
  await using sidecar = await HttpBench.start();
  const client = await LaneClient.connectShared(sidecar);
  for (const method of [SUBSCRIBE, UNSUBSCRIBE]) {
    const reply = await client.post({ jsonrpc: "2.0", id: 2, method, params });
    expect(JSON.parse(reply.body)).toEqual({ jsonrpc: "2.0", id: 2, result: { method, ...(params === undefined ? {} : { params }) } });
  }
});

it("a session may have at most 1024 subscriptions", async () => {
  await using sidecar = await HttpBench.start();
  const [client, other] = await connect(sidecar, 2);
  if (client === undefined || other === undefined) throw new Error("two clients");
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
