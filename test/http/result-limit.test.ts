import { writeFile } from "node:fs/promises";
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { ConsumerClient } from "../support/consumer-client.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { answerOf, HeldCall, say } from "../support/held-call.ts";
import type { HttpReply } from "../support/http-client.ts";
import { waitForHanging } from "../support/in-flight.ts";
import { type JsonRpcMessage, readMessages, readResponse } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { LegacySseClient } from "../support/legacy-sse-client.ts";
import { EVERYTHING, filesystem } from "../support/real-servers.ts";
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
  const [client, control] = [await sidecar.client(), await sidecar.client()];

  it("the consumer reads the beginning of a long result, and not an error", async () => {
    using consumer = new ConsumerClient(sidecar.url);
    const outcome = await consumer.call("big", { length: 1_000_000 });
    expect(outcome).toEqual({ ok: true, text: expect.stringMatching(LINE) as string });
    expect(outcome.ok && outcome.text.length).toBeGreaterThan(MAX_BYTES * 0.95);
  });

  it("a body with any text nearly fills the limit, and never exceeds it", async () => {
    for (const [text, count] of [
      ["x", 1],
      ["é", 2],
      ['"', 2],
      ["😀", 4],
      ["\u0001", 6],
    ] as const) {
      const reply = await client.post(call("echo", { text: text.repeat(MAX_BYTES) }));
      expect(bodyBytes(reply)).toBeLessThanOrEqual(MAX_BYTES);
      expect(bodyBytes(reply)).toBeGreaterThan(MAX_BYTES * 0.98);
      const answer = lastMessage(reply);
      expect(answer.id).toBe(2);
      expect(CallToolResultSchema.safeParse(answer.result).success).toBe(true);
      expect(textOf(answer).replace(LINE, "").length * count).toBeGreaterThan(MAX_BYTES * 0.9);
    }
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

  it("a stream stays within the limit, including its progress", async () => {
    const before = await waitForHanging(control, 0);
    const replied = client.post(call("hang", {}, 2, { progressToken: "p" }));
    const wireId = (await waitForHanging(control, before.length + 1)).at(-1);
    const params = Array.from({ length: 40 }, (_, progress) => ({ progressToken: wireId, progress }));
    const result = { content: [{ type: "text", text: "y".repeat(100_000) }] };
    const messages = [...params.map((each) => ({ method: "notifications/progress", params: each })), { id: wireId, result }];
    await say(control, ...messages.map((message) => JSON.stringify({ jsonrpc: "2.0", ...message })));
    const reply = await replied;
    expect(bodyBytes(reply)).toBeLessThanOrEqual(MAX_BYTES);
    expect(bodyBytes(reply)).toBeGreaterThan(MAX_BYTES * 0.9);
    expect(readMessages(reply)).toHaveLength(41);
    expect(textOf(lastMessage(reply))).toMatch(LINE);
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
    await using own = await HttpBench.start({ flags: LIMITED });
    const tasks = await LaneClient.connectShared(own);
    await tasks.toolText("mute", { method: "tasks/result" });
    const reply = tasks.post({ jsonrpc: "2.0", id: "r", method: "tasks/result", params: { taskId: "t" } });
    const wireId = await until(async () => {
      const lines = JSON.parse(await tasks.toolText("lines")) as string[];
      const line = lines.find((each) => each.includes('"tasks/result"') && each.includes('"taskId"'));
      return line === undefined ? undefined : (JSON.parse(line) as { readonly id: number }).id;
    });
    const related = { "io.modelcontextprotocol/related-task": { taskId: "t" } };
    const result = { content: [{ type: "text", text: "t".repeat(50_000) }], _meta: related };
    await tasks.post({
      jsonrpc: "2.0",
      method: "notifications/x-write",
      params: { line: JSON.stringify({ jsonrpc: "2.0", id: wireId, result }) },
    });
    const answer = lastMessage(await reply);
    expect(bodyBytes(await reply)).toBeLessThanOrEqual(MAX_BYTES);
    expect(answer).toMatchObject({ id: "r", result: { _meta: { ...related, truncated: true } } });
    expect(textOf(answer)).toMatch(LINE);
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
  it("comments count on a stream that begins after silence", async () => {
    await using sidecar = await HttpBench.start({ flags: [...LIMITED, "--stream-after-ms", "1", "--keep-alive-ms", "20"] });
    const [client, control] = [await sidecar.client(), await sidecar.client()];
    const replied = client.post(call("hang", {}));
    const [wireId] = await waitForHanging(control, 1);
    // Another stream shows the number of comments, since every stream gets them.
    const other = await HeldCall.start(client, control, { token: null });
    using stream = await other.stream;
    for (let comments = 0; comments < 30;) if ((await stream.block())?.comment !== undefined) comments++;
    await say(control, JSON.stringify({ jsonrpc: "2.0", id: wireId, result: { content: [{ type: "text", text: "y".repeat(100_000) }] } }));
    await other.answer();
    const reply = await replied;
    expect(reply.body.split(": keep-alive").length).toBeGreaterThan(30);
    expect(textOf(lastMessage(reply))).toMatch(LINE);
    expect(bodyBytes(reply)).toBeLessThanOrEqual(MAX_BYTES);
    expect(bodyBytes(reply)).toBeGreaterThan(MAX_BYTES * 0.8);
  });

  it.each(["application/json", "application/json, text/event-stream"])(
    "the sidecar's errors in a batch stay within the limit: %s",
    async (accept) => {
      await using sidecar = await HttpBench.start({ flags: [...LIMITED, "--request-timeout-ms", "300"] });
      const client = await sidecar.client({ protocolVersion: "2025-03-26" });
      for (const [count, start] of [
        [60, "The MCP server did not answer "],
        [100, "REQUEST_TIMEOUT"],
      ] as const) {
        const reply = await client.post(
          Array.from({ length: count }, (_, id) => call("hang", {}, id)),
          { headers: { Accept: accept } },
        );
        expect(bodyBytes(reply)).toBeLessThanOrEqual(MAX_BYTES);
        const errors = readMessages(reply)
          .flat()
          .flatMap(({ error }) => (error === undefined ? [] : [error.message]));
        expect(errors.filter((message) => message.startsWith(start))).toHaveLength(count);
      }
    },
  );

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
  it("the filesystem server returns the beginning of a long file", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await HttpBench.start({ command: filesystem(directory.path), flags: LIMITED });
    const path = directory.file("long.txt");
    const content = Array.from({ length: 20_000 }, (_, line) => `${line}: "é" 👩‍👩‍👧‍👦\n`).join("");
    await writeFile(path, content);
    using consumer = new ConsumerClient(sidecar.url);
    const outcome = await consumer.call("read_text_file", { path });
    const text = (outcome.ok ? outcome.text : "").replace(/\n\[omitted: structuredContent of \d+ bytes; ask for less at a time\]$/, "");
    expect(text).toMatch(LINE);
    expect(content.startsWith(text.replace(LINE, ""))).toBe(true);
    expect(Buffer.byteLength(text)).toBeGreaterThan(MAX_BYTES * 0.8);
    await writeFile(directory.file("a.png"), Buffer.alloc(40_000, "png"));
    expect(await consumer.call("read_media_file", { path: directory.file("a.png") })).toEqual({
      ok: true,
      text: expect.stringMatching(/^\[omitted: image, image\/png, 53\d\d\d bytes\]\n\[omitted: structuredContent of \d+ bytes; /) as string,
    });
  });

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

  it("an image is replaced by a note, and the text beside it stays", async () => {
    await using sidecar = await HttpBench.start({ command: EVERYTHING, flags: ["--max-result-bytes", "1024"] });
    const reply = await (await sidecar.client()).post(call("get-tiny-image", {}));
    expect(bodyBytes(reply)).toBeLessThanOrEqual(1024);
    const { result } = lastMessage(reply);
    expect(CallToolResultSchema.safeParse(result).success).toBe(true);
    expect(result?.content?.map(({ text }) => text)).toEqual([
      expect.stringContaining("image") as string,
      expect.stringMatching(/^\[omitted: image, image\/png, \d+ bytes\]$/) as string,
      expect.stringContaining("image") as string,
    ]);
  });
});

async function until<Found>(look: () => Promise<Found | undefined>): Promise<Found> {
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
  }
}
