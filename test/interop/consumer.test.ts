import { describe, expect, it } from "vitest";
import { ConsumerClient } from "../support/consumer-client.ts";
import { crash } from "../support/crash.ts";
import { DiscoveryClient } from "../support/discovery-client.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorData } from "../support/error-reply.ts";
import { Gate } from "../support/gate.ts";
import { send } from "../support/http-client.ts";
import { Pod } from "../support/pod.ts";
import { EXAMPLE, FIXTURE, Sidecar } from "../support/sidecar.ts";

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

  it("all of 50 concurrent calls recover when their session has ended", async () => {
    using consumer = new ConsumerClient(sidecar.url);
    await consumer.call("echo", { text: "before" });
    await endSession(sidecar, consumer.sessionId);
    const texts = numbered("after", 50);
    expect(await echoes(consumer, texts)).toEqual(ok(texts));
    expect(consumer.sessionsOpened).toBeGreaterThan(1);
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

  it("the consumer gets http_503 with advice for the model if the restart takes too long", async () => {
    await using gate = await Gate.create();
    await gate.open();
    const flags = ["--restart-backoff-ms", "1", "--hold-timeout-ms", "50"];
    await using own = await Sidecar.start({ mode: "gated", env: gate.env, flags });
    using consumer = new ConsumerClient(own.url);
    await consumer.call("echo", { text: "before" });
    await gate.close();
    await crash(own);
    await own.waitForLog("mcp server started", (line) => line["generation"] === 2);
    expect(await consumer.call("echo", { text: "x" })).toEqual({
      ok: false,
      code: "http_503",
      message: "Service returned HTTP 503",
      details: {
        jsonrpc: "2.0",
        id: 2,
        error: {
          code: -32000,
          message: expect.stringMatching(/not ready.*ended by SIGKILL.*was not sent.*safe to retry/) as string,
          data: errorData("UPSTREAM_NOT_READY", { sent: false, retrySafe: true, retryAfterSeconds: 1 }),
        },
      },
    });
  });
});

describe("a pod", () => {
  const token = "0123456789abcdef";

  it("the sidecar works for discovery and for the consumer with one token", async () => {
    const args = [EXAMPLE];
    await using pod = await Pod.start({ args, env: { CLAW_MCP_STDIO_AUTH_TOKEN: token }, untilReady: false });
    const { origin, url } = pod;
    const identity = { service: "echo", command: process.execPath, args, wrapperImage: "claw-mcp-stdio:test" };
    const { tools } = await new DiscoveryClient({ origin, token, ...identity }).discover();
    expect(tools.map(({ name }) => name)).toEqual(["echo", "add"]);
    using consumer = new ConsumerClient(url, { token });
    expect(await consumer.call("add", { a: 20, b: 22 })).toEqual({ ok: true, text: "42" });
    using stranger = new ConsumerClient(url);
    expect(await stranger.call("add", { a: 20, b: 22 })).toMatchObject({ ok: false, code: "http_401" });
    expect(await pod.sidecar.stop()).toBe(0);
  });

  it("/healthz makes the discovery wait until a slow server is ready", async () => {
    await using gate = await Gate.create();
    const args = [FIXTURE, "gated"];
    await using pod = await Pod.start({ args, env: gate.env, untilReady: false });
    const identity = { service: "slow", command: process.execPath, args, wrapperImage: "claw-mcp-stdio:test" };
    const client = new DiscoveryClient({ origin: pod.origin, ...identity });
    const discovering = client.discover();
    await client.polled(2);
    await gate.open();
    expect((await discovering).tools).toContainEqual({ name: "echo", description: "MCP tool echo.", inputSchema: { type: "object" } });
    expect(new Set(client.healthStatuses.slice(0, -1))).toEqual(new Set([503]));
    expect(client.healthStatuses.at(-1)).toBe(200);
  });
});
