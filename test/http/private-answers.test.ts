import { errorReply, readError } from "../support/error-reply.ts";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import type { EventStream } from "../support/event-stream.ts";
import { waitForHanging } from "../support/in-flight.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { waitForGeneration } from "../support/readiness.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

describe("a response to a private server's request", () => {
  let sidecar: RunningSidecar;
  let client: LaneClient;
  let stream: EventStream;

  beforeAll(async () => {
    sidecar = await HttpBench.start({ mode: "newline-only" });
  });
  beforeEach(async () => {
    client = await LaneClient.connect(sidecar);
    stream = await client.openStream();
    return async () => void (await client.end());
  });
  afterAll(() => sidecar[Symbol.asyncDispose]());

  /** Makes the server send a request with this JSON text as its id. */
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

  it("a response never reaches the next generation, which may reuse the id", async () => {
    await using restarting = await HttpBench.start({ flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "20"] });
    const own = await LaneClient.connect(restarting);
    using ownStream = await own.openStream();
    const line = `{"jsonrpc":"2.0","id":"same","method":"roots/list"}`;
    await own.write(line);
    const early = await ownStream.next();
    await crash(restarting);
    await waitForGeneration(restarting, 2);
    const params = { requestId: early.id, reason: "the MCP server has stopped" };
    expect(await ownStream.next()).toEqual({ jsonrpc: "2.0", method: "notifications/cancelled", params });
    expect((await own.answer(early, { from: "the first" })).status).toBe(202);
    await own.write(line);
    const late = await ownStream.next();
    expect(late.id).not.toBe(early.id);
    await own.answer(early, { from: "the first" });
    await own.answer(late, { from: "the second" });
    expect(await own.answers()).toEqual([`{"jsonrpc":"2.0","id":"same","result":{"from":"the second"}}`]);
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

  it("the sidecar answers after ten times REQUEST_TIMEOUT_MS, and drops a later response", async () => {
    await using impatient = await HttpBench.start({ flags: ["--request-timeout-ms", "2000"] });
    const own = await LaneClient.connect(impatient);
    using ownStream = await own.openStream();
    const askedAtMs = performance.now();
    await own.write(`{"jsonrpc":"2.0","id":"ask","method":"elicitation/create"}`);
    const asked = await ownStream.next();
    // The server does not tell when it gets the answer; to ask it without a pause would occupy a core.
    let answers: string[] = [];
    for (; answers.length === 0; await delay(100)) answers = await own.answers();
    expect(performance.now() - askedAtMs).toBeGreaterThanOrEqual(20_000);
    expect(answers.map((line) => JSON.parse(line) as unknown)).toEqual([
      { jsonrpc: "2.0", id: "ask", error: { code: -32001, message: "The client did not answer elicitation/create in time" } },
    ]);
    expect((await own.answer(asked, { action: "accept" })).status).toBe(202);
    expect(await own.answers()).toHaveLength(1);
  });
});

describe("a private server's ping", () => {
  it.each([`"p"`, `0`, `1e400`])("the sidecar answers a ping with id %s, which never reaches the client", async (idText) => {
    await using sidecar = await HttpBench.start();
    const client = await LaneClient.connect(sidecar);
    using stream = await client.openStream();
    await client.write(`{"id": ${idText} ,"method":"ping","jsonrpc":"2.0"}`);
    let answers: string[] = [];
    while (answers.length === 0) answers = await client.answers();
    expect(answers).toEqual([`{"jsonrpc":"2.0","id":${idText},"result":{}}`]);
    await client.end();
    expect(await stream.rest()).toEqual([]);
  });
});
