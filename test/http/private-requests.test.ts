import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import type { EventStream } from "../support/event-stream.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import { type JsonRpcMessage, progressTokenOf } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

function request(id: string | number, method = "roots/list"): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method });
}

function notification(method: string, params?: object): string {
  return JSON.stringify({ jsonrpc: "2.0", method, params });
}

let sidecar: RunningSidecar;
let client: LaneClient;

beforeAll(async () => {
  sidecar = await HttpBench.start({ mode: "newline-only" });
});
beforeEach(async () => {
  client = await LaneClient.connect(sidecar);
  return async () => void (await client.end());
});
afterAll(() => sidecar[Symbol.asyncDispose]());

/** Returns the messages of a stream up to the end of the session. */
async function endAndRead(...streams: EventStream[]): Promise<JsonRpcMessage[][]> {
  expect((await client.end()).status).toBe(204);
  return Promise.all(streams.map((stream) => stream.rest()));
}

describe("a private server's request", () => {
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
    const other = await LaneClient.connect(sidecar, { roots: {} });
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

describe("a response to a private server's request", () => {
  let stream: EventStream;

  beforeEach(async () => {
    stream = await client.openStream();
  });

  async function ask(idText: string): Promise<JsonRpcMessage> {
    await client.write(`{"jsonrpc":"2.0","id":${idText},"method":"roots/list"}`);
    return stream.next();
  }

  it.each([`"ask"`, `""`, `"1"`, String.raw`"\u00e9\/\ud800"`, `0`, `-0`, `1`, `1.0`, `0.5`, `-1.50e-3`, `1e400`, `9007199254740993`])(
    "a result or error reaches the server with id %s as it wrote it",
    async (idText) => {
      await client.answer(await ask(idText), { roots: [] });
      const refused = await ask(idText);
      expect((await client.post(`{"jsonrpc":"2.0","id":${refused.id},"error":{"code":-1,"message":"no","data":{"x":1.0}}}`)).status).toBe(
        202,
      );
      expect(await client.answers()).toEqual([
        `{"jsonrpc":"2.0","id":${idText},"result":{"roots":[]}}`,
        `{"jsonrpc":"2.0","id":${idText},"error":{"code":-1,"message":"no","data":{"x":1.0}}}`,
      ]);
    },
  );

  it("a response is distinguished from that of a call with the same id", async () => {
    const hanging = client.begin("hang", {}, 1);
    const [wireId = 0] = await waitForHanging(client, 1);
    // The server uses the id of the call that it has received.
    const asking = client.begin("ask", { id: wireId, method: "roots/list" }, 1);
    const asked = await stream.next();
    await client.answer(asked, { roots: ["mine"] });
    using call = await asking;
    expect(JSON.parse((await call.toolText()) ?? "")).toEqual({ jsonrpc: "2.0", id: wireId, result: { roots: ["mine"] } });
    await client.toolText("release");
    expect(await (await hanging).toolText()).toBe(`released ${wireId}`);
  });

  it("a response with line breaks reaches the server as one line", async () => {
    const { id } = await ask(`"ask"`);
    await client.post(`{\n"jsonrpc": "2.0",\r\n"id": ${id},\n"result": {}\n}\n`);
    expect(await client.answers()).toEqual([`{ "jsonrpc": "2.0",  "id": "ask", "result": {} } `]);
  });

  it("a second response to the same request gets 202 and never reaches the server", async () => {
    const asked = await ask(`"ask"`);
    for (const text of ["first", "second"]) expect(await client.answer(asked, { text })).toMatchObject({ status: 202, body: "" });
    expect(await client.answers()).toEqual([`{"jsonrpc":"2.0","id":"ask","result":{"text":"first"}}`]);
  });

  it("a response with an unknown, mistyped or untranslated id gets 409 and is dropped", async () => {
    const { id } = await ask(`"ask"`);
    const refused = errorReply(409, -32000, "OTHER_REPLICA", { data: { retrySafe: false } });
    for (const idText of [`${Number(id) + 1}`, `"${id}"`, `"ask"`, "null", "-1", "1e400"]) {
      expect(readError(await client.post(`{"jsonrpc":"2.0","id":${idText},"result":{}}`))).toStrictEqual(refused);
    }
    expect(readError(await client.post(`{"jsonrpc":"2.0","error":{"code":-1,"message":"?"}}`))).toStrictEqual(refused);
    expect(await client.answers()).toEqual([]);
    await client.post({ jsonrpc: "2.0", id, result: { right: true } });
    expect(await client.answers()).toEqual([`{"jsonrpc":"2.0","id":"ask","result":{"right":true}}`]);
  });

  it("a response is dropped after the server has cancelled the request", async () => {
    const asked = await ask(`"ask"`);
    await client.write({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "ask" } });
    await stream.next();
    expect((await client.answer(asked, {})).status).toBe(202);
    expect(await client.answers()).toEqual([]);
  });

  it("a response may come in a batch if the revision allows batches", async () => {
    await using older = await HttpBench.start({ mode: "protocol-2025-03-26" });
    const own = await LaneClient.connect(older, undefined, "2025-03-26");
    using ownStream = await own.openStream();
    for (const id of [`"a"`, "1.0"]) await own.write(`{"jsonrpc":"2.0","id":${id},"method":"roots/list"}`);
    const [first, second] = [await ownStream.next(), await ownStream.next()];
    const batch = `[{"jsonrpc":"2.0","id":${second.id},"result":{"n":2}},\n {"jsonrpc":"2.0","id":999,"result":{}}, {"id":${first.id},"error":{"code":-1,"message":"no"},"jsonrpc":"2.0"}]`;
    expect(readError(await own.post(batch))).toStrictEqual(errorReply(409, -32000, "OTHER_REPLICA", { data: { retrySafe: false } }));
    expect(await own.answers()).toEqual([
      `{"jsonrpc":"2.0","id":1.0,"result":{"n":2}}`,
      `{"id":"a","error":{"code":-1,"message":"no"},"jsonrpc":"2.0"}`,
    ]);
  });
});

describe("the cancellation of a private server's request", () => {
  it("the server's cancellation reaches the client unchanged, except for the translated id", async () => {
    using stream = await client.openStream();
    await client.write(`{"jsonrpc":"2.0","id":"other","method":"roots/list"}`);
    await client.write(`{"jsonrpc":"2.0","id":"my \\u0069d","method":"elicitation/create"}`);
    const [other, asked] = [await stream.next(), await stream.next()];
    const line = (idText: string): string =>
      String.raw`{"method":"notifications/cancelled", "params":{"reason":"caf\u00e9","requestId": ${idText} ,"x":1.0},"jsonrpc":"2.0"}`;
    await client.write(line(String.raw`"my \u0069d"`));
    expect(await stream.nextText()).toBe(line(String(asked.id)));
    // The other request is still unanswered.
    await client.answer(other, {});
    expect(await client.answers()).toEqual([`{"jsonrpc":"2.0","id":"other","result":{}}`]);
  });

  it("the server's cancellation follows its request onto the stream of the call", async () => {
    using stream = await client.openStream();
    using call = await client.begin("ask", { id: 7, method: "sampling/createMessage" });
    const asked = await call.next();
    await client.write({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } });
    expect(await call.next()).toEqual({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: asked.id } });
    await client.end();
    expect(await stream.rest()).toEqual([]);
  });

  it.each([`"unknown"`, `"1"`, `null`, `[1]`])(
    "the server's cancellation is dropped if it names an unknown request: %s",
    async (idText) => {
      using stream = await client.openStream();
      await client.write(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`);
      await stream.next();
      await client.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${idText}}}`);
      await client.write(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`);
      await client.toolText("echo", { text: "both are read" });
      await client.end();
      expect(await stream.rest()).toEqual([]);
    },
  );
});

describe("a notification of a private server or its client", () => {
  describe("progress in a private lane", () => {
    it.each([`"my token"`, `""`, `0`, `7`, `1.50e1`, `9007199254740993`, String.raw`"\u00e9\/"`])(
      "the server's progress is sent on its call's stream alone, with token %s restored",
      async (token) => {
        using stream = await client.openStream();
        const other = client.begin("hang", {}, 3, { progressToken: 0 });
        const [otherId] = await waitForHanging(client, 1);
        const params = `{"_meta":{"progressToken":${token}},"name":"progress","arguments":{"steps":2}}`;
        using call = await client.postForStream(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":${params}}`);
        const line = (step: number): string =>
          `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},"progress":${step}}}`;
        expect([await call.nextText(), await call.nextText()]).toEqual([line(1), line(2)]);
        expect(await call.toolText()).toBe("done");
        // The server does not know the client's own token, and the token of a finished call is no longer valid.
        await client.write(line(3));
        await client.write(notification("notifications/progress", { progressToken: otherId, progress: 9 }));
        using otherCall = await other;
        expect(await otherCall.next()).toMatchObject({ params: { progressToken: 0, progress: 9 } });
        await client.toolText("release");
        expect(await otherCall.rest()).toHaveLength(1);
        expect(await endAndRead(stream)).toEqual([[]]);
      },
    );

    it.each([`"its token"`, `0`, `1e400`])("the client's progress reaches the server with the token %s restored", async (token) => {
      using stream = await client.openStream();
      await client.write(`{"jsonrpc":"2.0","id":"ask","method":"sampling/createMessage","params":{"_meta":{"progressToken":${token}}}}`);
      const asked = await stream.next();
      const minted = progressTokenOf(asked);
      const line = (progressToken: unknown): string =>
        `{"method":"notifications/progress","params":{"progress":1.0,"progressToken": ${String(progressToken)} ,"x":[]},"jsonrpc":"2.0"}`;
      expect((await client.post(line(minted))).status).toBe(202);
      // An unknown token, or one that is not a number, might name another request.
      for (const unknown of [Number(minted) + 1, `"${String(minted)}"`, token === "0" ? "-1" : token]) {
        expect((await client.post(line(unknown))).status).toBe(202);
      }
      await client.answer(asked, {});
      expect((await client.post(line(minted))).status).toBe(202);
      expect((await client.lines()).filter((each) => each.includes("notifications/progress"))).toEqual([line(token)]);
    });

    it("the client's progress on a request without a token is dropped", async () => {
      using stream = await client.openStream();
      await client.write(`{"jsonrpc":"2.0","id":"ask","method":"roots/list","params":{"_meta":{}}}`);
      const { id } = await stream.next();
      await client.notify("notifications/progress", { progressToken: id, progress: 1 });
      expect((await client.lines()).filter((each) => each.includes("notifications/progress"))).toEqual([]);
    });
  });

  it.each([
    ["notifications/elicitation/complete", { elicitationId: "e-1" }],
    ["notifications/tasks/status", { taskId: "t-1", status: "working", _meta: { x: 1 } }],
    ["notifications/message", { level: "debug", data: { a: 1 }, logger: "x" }],
    ["notifications/x-vendor", { a: [1] }],
  ])("the server's %s is sent unchanged on exactly one stream", async (method, params) => {
    const line = notification(method, params).replace("{", "{ ");
    using stream = await client.openStream();
    // No call in flight: the GET stream.
    await client.write(line);
    expect(await stream.nextText()).toBe(line);
    const hanging = client.begin("hang", {}, 2);
    const [wireId] = await waitForHanging(client, 1);
    await client.write(line);
    using call = await hanging;
    expect(await call.nextText()).toBe(line);
    // Several calls: the GET stream.
    const second = client.begin("hang", {}, 3);
    await waitForHanging(client, 2);
    await client.write(line);
    expect(await stream.nextText()).toBe(line);
    await client.toolText("release");
    expect(await call.toolText()).toBe(`released ${wireId}`);
    expect((await second).isStream).toBe(false);
    expect(await endAndRead(stream)).toEqual([[]]);
  });

  it.each(["tools", "prompts", "resources"])("the server's %s/list_changed is sent on the GET stream only, and kept once", async (list) => {
    const line = notification(`notifications/${list}/list_changed`);
    for (let count = 0; count < 3; count++) await client.write(line);
    const other = notification("notifications/resources/updated", { uri: "x://1" });
    await client.write(other);
    await client.toolText("echo", { text: "all are read" });
    using stream = await client.openStream();
    expect([await stream.nextText(), await stream.nextText()]).toEqual([line, other]);
    // Also while a call is in flight, since it does not belong to a call.
    const hanging = client.begin("hang");
    await waitForHanging(client, 1);
    await client.write(line);
    expect(await stream.nextText()).toBe(line);
    await client.toolText("release");
    expect((await hanging).isStream).toBe(false);
    expect(await endAndRead(stream)).toEqual([[]]);
  });

  it.each(["tasks/list", "tasks/get", "tasks/result", "tasks/cancel", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"])(
    "%s is forwarded in both directions",
    async (method) => {
      const params = { taskId: "t-1", level: "debug", uri: "x://1", cursor: "" };
      for (let count = 0; count < 2; count++) {
        expect(await client.request(method, params, "my id")).toMatchObject({ status: 200, id: "my id", result: { method, params } });
      }
      const lines = (await client.lines()).map((line) => JSON.parse(line) as JsonRpcMessage).filter((each) => each.method === method);
      expect(lines.map((each) => each.params)).toEqual([params, params]);
    },
  );
});
