import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { ConsumerClient } from "../support/consumer-client.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { TempDir } from "../support/temp-dir.ts";
import { answerOf } from "../support/held-call.ts";
import type { HttpReply } from "../support/http-client.ts";
import { type JsonRpcMessage, readMessages, readResponse } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { LegacySseClient } from "../support/legacy-sse-client.ts";
import { toolCall } from "../support/mcp-client.ts";
import { filesystem } from "../support/real-servers.ts";
import { InteropClient, SDKS } from "../support/sdk-clients.ts";
import { HttpBench } from "../support/http-bench.ts";
import { readStatus } from "../support/status.ts";

/** A consumer reads as much of a body (pod-contract.md §3). */
const LIMIT_BYTES = 16_384;
/** The part of the limit for what is added to a result. */
const ADDED_BYTES = 1024;
const LIMITED = ["--max-result-bytes", String(LIMIT_BYTES)];
const LINE = /\n\[truncated: \d+ of \d+ bytes omitted; ask for less at a time\]$/;

function bodyBytes({ body }: HttpReply): number {
  return Buffer.byteLength(body);
}

function textOf({ result }: JsonRpcMessage): string {
  return result?.content?.[0]?.text ?? "";
}

function isTruncated({ result }: JsonRpcMessage): boolean {
  return (result?.["_meta"] as { readonly truncated?: boolean } | undefined)?.truncated === true;
}

describe("a sidecar that limits results", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start({ flags: [...LIMITED, "--legacy-sse", "on"] }));
  const client = await sidecar.client();

  it("the consumer reads the beginning of a long result, and not an error", async () => {
    using consumer = new ConsumerClient(sidecar.url);
    const outcome = await consumer.call("big", { length: 1_000_000 });
    expect(outcome).toEqual({ ok: true, text: expect.stringMatching(LINE) as string });
    expect(outcome.ok && outcome.text.length).toBeGreaterThan(LIMIT_BYTES * 0.9);
  });

  it("a short enough result is unchanged, and truncations are counted", async () => {
    const before = (await readStatus(sidecar)).counters.policy.truncatedResults;
    const id = "i".repeat(100);
    const empty = bodyBytes(await client.post(toolCall("big", { length: 0 }, id)));
    // The id has room of its own.
    const longest = LIMIT_BYTES - ADDED_BYTES - empty + id.length + 2;
    const fits = await client.post(toolCall("big", { length: longest }, id));
    expect(readResponse(fits)).toEqual(answerOf("x".repeat(longest), id));
    const cut = await client.post(toolCall("big", { length: longest + 1 }, id));
    expect(isTruncated(readResponse(cut))).toBe(true);
    expect((await readStatus(sidecar)).counters.policy.truncatedResults).toBe(before + 1);
  });

  it("messages before the result are not counted", async () => {
    const steps = 1000;
    const reply = await client.post(toolCall("progress", { steps }, 2, { progressToken: "p".repeat(40) }));
    expect(readMessages(reply).length).toBe(steps + 1);
    expect(readResponse(reply)).toEqual(answerOf("done", 2));
  });

  it("each response of a batch has the limit for itself", async () => {
    const own = await sidecar.client({ protocolVersion: "2025-03-26" });
    const calls = Array.from({ length: 8 }, (_, id) => toolCall("big", { length: id * 3000 }, id));
    const reply = await own.post(calls, { headers: { Accept: "application/json" } });
    const answers = JSON.parse(reply.body) as JsonRpcMessage[];
    const sizes = answers.map((answer) => [Buffer.byteLength(JSON.stringify(answer)) > LIMIT_BYTES * 0.9, isTruncated(answer)]);
    expect(sizes).toEqual(calls.map((_, index) => [index > 4, index > 5]));
    expect(bodyBytes(reply)).toBeGreaterThan(3 * LIMIT_BYTES);
  });

  it("a private server's results stay within the limit", async () => {
    const asked = await LaneClient.connect(sidecar);
    using source = await asked.begin("ask", { method: "elicitation/create", params: { message: "m" } });
    const question = await source.next();
    await asked.answer(question, { action: "accept", content: { text: "c".repeat(50_000) } });
    const answer = await source.answer();
    expect(textOf(answer)).toMatch(LINE);
    expect(Buffer.byteLength(JSON.stringify(answer))).toBeLessThanOrEqual(LIMIT_BYTES);
    await asked.end();
  });

  it("HTTP+SSE results stay within the limit", async () => {
    using legacy = await LegacySseClient.connect(sidecar.origin);
    const answer = await legacy.callTool("big", { length: 100_000 });
    expect(textOf(answer)).toMatch(LINE);
    expect(Buffer.byteLength(JSON.stringify(answer))).toBeLessThanOrEqual(LIMIT_BYTES);
  });

  it("the result of a task stays within the limit", async () => {
    const params = { taskId: "t", text: "t".repeat(50_000) };
    const reply = await client.post({ jsonrpc: "2.0", id: "r", method: "tasks/result", params });
    expect(bodyBytes(reply)).toBeLessThanOrEqual(LIMIT_BYTES);
    expect(isTruncated(readResponse(reply))).toBe(true);
  });

  it("responses of other methods are unchanged", async () => {
    const params = { text: "z".repeat(50_000) };
    const reply = await client.post({ jsonrpc: "2.0", id: 2, method: "x/other", params });
    expect(readResponse(reply).result).toEqual({ method: "x/other", params });
  });
});

describe.each([4096, LIMIT_BYTES])("a limit of %i bytes", async (limitBytes) => {
  const flags = ["--max-result-bytes", String(limitBytes), "--stream-after-ms", "1"];
  const sidecar = disposeAfterAll(await HttpBench.start({ flags }));
  const session = await sidecar.client();
  const id = "i".repeat(500);
  const longest = limitBytes - ADDED_BYTES - Buffer.byteLength('{"jsonrpc":"2.0","id":,"result":{"content":[{"type":"text","text":""}]}}');
  const whole = { content: [{ type: "text", text: "x".repeat(longest) }] };
  const wide = { content: [{ type: "text", text: "é".repeat(10_000) }], _meta: { a: "b".repeat(350) } };

  it.each<[what: string, answer: object, isTruncated: boolean]>([
    ["the longest result that is not truncated", { result: whole }, false],
    ["a longer one", { result: { ...whole, isError: true } }, true],
    ["a truncated one", { result: wide }, true],
    ["a truncated one with structured content", { result: { ...wide, content: [], structuredContent: wide } }, true],
    ["a truncated error", { error: { code: -1, message: "m".repeat(20_000) } }, true],
  ])("the body of a response without messages before it is within the limit: %s", async (_what, answer, isCut) => {
    const { headers, body } = sidecar.modernClient().compose("tools/call", { name: "hang" }, { id });
    const ofSession = JSON.stringify(toolCall("hang", {}, id));
    const requests = [
      { headers: session.postHeaders(), body: ofSession },
      { headers: session.postHeaders({}, "application/json"), body: ofSession },
      { headers, body },
    ];
    const forms = new Set<string | null>();
    for (const request of requests) {
      const response = fetch(sidecar.url, { ...request, method: "POST" });
      // A stream begins before its response.
      if (request.headers["Accept"] !== "application/json") await response;
      let ids: unknown[] = [];
      while (ids.length === 0) ids = JSON.parse(await session.toolText("hanging")) as unknown[];
      const line = JSON.stringify({ jsonrpc: "2.0", id: ids[0], ...answer });
      await session.callTool("raw_line", { line: `${line}\n{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}` });
      await session.callTool("release");
      const text = await (await response).text();
      forms.add((await response).headers.get("content-type"));
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(limitBytes);
      expect(text.includes("truncated")).toBe(isCut);
    }
    expect(forms).toEqual(new Set(["text/event-stream", "application/json"]));
  });
});

describe("a result limit", () => {
  it("the limit is off by default, and results are unchanged", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const result = `{ "content" : [ {"text":"${"x".repeat(30_000)}" ,"type":"text"} ], "n":9007199254740993 }`;
    const reply = await client.post(toolCall("raw_result", { result }));
    expect(reply.body).toBe(`{"jsonrpc":"2.0","id":2,"result":${result}}`);
    using consumer = new ConsumerClient(sidecar.url);
    expect(await consumer.call("big", { length: 30_000 })).toMatchObject({ ok: false, code: "request_failed" });
  });
});

describe("real servers with a result limit", () => {
  it.each(SDKS)("hidden output schemas make the official SDK %s accept truncated text", async (sdk) => {
    await using directory = await TempDir.create();
    await using sidecar = await HttpBench.start({ command: filesystem(directory.path), flags: LIMITED });
    const path = directory.file("long.txt");
    await writeFile(path, "é".repeat(30_000));
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane: "shared" });
    await client.listTools();
    const { content } = await client.callTool("read_text_file", { path });
    expect(content[0]?.text).toMatch(LINE);
  });
});
