import { describe, expect, it } from "vitest";
import { errorData } from "../support/error-reply.ts";
import { ConsumerClient } from "../support/consumer-client.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { send } from "../support/http-client.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import { Sidecar } from "../support/sidecar.ts";

/** The minimum that surrounds a text in a reply to the consumer. */
const FRAME = '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":""}]}}';
const MAX_REPLY_BYTES = 16_384;

async function endSession(sidecar: Sidecar, sessionId: string | undefined): Promise<void> {
  const { status } = await send(sidecar.url, { method: "DELETE", headers: { "Mcp-Session-Id": sessionId ?? "" } });
  expect(status).toBe(204);
}

function echoes(consumer: ConsumerClient, texts: readonly string[]): Promise<unknown> {
  return Promise.all(texts.map((text) => consumer.call("echo", { text })));
}

function numbered(prefix: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${prefix} ${index}`);
}

function ok(texts: readonly string[]): unknown {
  return texts.map((text) => ({ ok: true, text }));
}

describe("the consumer of a pod", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start());

  it("each of 100 first calls that open a session gets its own result", async () => {
    using consumer = new ConsumerClient(sidecar.url);
    const texts = numbered("call", 100);
    expect(await echoes(consumer, texts)).toEqual(ok(texts));
    expect(consumer.sessionsOpened).toBe(100);
  });

  it("the consumer calls the tools of a real server", async () => {
    await using own = await Sidecar.start({ command: EVERYTHING, env: { CLAW_MCP_STDIO_AUTH_TOKEN: "pod-token" } });
    using consumer = new ConsumerClient(own.url, { token: "pod-token" });
    expect(await consumer.call("get-sum", { a: 1, b: 2 })).toEqual({ ok: true, text: "The sum of 1 and 2 is 3." });
  });

  it("all of 50 concurrent calls recover when their session has ended", async () => {
    using consumer = new ConsumerClient(sidecar.url);
    await consumer.call("echo", { text: "before" });
    await endSession(sidecar, consumer.sessionId);
    const texts = numbered("after", 50);
    expect(await echoes(consumer, texts)).toEqual(ok(texts));
    expect(consumer.sessionsOpened).toBeGreaterThan(1);
  });

  it.each([
    { title: "goes on in its session", flags: [], opened: 1 },
    { title: "opens another session after SESSION_MAX_AGE_MS", flags: ["--session-max-age-ms", "1"], opened: 3 },
  ])("the consumer $title when its session was evicted", async ({ flags, opened }) => {
    await using own = await Sidecar.start({ flags: ["--max-sessions", "1", ...flags] });
    using consumer = new ConsumerClient(own.url);
    using other = new ConsumerClient(own.url);
    for (let round = 1; round <= 3; round++) {
      expect(await consumer.call("echo", { text: "mine" })).toEqual({ ok: true, text: "mine" });
      expect(await other.call("echo", { text: "the other's" })).toEqual({ ok: true, text: "the other's" });
    }
    expect([consumer.sessionsOpened, other.sessionsOpened]).toEqual([opened, opened]);
  });

  it("the consumer recovers by itself when the sidecar was replaced", async () => {
    await using first = await Sidecar.start();
    const [, port] = first.origin.match(/:(\d+)$/) ?? [];
    using consumer = new ConsumerClient(first.url);
    await consumer.call("echo", { text: "before" });
    await first.stop();
    await using second = await Sidecar.start({ flags: ["--addr", `127.0.0.1:${port}`] });
    expect(second.url).toBe(first.url);
    expect(await consumer.call("echo", { text: "after" })).toEqual({ ok: true, text: "after" });
    expect(consumer.sessionsOpened).toBe(2);
  });

  it("a result of exactly the size limit is readable, since the sidecar adds nothing", async () => {
    using consumer = new ConsumerClient(sidecar.url);
    const length = MAX_REPLY_BYTES - Buffer.byteLength(FRAME);
    expect(await consumer.call("big", { length })).toEqual({ ok: true, text: "x".repeat(length) });
    expect(await consumer.call("big", { length: length + 1 })).toMatchObject({ ok: false, code: "request_failed" });
    // Giving up on one body has no effect on the next call.
    expect(await consumer.call("echo", { text: "next" })).toEqual({ ok: true, text: "next" });
  });

  it("the consumer gets a server's error with its message and data", async () => {
    using consumer = new ConsumerClient(sidecar.url);
    const line = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"log in first","data":{"url":"https://x.example"}}}';
    expect(await consumer.call("raw_line", { line })).toEqual({
      ok: false,
      code: "mcp_error",
      message: "log in first",
      details: { url: "https://x.example" },
    });
  });

  it("a wrong token gets a rejection with a readable body", async () => {
    await using own = await Sidecar.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: "right" } });
    using consumer = new ConsumerClient(own.url, { token: "wrong" });
    expect(await consumer.call("echo", { text: "x" })).toEqual({
      ok: false,
      code: "http_401",
      message: "Service returned HTTP 401",
      details: {
        jsonrpc: "2.0",
        id: null,
        error: { code: -32000, message: expect.any(String) as string, data: errorData("UNAUTHORIZED") },
      },
    });
  });
});
