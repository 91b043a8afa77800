import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { waitForHanging } from "../support/in-flight.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { Sidecar } from "../support/sidecar.ts";

function refusal(method: string): object {
  return {
    code: -32601,
    message: `No client of this shared MCP server can be asked for ${method}: it declared no client capabilities`,
  };
}

/** What the server is answered when it sends this request; it gives the answer back. */
async function ask(client: McpClient, method: string, id: string | number): Promise<unknown> {
  return JSON.parse(await client.toolText("ask", { method, id }));
}

describe("a request of a shared server", async () => {
  const shared = disposeAfterAll(await Sidecar.start({ mode: "newline-only" }));

  it.each(["ask", "", "é\u2028", 0, 1.5, -1, 9007199254740991])("to ping is answered, with its id %j", async (id) => {
    expect(await ask(await shared.client(), "ping", id)).toEqual({ jsonrpc: "2.0", id, result: {} });
  });

  it.each(["sampling/createMessage", "elicitation/create", "roots/list", "x-vendor/anything", "tools/call"])(
    "for %s is refused at once, so that it never waits",
    async (method) => {
      expect(await ask(await shared.client(), method, "ask")).toEqual({ jsonrpc: "2.0", id: "ask", error: refusal(method) });
    },
  );

  it("is answered with its id as it was spelled", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    const ids = ["1e400", "9007199254740993", "1.0", String.raw`"\u00e9\/"`];
    for (const id of ids) await client.toolText("noise", { line: `{"id": ${id} ,"method":"ping","jsonrpc":"2.0"}` });
    expect(JSON.parse(await client.toolText("answers"))).toEqual(ids.map((id) => `{"jsonrpc":"2.0","id":${id},"result":{}}`));
  });

  it.each(["ping", "sampling/createMessage"])(
    "for %s whose id is that of a request in flight is never taken for its answer",
    async (method) => {
      await using sidecar = await Sidecar.start();
      const client = await sidecar.client();
      const hanging = client.callTool("hang", {}, 2);
      const [wireId = -1] = await waitForHanging(client, 1);
      expect(await ask(client, method, wireId)).toMatchObject({ jsonrpc: "2.0", id: wireId });
      await client.toolText("release");
      expect((await hanging).result?.content?.[0]?.text).toBe(`released ${wireId}`);
    },
  );

  it("that carries a result as well is no answer either", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    const line = `{"jsonrpc":"2.0","id":$ID,"method":"ping","result":{"content":[{"type":"text","text":"wrong"}]}}\n{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"right"}]}}`;
    expect(await client.toolText("raw_line", { line })).toBe("right");
  });

  it("is answered although no client has ever been there", async () => {
    await using sidecar = await Sidecar.start({ mode: "asks-at-start" });
    const client = await sidecar.client();
    expect((JSON.parse(await client.toolText("answers")) as string[]).map((line) => JSON.parse(line) as unknown)).toEqual([
      { jsonrpc: "2.0", id: 0, result: {} },
      { jsonrpc: "2.0", id: 1, error: refusal("roots/list") },
    ]);
  });

  it("is never answered by a client: what one sends as a response is taken and dropped", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    for (const response of [
      { jsonrpc: "2.0", id: 1, result: {} },
      { jsonrpc: "2.0", id: "ask", error: { code: 1, message: "no" } },
    ]) {
      const reply = await client.post(response);
      expect([reply.status, reply.body]).toEqual([202, ""]);
    }
    expect(JSON.parse(await client.toolText("answers"))).toEqual([]);
  });
});

describe("what the server says otherwise", () => {
  it("drops answers to requests that were never sent, and goes on", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    const answer = (id: string): string => `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"wrong"}]}}`;
    const hanging = client.callTool("hang");
    const [wireId] = await waitForHanging(client, 1);
    // Unknown, of the wrong type, of nothing, and that of the sidecar's own initialize.
    const ids = ["999999", `"${wireId}"`, "null", "-1", "0"];
    for (const [index, id] of ids.entries()) {
      await client.toolText("noise", { line: answer(id) });
      const dropped = await sidecar.waitForLog("answer dropped: no such request", (line) => line["count"] === index + 1);
      expect(dropped).toMatchObject({ level: "warn" });
    }
    await client.toolText("release");
    expect((await hanging).result?.content?.[0]?.text).toBe(`released ${wireId}`);
  });

  it("delivers the first of two answers to one request, and drops the second", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    const answer = (text: string): string => `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"${text}"}]}}`;
    const line = `${answer("first")}\n${answer("second")}`;
    expect(await client.toolText("raw_line", { line })).toBe("first");
    await sidecar.waitForLog("answer dropped: no such request");
    expect(await client.toolText("echo", { text: "on" })).toBe("on");
  });

  it("delivers a response that has a null error beside its result", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    const line = `{"jsonrpc":"2.0","id":$ID,"error":null,"result":{"content":[{"type":"text","text":"odd"}]}}`;
    expect(await client.toolText("raw_line", { line })).toBe("odd");
  });

  it("is not disturbed by progress, wanted or not, nor by other notifications", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    const params = { name: "progress", arguments: { steps: 1000 }, _meta: { progressToken: "mine" } };
    const wanted = client.postForStream({ jsonrpc: "2.0", id: "my id", method: "tools/call", params });
    const unwanted = client.toolText("progress", { steps: 1000 });
    const notification = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`;
    const other = client.toolText("noise", { line: notification, count: 1000 });
    expect(await (await wanted).rest()).toEqual([
      ...Array.from({ length: 1000 }, (_, index) => ({
        jsonrpc: "2.0",
        method: "notifications/progress",
        params: { progressToken: "mine", progress: index + 1 },
      })),
      { jsonrpc: "2.0", id: "my id", result: { content: [{ type: "text", text: "done" }] } },
    ]);
    expect([await unwanted, await other]).toEqual(["done", "written"]);
  });

  it("may be a batch, where the server has negotiated the one revision that had them", async () => {
    await using sidecar = await Sidecar.start({ mode: "protocol-2025-03-26", flags: ["--request-timeout-ms", "3000"] });
    const client = await sidecar.client();
    const elements = [
      `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"]}"}}`,
      `42`,
      `{"result":{"a":1.0,"b":[9007199254740993]}, "id":$ID ,"jsonrpc":"2.0"}`,
      `{"jsonrpc":"2.0","id":"in the batch","method":"ping"}`,
    ];
    const params = { name: "raw_line", arguments: { line: `[ ${elements.join(" ,\t")} ]` } };
    const reply = await client.post({ jsonrpc: "2.0", id: "my id", method: "tools/call", params });
    expect(reply.body).toBe(`{"result":{"a":1.0,"b":[9007199254740993]}, "id":"my id" ,"jsonrpc":"2.0"}`);
    expect(JSON.parse(await client.toolText("answers"))).toEqual([`{"jsonrpc":"2.0","id":"in the batch","result":{}}`]);
    await sidecar.waitForLog("stdout line skipped: not json-rpc", (line) => line["line"] === "42");
  });

  it("is no answer to a request that it was not sent yet", async () => {
    await using sidecar = await Sidecar.start({ mode: "forges", flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "20"] });
    const client = await sidecar.client();
    await crash(sidecar);
    // Held, under one of the ids that the next generation answers before it is ready.
    expect(await client.toolText("echo", { text: "genuine" })).toBe("genuine");
    expect(await sidecar.waitForLog("answer dropped: no such request")).toMatchObject({ level: "warn" });
  });
});
