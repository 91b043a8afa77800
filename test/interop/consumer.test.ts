import { describe, expect, it } from "vitest";
import { ConsumerClient } from "../support/consumer-client.ts";
import { DiscoveryClient } from "../support/discovery-client.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { Gate } from "../support/fixture-server.ts";
import { send } from "../support/http-client.ts";
import { Pod } from "../support/pod.ts";
import { EXAMPLE, FIXTURE, Sidecar } from "../support/sidecar.ts";

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
