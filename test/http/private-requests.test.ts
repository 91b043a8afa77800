import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { EventStream } from "../support/event-stream.ts";
import { waitForHanging } from "../support/in-flight.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

const REQUESTS = [
  ["sampling/createMessage", { messages: [{ role: "user", content: { type: "text", text: "hi" } }], maxTokens: 10 }],
  ["elicitation/create", { mode: "form", message: "name?", requestedSchema: { type: "object", properties: { name: { type: "string" } } } }],
  ["elicitation/create", { mode: "url", message: "sign in", url: "https://x.example/a?b=1", elicitationId: "e-1" }],
  ["roots/list", undefined],
  ["x-vendor/anything", { x: 1, _meta: { y: [] } }],
  ["tools/call", { name: "echo" }],
] as const;

/** Returns the line of a server request. */
function request(id: string | number, method = "roots/list"): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method });
}

describe("a private server's request", () => {
  let sidecar: RunningSidecar;
  let client: LaneClient;

  beforeAll(async () => {
    sidecar = await HttpBench.start();
  });
  beforeEach(async () => {
    client = await LaneClient.connect(sidecar);
    return async () => void (await client.end());
  });
  afterAll(() => sidecar[Symbol.asyncDispose]());

  /** The messages of a stream up to the end of the session. */
  async function endAndRead(...streams: EventStream[]): Promise<JsonRpcMessage[][]> {
    expect((await client.end()).status).toBe(204);
    return Promise.all(streams.map((stream) => stream.rest()));
  }

  it.each(REQUESTS)("%s is sent on the stream of the only call, and the response returns", async (method, params) => {
    using stream = await client.openStream();
    using call = await client.begin("ask", { method, ...(params === undefined ? {} : { params }) });
    expect(call.isStream).toBe(true);
    const asked = await call.next();
    expect(asked).toEqual({ jsonrpc: "2.0", id: expect.anything() as unknown, method, params: params ?? {} });
    expect(await client.answer(asked, { done: method })).toMatchObject({ status: 202, body: "" });
    expect(JSON.parse((await call.toolText()) ?? "")).toEqual({ jsonrpc: "2.0", id: "ask", result: { done: method } });
    expect(await endAndRead(stream, call)).toEqual([[], []]);
  });

  it("the client gets the request as the server wrote it, except for its id", async () => {
    using stream = await client.openStream();
    const line = (id: string): string =>
      String.raw`{ "x":1.0 ,"params":{"b":9007199254740993,"10":1,"2":-0,"text":"caf\u00e9 \/ \ud800"},"method":"sampling\/createMessage", "id" : ${id} ,"jsonrpc":"2.0"}`;
    await client.write(line(`"my id"`));
    const text = (await stream.nextText()) ?? "";
    const { id } = JSON.parse(text) as { id: number };
    expect(text).toBe(line(String(id)));
    // And so is the response.
    const answer = (answerId: string): string =>
      String.raw`{"result" : {"a":1.50,"b":1e400,"c":"\u0062","id":9}, "id": ${answerId},"jsonrpc":"2.0" }`;
    expect((await client.post(answer(String(id)))).status).toBe(202);
    expect(await client.answers()).toEqual([answer(`"my id"`)]);
  });

  it("a request is sent on the GET stream alone if several calls are in flight", async () => {
    using stream = await client.openStream();
    const hanging = [client.begin("hang", {}, 2), client.begin("hang", {}, 3)];
    await waitForHanging(client, 2);
    await client.write(request("ask"));
    const asked = await stream.next();
    expect(asked).toMatchObject({ method: "roots/list" });
    await client.answer(asked, { roots: [] });
    expect(await client.answers()).toEqual([`{"jsonrpc":"2.0","id":"ask","result":{"roots":[]}}`]);
    await client.toolText("release");
    const calls = await Promise.all(hanging);
    // No message came before the responses, so they are plain JSON.
    expect(calls.map((call) => call.isStream)).toEqual([false, false]);
    expect(await endAndRead(stream)).toEqual([[]]);
  });

  it("a request is sent on the oldest call's stream if no GET stream is open", async () => {
    const oldest = client.begin("hang", {}, "oldest");
    await waitForHanging(client, 1);
    const newer = client.begin("hang", {}, "newer");
    await waitForHanging(client, 2);
    await client.write(request("ask"));
    using call = await oldest;
    expect(await call.next()).toMatchObject({ method: "roots/list" });
    await client.toolText("release");
    expect(await call.rest()).toHaveLength(1);
    expect((await newer).isStream).toBe(false);
    using stream = await client.openStream();
    expect(await endAndRead(stream)).toEqual([[]]);
  });

  it("a request is sent on a later call's stream if the oldest accepts none", async () => {
    const plain = client.callTool("hang", {}, "plain");
    await waitForHanging(client, 1);
    const reading = client.begin("hang", {}, "reading");
    await waitForHanging(client, 2);
    await client.write(request("ask"));
    using call = await reading;
    expect(await call.next()).toMatchObject({ method: "roots/list" });
    await client.toolText("release");
    expect((await plain).result?.content?.[0]?.text).toMatch(/^released/);
  });

  it("requests wait in order for the GET stream if no stream is open", async () => {
    for (const id of ["a", 2, "c"]) await client.write(request(id, `x-vendor/${id}`));
    expect(await client.toolText("echo", { text: "they are waiting" })).toBe("they are waiting");
    using stream = await client.openStream();
    const asked = [await stream.next(), await stream.next(), await stream.next()];
    expect(asked.map(({ method }) => method)).toEqual(["x-vendor/a", "x-vendor/2", "x-vendor/c"]);
    using second = await client.openStream();
    for (const each of asked.toReversed()) await client.answer(each, {});
    expect((await client.answers()).map((line) => (JSON.parse(line) as JsonRpcMessage).id)).toEqual(["c", 2, "a"]);
    expect(await endAndRead(stream, second)).toEqual([[], []]);
  });

  it("a request waits for the GET stream if the call in flight accepts no stream", async () => {
    const ask = client.callTool("ask", { method: "roots/list" });
    await client.toolText("echo", { text: "asked" });
    using stream = await client.openStream();
    await client.answer(await stream.next(), { roots: [] });
    expect(JSON.parse((await ask).result?.content?.[0]?.text ?? "")).toEqual({ jsonrpc: "2.0", id: "ask", result: { roots: [] } });
  });

  it("a request is sent on the newest of several GET streams alone", async () => {
    using first = await client.openStream();
    using second = await client.openStream();
    await client.write(request("ask"));
    expect(await second.next()).toMatchObject({ method: "roots/list" });
    expect(await endAndRead(first, second)).toEqual([[], []]);
  });

  it("requests move to the remaining GET stream when the newest closes, without loss or duplicates", async () => {
    using first = await client.openStream();
    const second = await client.openStream();
    // Gives it an id to come back with.
    await client.write(request("first"));
    await second.next();
    let count = 0;
    const onFirst: JsonRpcMessage[] = [];
    const moved = first.next().then((message) => onFirst.push(message));
    second[Symbol.dispose]();
    // The sidecar notices the closed stream later.
    while (onFirst.length === 0) {
      await client.write(request(count, `x-vendor/${count}`));
      count++;
    }
    await client.toolText("echo", { text: "all are delivered" });
    await moved;
    using resumed = await client.openStream({ lastEventId: second.lastEventId });
    const [others, replayed] = await endAndRead(first, resumed);
    const methods = [...(replayed ?? []), ...onFirst, ...(others ?? [])].map(({ method }) => method);
    expect(methods).toEqual(Array.from({ length: count }, (_, index) => `x-vendor/${index}`));
  });

  it("requests move to a later call's stream if the oldest call's client disconnects", async () => {
    const oldest = await client.begin("ask", { method: "roots/list" }, "oldest");
    const primer = await oldest.block();
    expect(await oldest.next()).toMatchObject({ method: "roots/list" });
    const newer = client.begin("hang", {}, "newer");
    await waitForHanging(client, 1);
    oldest[Symbol.dispose]();
    const begun: EventStream[] = [];
    void newer.then((stream) => begun.push(stream));
    let count = 0;
    for (; begun.length === 0; count++) await client.write(request(count, `x-vendor/${count}`));
    using call = await newer;
    await client.toolText("echo", { text: "all are delivered" });
    using resumed = await client.openStream({ lastEventId: primer?.id });
    const [replayed, others] = await endAndRead(resumed, call);
    const methods = [...(replayed ?? []), ...(others ?? [])].flatMap(({ method = "" }) => (method.startsWith("x-vendor/") ? [method] : []));
    expect(methods).toEqual(Array.from({ length: count }, (_, index) => `x-vendor/${index}`));
  });

  it("a request reaches only its own client, and only that client can answer it", async () => {
    const other = await LaneClient.connect(sidecar);
    using stream = await client.openStream();
    using otherStream = await other.openStream();
    await client.write(request("same"));
    await other.write(request("same"));
    const [asked, otherAsked] = [await stream.next(), await otherStream.next()];
    await other.answer(asked, { from: "other" });
    expect([await client.answers(), await other.answers()]).toEqual([[], []]);
    await other.answer(otherAsked, { from: "other" });
    expect([await client.answers(), await other.answers()]).toEqual([[], [`{"jsonrpc":"2.0","id":"same","result":{"from":"other"}}`]]);
    await client.answer(asked, { from: "client" });
    expect(await client.answers()).toEqual([`{"jsonrpc":"2.0","id":"same","result":{"from":"client"}}`]);
    await other.end();
    expect(await endAndRead(stream, otherStream)).toEqual([[], []]);
  });

  it("a request from before the handshake waits for the GET stream", async () => {
    await using asking = await HttpBench.start({ mode: "asks-at-start" });
    const early = await LaneClient.connect(asking);
    using stream = await early.openStream();
    const asked = await stream.next();
    expect(asked).toMatchObject({ method: "roots/list" });
    await early.answer(asked, { roots: [] });
    expect(await early.answers()).toEqual([`{"jsonrpc":"2.0","id":0,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`]);
  });

  it.each(["2024-11-05", "2025-03-26", "2025-06-18"])(
    "requests reach clients of revision %s on either kind of stream",
    async (revision) => {
      await using older = await HttpBench.start({ mode: `protocol-${revision}` });
      const own = await LaneClient.connect(older, undefined, revision);
      using ownStream = await own.openStream();
      await own.write(request("on the GET stream"));
      await own.answer(await ownStream.next(), {});
      using call = await own.begin("ask", { method: "sampling/createMessage" });
      await own.answer(await call.next(), {});
      expect(JSON.parse((await call.toolText()) ?? "")).toEqual({ jsonrpc: "2.0", id: "ask", result: {} });
      expect(await own.answers()).toHaveLength(2);
    },
  );

  it("a thousand simultaneous requests are all answered, each with its own id", async () => {
    using stream = await client.openStream();
    const ids = Array.from({ length: 1000 }, (_, index) => (index % 2 === 0 ? index : `${index}`));
    await client.write(ids.map((id) => request(id)).join("\n"));
    for (const id of ids) {
      const asked = await stream.next();
      void client.answer(asked, { for: id });
    }
    let answers: string[] = [];
    while (answers.length < ids.length) answers = await client.answers();
    const pairs = answers.map((line) => JSON.parse(line) as JsonRpcMessage).map(({ id, result }) => [id, result?.["for"]]);
    expect(new Set(pairs.map(([id]) => id)).size).toBe(1000);
    for (const [id, answeredFor] of pairs) expect(answeredFor).toBe(id);
  });

  it("a request is rejected while the client has 1024 unanswered ones", async () => {
    using stream = await client.openStream();
    const ids = Array.from({ length: 1025 }, (_, index) => index);
    await client.write(ids.map((id) => request(id)).join("\n"));
    const first = await stream.next();
    for (let count = 1; count < 1024; count++) await stream.next();
    let answers: string[] = [];
    while (answers.length === 0) answers = await client.answers();
    expect(answers.map((line) => JSON.parse(line) as unknown)).toEqual([
      { jsonrpc: "2.0", id: 1024, error: { code: -32000, message: "The client already has 1024 requests to answer" } },
    ]);
    await client.answer(first);
    await client.write(request("next", "x-vendor/next"));
    expect(await stream.next()).toMatchObject({ method: "x-vendor/next" });
  });
});
