import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { ConsumerClient } from "../support/consumer-client.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { answerOf } from "../support/held-call.ts";
import type { HttpReply } from "../support/http-client.ts";
import { type JsonRpcMessage, readMessages, readResponse } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { LegacySseClient } from "../support/legacy-sse-client.ts";
import { filesystem } from "../support/real-servers.ts";
import { InteropClient, SDKS } from "../support/sdk-clients.ts";
import { HttpBench } from "../support/http-bench.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";

/** The text that a consumer reads from a body (pod-contract.md §3). */
const MAX_BYTES = 16_384;
const LIMITED = ["--max-result-bytes", String(MAX_BYTES)];
const LINE = /\n\[truncated: \d+ of \d+ bytes omitted; ask for less at a time\]$/;

function call(name: string, args: object, id: string | number = 2, meta: object = {}): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args, _meta: meta } };
}

/** Returns the body's bytes as the connection delivered them. */
function bodyBytes({ body }: HttpReply): number {
  return Buffer.byteLength(body);
}

function lastMessage(reply: HttpReply): JsonRpcMessage {
  return readResponse(reply);
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
    expect(outcome.ok && outcome.text.length).toBeGreaterThan(MAX_BYTES * 0.95);
  });

  it("a short enough result is unchanged, and truncations are counted", async () => {
    const before = (await readStatus(sidecar)).counters.policy.truncatedResults;
    const empty = bodyBytes(await client.post(call("big", { length: 0 })));
    const fits = await client.post(call("big", { length: MAX_BYTES - empty }));
    expect(bodyBytes(fits)).toBe(MAX_BYTES);
    expect(isTruncated(lastMessage(fits))).toBe(false);
    const cut = await client.post(call("big", { length: MAX_BYTES - empty + 1 }));
    expect(isTruncated(lastMessage(cut))).toBe(true);
    expect((await readStatus(sidecar)).counters.policy.truncatedResults).toBe(before + 1);
  });

  it("progress is dropped if it would leave less than half for the result", async () => {
    const steps = 1000;
    const reply = await client.post(call("progress", { steps }, 2, { progressToken: "p".repeat(40) }));
    expect(bodyBytes(reply)).toBeLessThanOrEqual(MAX_BYTES);
    expect(readMessages(reply).length).toBeLessThan(steps);
    expect(lastMessage(reply)).toEqual(answerOf("done", 2));
    using consumer = new ConsumerClient(sidecar.url);
    expect(await consumer.call("big", { length: 100_000 })).toMatchObject({ ok: true });
  });

  it("the response to a batch stays within the limit", async () => {
    const own = await sidecar.client({ protocolVersion: "2025-03-26" });
    const calls = Array.from({ length: 8 }, (_, id) => call("big", { length: id * 3000 }, id, { progressToken: id }));
    const array = await own.post(calls, { headers: { Accept: "application/json" } });
    const stream = await own.post([...calls, call("progress", { steps: 20 }, "p", { progressToken: "p" })]);
    expect(stream.headers["content-type"]).toBe("text/event-stream");
    for (const reply of [array, stream]) {
      expect(bodyBytes(reply)).toBeLessThanOrEqual(MAX_BYTES);
      expect(bodyBytes(reply)).toBeGreaterThan(MAX_BYTES * 0.6);
    }
    const answers = JSON.parse(array.body) as JsonRpcMessage[];
    expect(new Set(answers.map(({ id }) => id))).toEqual(new Set([0, 1, 2, 3, 4, 5, 6, 7]));
    expect(answers.filter(isTruncated)).toHaveLength(7);
  });

  it("the response to a batch of one request stays within the limit, which includes the array", async () => {
    const own = await sidecar.client({ protocolVersion: "2025-03-26" });
    const post = (length: number) => own.post([call("big", { length })], { headers: { Accept: "application/json" } });
    const longest = MAX_BYTES - bodyBytes(await post(0));
    for (const [length, truncated] of [
      [longest, false],
      [longest + 1, true],
      [longest + 2, true],
      [longest + 3, true],
    ] as const) {
      const reply = await post(length);
      expect(bodyBytes(reply)).toBeLessThanOrEqual(MAX_BYTES);
      expect((JSON.parse(reply.body) as JsonRpcMessage[]).map(isTruncated)).toEqual([truncated]);
    }
  });

  it("a private server's results stay within the limit, including its preceding requests", async () => {
    const asked = await LaneClient.connect(sidecar);
    using source = await asked.begin("ask", { method: "elicitation/create", params: { message: "m".repeat(3000) } });
    const question = await source.next();
    await asked.answer(question, { action: "accept", content: { text: "c".repeat(50_000) } });
    const answer = await source.answer();
    expect(textOf(answer)).toMatch(LINE);
    expect(Buffer.byteLength(JSON.stringify(answer))).toBeLessThan(MAX_BYTES - 3000);
    await asked.end();
  });

  it("HTTP+SSE results stay within the limit, without counting preceding messages", async () => {
    using legacy = await LegacySseClient.connect(sidecar.origin);
    const steps = 300;
    await legacy.request("tools/call", { name: "progress", arguments: { steps }, _meta: { progressToken: "p".repeat(40) } });
    expect(legacy.messages.filter(({ method }) => method === "notifications/progress")).toHaveLength(steps);
    const answer = await legacy.callTool("big", { length: 100_000 });
    expect(textOf(answer)).toMatch(LINE);
    expect(Buffer.byteLength(JSON.stringify(answer))).toBeLessThanOrEqual(MAX_BYTES);
  });

  it("the result of a task stays within the limit", async () => {
    const params = { taskId: "t", text: "t".repeat(50_000) };
    const reply = await client.post({ jsonrpc: "2.0", id: "r", method: "tasks/result", params });
    expect(bodyBytes(reply)).toBeLessThanOrEqual(MAX_BYTES);
    expect(isTruncated(lastMessage(reply))).toBe(true);
  });

  it("the server's errors stay within the limit", async () => {
    const line = `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"${"m".repeat(20_000)}","data":"${"d".repeat(20_000)}"}}`;
    const reply = await client.post(call("raw_line", { line }));
    expect(bodyBytes(reply)).toBeLessThanOrEqual(MAX_BYTES);
    expect(lastMessage(reply).error).toMatchObject({
      code: -32_042,
      message: expect.stringMatching(LINE) as string,
      data: { truncated: true },
    });
  });

  it("responses of other methods are unchanged", async () => {
    const params = { text: "z".repeat(50_000) };
    const reply = await client.post({ jsonrpc: "2.0", id: 2, method: "x/other", params });
    expect(lastMessage(reply).result).toEqual({ method: "x/other", params });
  });
});

describe("a result limit", () => {
  it("the limit is off by default, and results are unchanged", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const result = `{ "content" : [ {"text":"${"x".repeat(30_000)}" ,"type":"text"} ], "n":9007199254740993 }`;
    const reply = await client.post(call("raw_result", { result }));
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
