import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { EventStream } from "../support/event-stream.ts";
import { waitForHanging } from "../support/in-flight.ts";
import { type JsonRpcMessage, progressTokenOf } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

function notification(method: string, params?: object): string {
  return JSON.stringify({ jsonrpc: "2.0", method, params });
}

describe("private lanes", () => {
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

  /** Returns the messages of a stream up to the end of the session. */
  async function endAndRead(...streams: EventStream[]): Promise<JsonRpcMessage[][]> {
    await client.end();
    return Promise.all(streams.map((stream) => stream.rest()));
  }

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
    ["notifications/roots/list_changed", undefined],
    ["notifications/tasks/status", { taskId: "t-1", status: "completed" }],
    ["notifications/x-vendor", { a: [1] }],
  ])("the client's %s reaches the server unchanged", async (method, params) => {
    const line = notification(method, params).replace("{", "{ ");
    expect(await client.post(line)).toMatchObject({ status: 202, body: "" });
    expect((await client.lines()).filter((each) => each.includes(method))).toEqual([line]);
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
    // One call: its own stream.
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

  it("a log message goes to its own client, regardless of levels", async () => {
    const other = await LaneClient.connect(sidecar);
    const shared = await sidecar.client();
    await shared.request("logging/setLevel", { level: "debug" });
    await client.request("logging/setLevel", { level: "emergency" });
    using stream = await client.openStream();
    using otherStream = await other.openStream();
    const line = notification("notifications/message", { level: "debug", data: "mine" });
    await client.write(line);
    expect(await stream.nextText()).toBe(line);
    await other.end();
    expect(await endAndRead(stream, otherStream)).toEqual([[], []]);
  });
});
