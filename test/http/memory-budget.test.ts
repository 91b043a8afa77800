import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { say } from "../support/held-call.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import { RawConnection, getBytes, headBytes, postBytes } from "../support/raw-connection.ts";
import { JSON_HEADERS, type McpClient, toolCall } from "../support/mcp-client.ts";
import { openUnread } from "../support/open-sockets.ts";
import { readError } from "../support/error-reply.ts";
import { type JsonRpcMessage, readResponse } from "../support/json-rpc.ts";
import { HttpBench } from "../support/http-bench.ts";
import { TOKENS } from "../support/token-clients.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { type Status, readStatus } from "../support/status.ts";

const MIB = 1024 * 1024;
const BUDGET_BYTES = 8 * MIB;
const FLAGS = ["--memory-budget-bytes", String(BUDGET_BYTES)];
const GREEDY = "127.0.0.2";
const OTHER = "127.0.0.3";

async function waitForUse(sidecar: RunningSidecar, isExpected: (memory: Status["memory"]) => boolean): Promise<void> {
  while (!isExpected((await readStatus(sidecar)).memory));
}

function listChanged(length: number): object {
  return { jsonrpc: "2.0", method: "notifications/tools/list_changed", params: { padding: "p".repeat(length) } };
}

async function stall(
  sidecar: RunningSidecar,
  client: McpClient,
  declaredBytes: number,
  partBytes: number,
  address = GREEDY,
): Promise<RawConnection> {
  const connection = await RawConnection.open(sidecar.origin, false, address);
  const headers = { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId ?? "", "Content-Length": String(declaredBytes) };
  await connection.write(headBytes("POST /mcp", headers) + "x".repeat(partBytes));
  return connection;
}

describe("the memory budget", () => {
  it("bodies that stall are rejected when another client asks for its share", async () => {
    await using sidecar = await HttpBench.start({ flags: FLAGS });
    const client = await sidecar.client();
    const stalled: RawConnection[] = [];
    for (const [address, partsBytes] of [
      [GREEDY, 2 * MIB],
      [OTHER, (2 / 3) * MIB],
    ] as const) {
      const before = Number((await readStatus(sidecar)).memory["bodies"]);
      // Each byte counts three times.
      for (let bytes = 64 * 1024; bytes < partsBytes; bytes += 128 * 1024) {
        stalled.push(await stall(sidecar, client, 128 * 1024 + 1, 128 * 1024, address));
      }
      await waitForUse(sidecar, ({ bodies }) => Number(bodies) - before > 3 * partsBytes - MIB);
    }
    expect((await client.toolText("echo", { text: "x".repeat(512 * 1024) })).length).toBe(512 * 1024);
    const reply = readError((await stalled[0]?.reply()) ?? missing());
    expect(reply).toMatchObject({ status: 503, body: { error: { data: { code: "OUT_OF_MEMORY", sent: false } } } });
    for (const connection of stalled) connection[Symbol.dispose]();
    await waitForUse(sidecar, ({ bodies }) => bodies === 0);
  });

  it("its balance is 0 after calls, batches, streams and disconnects", async () => {
    await using sidecar = await HttpBench.start({ flags: [...FLAGS, "--replay-max-age-ms", "1"] });
    const client = await sidecar.client();
    await Promise.all(Array.from({ length: 50 }, (_, index) => client.toolText("echo", { text: "é".repeat(index * 1000) })));
    const batching = await sidecar.client({ protocolVersion: "2025-03-26" });
    await batching.post([
      { jsonrpc: "2.0", id: 1, method: "ping" },
      { jsonrpc: "2.0", method: "notifications/x" },
    ]);
    using left = await RawConnection.open(sidecar.origin);
    await left.write(postBytes(toolCall("hang", {}, 9), client.sessionId));
    await waitForHanging(client, 1);
    left[Symbol.dispose]();
    await client.request("resources/subscribe", { uri: "test://a" });
    await waitForUse(sidecar, ({ subscriptions }) => Number(subscriptions) > 0);
    await client.request("resources/unsubscribe", { uri: "test://a" });
    await waitForUse(sidecar, ({ usedBytes }) => usedBytes === 0);
    expect((await readStatus(sidecar)).memory).toMatchObject({ bodies: 0, requests: 0, replay: 0, unread: 0, subscriptions: 0 });
  });

  it("servers that are idle after long results leave all of it free", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--memory-budget-bytes", String(4 * MIB), "--isolation", "session"] });
    const clients = await Promise.all(Array.from({ length: 4 }, () => sidecar.client()));
    for (const client of clients) expect((await client.toolText("big", { length: 900_000 })).length).toBe(900_000);
    expect((await readStatus(sidecar)).memory).toMatchObject({ serverOutput: 0 });
    for (const client of clients) expect(await client.toolText("echo", { text: "served" })).toBe("served");
  });

  it("the largest body has a fifth of it, and fits beside all kept events", async () => {
    await using sidecar = await HttpBench.start({ flags: FLAGS });
    const [client] = [await sidecar.client(), await sidecar.client()];
    // No stream is open, so both sessions keep the event for the next one.
    await say(client, JSON.stringify(listChanged(900_000)));
    expect((await readStatus(sidecar)).memory["replay"]).toBeGreaterThan(1_800_000);
    const body = (bytes: number): string => {
      const make = (text: string): string => JSON.stringify(toolCall("echo", { text }));
      return make("x".repeat(bytes - make("").length));
    };
    const largest = Math.floor(BUDGET_BYTES / 5);
    expect(readResponse(await client.post(body(largest))).result).toBeDefined();
    const { error } = readResponse(await client.post(body(largest + 1)));
    const action = expect.stringContaining("MEMORY_BUDGET_BYTES") as string;
    expect(error).toMatchObject({ data: { code: "BODY_TOO_LARGE", limitBytes: largest, action } });
  });

  it("a message of the server above a quarter of it fails its request", async () => {
    await using sidecar = await HttpBench.start({ flags: FLAGS });
    const client = await sidecar.client();
    expect((await client.toolText("big", { length: 2 * MIB - 1000 })).length).toBe(2 * MIB - 1000);
    const { error } = await client.callTool("big", { length: 2 * MIB });
    expect(error).toMatchObject({ data: { code: "UPSTREAM_RESPONSE_TOO_LARGE", limitBytes: 2 * MIB } });
  });

  it("a response of a batch that has no room becomes an error, and the others are delivered", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--memory-budget-bytes", String(4 * MIB)] });
    const client = await sidecar.client({ protocolVersion: "2025-03-26" });
    const calls = [0, 1, 2, 3, 4, 5].map((id) => toolCall("big", { length: id === 5 ? 1 : 900_000 }, id));
    const { body } = await client.post(calls, { headers: { Accept: "application/json" } });
    const responses = (JSON.parse(body) as JsonRpcMessage[]).toSorted((a, b) => Number(a.id) - Number(b.id));
    const failed = responses.filter(({ error }) => error !== undefined);
    expect([responses.length, failed.length > 0, failed.length < 5, responses[5]?.error]).toEqual([6, true, true, undefined]);
    for (const { error } of failed) expect(error?.data).toMatchObject({ code: "OUT_OF_MEMORY", sent: true, retrySafe: false });
    await waitForUse(sidecar, ({ unread }) => unread === 0);
  });

  it("clients that read nothing are disconnected, and another client is served meanwhile", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true, flags: [...FLAGS, "--replay-max-bytes", "1"] });
    const [deaf, client] = [await sidecar.client({ token: TOKENS[0] }), await sidecar.client({ token: TOKENS[1] })];
    const unread: (Socket & Disposable)[] = [];
    for (let count = 0; count < 8; count++) unread.push(await openUnread(sidecar.origin, getBytes("/mcp", deaf.getHeaders())));
    while (sidecar.logLines.every(({ reason }) => reason !== "the memory budget is used up")) {
      await say(client, JSON.stringify(listChanged(100_000)));
      expect(await client.toolText("echo", { text: "served" })).toBe("served");
    }
    for (const socket of unread) socket.destroy();
    expect((await readStatus(sidecar, { Authorization: `Bearer ${TOKENS[1]}` })).counters.http.readersCutOff).toBeGreaterThan(0);
  });
});

function missing(): never {
  throw new Error("there is no such connection");
}
