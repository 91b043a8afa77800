import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { readSeen, waitForHanging } from "../support/in-flight.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

describe("cancellation in a private lane", () => {
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

  it("the client's cancellation reaches the server with its own id, without a response", async () => {
    const other = await LaneClient.connect(sidecar);
    const otherHanging = other.callTool("hang", {}, 7);
    const [otherId] = await waitForHanging(other, 1);
    const hanging = client.begin("hang", {}, 7, { progressToken: 7 });
    const [wireId] = await waitForHanging(client, 1);
    const line = (id: unknown): string =>
      `{"params":{"requestId": ${String(id)},"reason":"enough","x":1.0},"method":"notifications/cancelled","jsonrpc":"2.0"}`;
    expect((await client.post(line(7))).status).toBe(202);
    using call = await hanging;
    expect([call.status, await call.body()]).toEqual([202, ""]);
    expect((await client.lines()).filter((each) => each.includes("cancelled"))).toEqual([line(wireId)]);
    expect((await readSeen(other)).filter((method) => method.startsWith("notifications/cancelled"))).toEqual([]);
    await other.toolText("release");
    expect((await otherHanging).result?.content?.[0]?.text).toBe(`released ${otherId}`);
    await other.end();
  });

  it("the client's cancellation ends the stream of its call without a response", async () => {
    using call = await client.begin("ask", { method: "roots/list" }, "my id");
    await call.next();
    await client.notify("notifications/cancelled", { requestId: "my id" });
    expect(await call.rest()).toEqual([]);
  });

  it("a disconnect cancels the request at the server unless the response can be resumed", async () => {
    const leaving = new AbortController();
    const left = client.callTool("hang", {}, 2, { signal: leaving.signal }).catch(String);
    const [wireId] = await waitForHanging(client, 1);
    leaving.abort();
    expect(await left).toContain("aborted");
    const readCancelled = async (): Promise<string[]> =>
      (await readSeen(client)).filter((method) => method.startsWith("notifications/cancelled"));
    let cancelled: string[] = [];
    while (cancelled.length === 0) cancelled = await readCancelled();
    expect(cancelled).toEqual([`notifications/cancelled ${wireId}`]);

    const call = await client.begin("ask", { method: "roots/list" });
    const primer = await call.block();
    const asked = await call.next();
    call[Symbol.dispose]();
    await client.answer(asked, { roots: [] });
    using resumed = await client.openStream({ lastEventId: primer?.id });
    const [, answer] = await resumed.rest();
    expect(JSON.parse(answer?.result?.content?.[0]?.text ?? "")).toMatchObject({ id: "ask", result: { roots: [] } });
    expect(await readCancelled()).toEqual(cancelled);
  });
});
