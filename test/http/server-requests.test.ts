import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";

function refusal(method: string): object {
  return {
    code: -32601,
    message: `${method} is not available: several clients or sessions share this MCP server, and a request does not say for which it is`,
  };
}

/** Makes the server send this request. @returns the response that the server gets. */
async function ask(client: McpClient, method: string, id: string | number): Promise<unknown> {
  return JSON.parse(await client.toolText("ask", { method, id }));
}

describe("a shared server's request", async () => {
  const shared = disposeAfterAll(await HttpBench.start({ mode: "newline-only" }));

  it.each(["sampling/createMessage", "elicitation/create", "roots/list", "x-vendor/anything", "tools/call"])(
    "%s is rejected at once, so that the server does not wait",
    async (method) => {
      expect(await ask(await shared.client(), method, "ask")).toEqual({ jsonrpc: "2.0", id: "ask", error: refusal(method) });
    },
  );

  it("the response to a request has its id with the spelling unchanged", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const ids = ["1e400", "9007199254740993", "1.0", String.raw`"\u00e9\/"`];
    for (const id of ids) await client.toolText("noise", { line: `{"id": ${id} ,"method":"ping","jsonrpc":"2.0"}` });
    expect(JSON.parse(await client.toolText("answers"))).toEqual(ids.map((id) => `{"jsonrpc":"2.0","id":${id},"result":{}}`));
  });

  it.each(["ping", "sampling/createMessage"])("%s with the id of a request in flight is never taken for its response", async (method) => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const hanging = client.callTool("hang", {}, 2);
    const [wireId = -1] = await waitForHanging(client, 1);
    expect(await ask(client, method, wireId)).toMatchObject({ jsonrpc: "2.0", id: wireId });
    await client.toolText("release");
    expect((await hanging).result?.content?.[0]?.text).toBe(`released ${wireId}`);
  });

  it("a request that also has a result is not a response either", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const line = `{"jsonrpc":"2.0","id":$ID,"method":"ping","result":{"content":[{"type":"text","text":"wrong"}]}}\n{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"right"}]}}`;
    expect(await client.toolText("raw_line", { line })).toBe("right");
  });

  it("a request is answered even if no client has ever connected", async () => {
    await using sidecar = await HttpBench.start({ mode: "asks-at-start" });
    const client = await sidecar.client();
    expect((JSON.parse(await client.toolText("answers")) as string[]).map((line) => JSON.parse(line) as unknown)).toEqual([
      { jsonrpc: "2.0", id: 0, result: {} },
      { jsonrpc: "2.0", id: 1, error: refusal("roots/list") },
    ]);
  });
});

describe("the server's other output", () => {
  it("responses to requests that were never sent are dropped", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const answer = (id: string): string => `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"wrong"}]}}`;
    const hanging = client.callTool("hang");
    const [wireId] = await waitForHanging(client, 1);
    // An unknown id, one in another form, none, and that of the sidecar's own initialize.
    const ids = ["999999", `"0${wireId}"`, "null", "-1", "0"];
    for (const [index, id] of ids.entries()) {
      await client.toolText("noise", { line: answer(id) });
      const dropped = await sidecar.waitForLog("answer dropped: no such request", (line) => line["count"] === index + 1);
      expect(dropped).toMatchObject({ level: "warn" });
    }
    await client.toolText("release");
    expect((await hanging).result?.content?.[0]?.text).toBe(`released ${wireId}`);
  });

  it("a batch of messages is accepted if the negotiated revision allows batches", async () => {
    await using sidecar = await HttpBench.start({ mode: "protocol-2025-03-26", flags: ["--request-timeout-ms", "3000"] });
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
});
