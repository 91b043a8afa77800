import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import type { EventStream } from "../support/event-stream.ts";
import { Gate } from "../support/gate.ts";
import { LaneClient } from "../support/lane-client.ts";
import { waitForGeneration } from "../support/readiness.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];
const SUBSCRIBE = "resources/subscribe";
const UNSUBSCRIBE = "resources/unsubscribe";

function updated(uri: string): string {
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/resources/updated", params: { uri } });
}

/** Shows the source of a response: the sidecar responds with `{}`, the fixture with the request. */
async function request(client: LaneClient, method: string, uri: string): Promise<"carried" | "answered"> {
  const { result } = await client.request(method, { uri });
  expect([{}, { method, params: { uri } }]).toContainEqual(result);
  return result?.["method"] === method ? "carried" : "answered";
}

function connect(sidecar: RunningSidecar, count: number): Promise<LaneClient[]> {
  return Promise.all(Array.from({ length: count }, () => LaneClient.connectShared(sidecar)));
}

/** Returns the resources of the updates on a stream, up to the end of the session. */
async function endAndRead(client: LaneClient, stream: EventStream): Promise<unknown[]> {
  await client.end();
  return (await stream.rest()).map(({ params }) => params?.["uri"]);
}

describe("a subscription to a shared server's resource", () => {
  it("the server gets the first session's subscription and the last one's end, and no other", async () => {
    await using sidecar = await HttpBench.start();
    const [first, second, third] = await connect(sidecar, 3);
    if (first === undefined || second === undefined || third === undefined) throw new Error("three clients");
    expect(await request(first, SUBSCRIBE, "x://1")).toBe("carried");
    expect(await request(second, SUBSCRIBE, "x://1")).toBe("answered");
    expect(await request(first, SUBSCRIBE, "x://1")).toBe("answered");
    // An unsubscription without a subscription ends none.
    expect(await request(third, UNSUBSCRIBE, "x://1")).toBe("answered");
    expect(await request(first, UNSUBSCRIBE, "x://1")).toBe("answered");
    expect(await request(first, UNSUBSCRIBE, "x://1")).toBe("answered");
    expect(await request(second, UNSUBSCRIBE, "x://1")).toBe("carried");
    expect(await request(third, SUBSCRIBE, "x://1")).toBe("carried");
    expect([await third.received(SUBSCRIBE), await third.received(UNSUBSCRIBE)]).toEqual([
      [{ uri: "x://1" }, { uri: "x://1" }],
      [{ uri: "x://1" }],
    ]);
  });

  it("an update of a resource, or below it, reaches its subscribers only, once each", async () => {
    await using sidecar = await HttpBench.start();
    const clients = await connect(sidecar, 4);
    const streams = await Promise.all(clients.map((client) => client.openStream()));
    const subscribed = [["x://a", "x://a/b"], ["x://a/"], ["x://a/b/c"], []];
    for (const [index, client] of clients.entries()) for (const uri of subscribed[index] ?? []) await request(client, SUBSCRIBE, uri);
    const uris = ["x://a", "x://a/b", "x://a/b/c", "x://ab", "x://b", "x://a/b/c"];
    await clients[0]?.write(uris.map(updated).join("\n"));
    await clients[0]?.toolText("echo", { text: "all are read" });
    const told = await Promise.all(clients.map(async (client, index) => endAndRead(client, streams[index] as EventStream)));
    expect(told).toEqual([
      ["x://a", "x://a/b", "x://a/b/c", "x://a/b/c"],
      ["x://a/b", "x://a/b/c", "x://a/b/c"],
      ["x://a/b/c", "x://a/b/c"],
      [],
    ]);
  });

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

  it("the subscription ends with its session unless another session has it", async () => {
    await using sidecar = await HttpBench.start();
    const [ending, staying] = await connect(sidecar, 2);
    if (ending === undefined || staying === undefined) throw new Error("two clients");
    for (const uri of ["x://mine", "x://ours"]) await request(ending, SUBSCRIBE, uri);
    await request(staying, SUBSCRIBE, "x://ours");
    await ending.end();
    expect(await staying.received(UNSUBSCRIBE)).toEqual([{ uri: "x://mine" }]);
    using stream = await staying.openStream();
    await staying.write(`${updated("x://mine")}\n${updated("x://ours")}`);
    expect(await stream.nextText()).toBe(updated("x://ours"));
    expect(await endAndRead(staying, stream)).toEqual([]);
  });

  it("each subscription is renewed once after a restart, and counts as made", async () => {
    await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, "--max-held-requests", "1"] });
    const [first, second, late] = await connect(sidecar, 3);
    if (first === undefined || second === undefined || late === undefined) throw new Error("three clients");
    const uris = Array.from({ length: 10 }, (_, index) => `x://${index}`);
    for (const uri of uris) for (const client of [first, second]) await request(client, SUBSCRIBE, uri);
    await crash(sidecar);
    await waitForGeneration(sidecar, 2);
    expect(await first.received(SUBSCRIBE)).toEqual(uris.map((uri) => ({ uri })));
    expect(await request(late, SUBSCRIBE, "x://7")).toBe("answered");
    using stream = await first.openStream();
    await first.write(updated("x://3"));
    expect(await stream.nextText()).toBe(updated("x://3"));
  });

  it("a subscription that ended during a restart is not renewed", async () => {
    await using gate = await Gate.create();
    await gate.open();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags: QUICK_RESTART });
    const [ending, staying] = await connect(sidecar, 2);
    if (ending === undefined || staying === undefined) throw new Error("two clients");
    await request(ending, SUBSCRIBE, "x://1");
    await request(staying, SUBSCRIBE, "x://2");
    await gate.close();
    await crash(sidecar);
    await ending.end();
    await gate.open();
    await waitForGeneration(sidecar, 2);
    expect(await staying.received(SUBSCRIBE)).toEqual([{ uri: "x://2" }]);
    expect(await staying.received(UNSUBSCRIBE)).toEqual([]);
  });

  it("a rejected subscription is reported, delivers nothing, and may be tried again", async () => {
    await using sidecar = await HttpBench.start();
    const client = await LaneClient.connectShared(sidecar);
    using stream = await client.openStream();
    await client.toolText("refuse", { method: SUBSCRIBE });
    for (let times = 0; times < 2; times++) {
      expect((await client.request(SUBSCRIBE, { uri: "x://1" })).error).toEqual({ code: -32602, message: "refused" });
    }
    await client.write(updated("x://1"));
    await client.toolText("accept", { method: SUBSCRIBE });
    expect(await request(client, SUBSCRIBE, "x://1")).toBe("carried");
    await client.write(updated("x://1"));
    expect(await stream.nextText()).toBe(updated("x://1"));
    expect(await endAndRead(client, stream)).toEqual([]);
  });

  it("a subscription rejected for one session leaves those of others intact", async () => {
    await using sidecar = await HttpBench.start();
    const [first, second] = await connect(sidecar, 2);
    if (first === undefined || second === undefined) throw new Error("two clients");
    await request(first, SUBSCRIBE, "x://1");
    await first.toolText("refuse", { method: SUBSCRIBE });
    expect((await second.request(SUBSCRIBE, { uri: "x://2" })).error?.code).toBe(-32602);
    expect(await request(second, SUBSCRIBE, "x://1")).toBe("answered");
    await first.end();
    expect(await second.received(UNSUBSCRIBE)).toEqual([]);
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
    await Promise.all(Array.from({ length: 1024 }, (_, index) => request(client, SUBSCRIBE, `x://${index}`)));
    expect((await client.request(SUBSCRIBE, { uri: "x://1024" })).error).toEqual({
      code: -32000,
      message: "This client has 1024 subscriptions, its limit; end some first",
    });
    expect(await request(other, SUBSCRIBE, "x://1024")).toBe("carried");
    expect(await request(client, UNSUBSCRIBE, "x://0")).toBe("carried");
    expect(await request(client, SUBSCRIBE, "x://1024")).toBe("answered");
  });
});
