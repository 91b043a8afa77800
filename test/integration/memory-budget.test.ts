import { writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { say } from "../support/held-call.ts";
import { waitForHanging } from "../support/in-flight.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { getBytes, headBytes, postBytes } from "../support/mcp-request-bytes.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { openUnread } from "../support/open-sockets.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { readError } from "../support/error-reply.ts";
import { TempDir } from "../support/temp-dir.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus, type Status } from "../support/status.ts";

const MIB = 1024 * 1024;
const BUDGET_BYTES = 8 * MIB;
const FLAGS = ["--memory-budget-bytes", String(BUDGET_BYTES)];
const TOKENS = ["the-token-of-the-deaf-client", "the-token-of-the-other-client"] as const;
/** The address of a client that uses up the memory. */
const GREEDY = "127.0.0.2";

/** Waits until the use of memory is as expected. */
async function waitForUse(sidecar: Sidecar, isExpected: (memory: Status["memory"]) => boolean): Promise<void> {
  while (!isExpected((await readStatus(sidecar)).memory));
}

/** Sends a part of a body, which never ends. */
async function stall(sidecar: Sidecar, client: McpClient, declaredBytes: number, partBytes: number): Promise<RawConnection> {
  const connection = await RawConnection.open(sidecar.origin, false, GREEDY);
  const headers = { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId ?? "", "Content-Length": String(declaredBytes) };
  await connection.write(headBytes("POST /mcp", headers) + "x".repeat(partBytes));
  return connection;
}

describe("the memory budget", () => {
  it("bodies that stall are rejected above it, and another client is served", async () => {
    await using sidecar = await Sidecar.start({ flags: FLAGS });
    const client = await sidecar.client();
    const stalled: RawConnection[] = [];
    for (let count = 0; count < 6; count++) stalled.push(await stall(sidecar, client, 512 * 1024 + 1, 256 * 1024));
    await waitForUse(sidecar, ({ bodies }) => Number(bodies) > 6 * 3 * 256 * 1024);
    using rejected = await stall(sidecar, client, MIB, 1);
    const reply = readError(await rejected.reply());
    expect(reply).toMatchObject({ status: 503, body: { error: { data: { code: "OUT_OF_MEMORY", sent: false, retryAfterSeconds: 1 } } } });
    expect((await client.toolText("echo", { text: "x".repeat(256 * 1024) })).length).toBe(256 * 1024);
    for (const connection of stalled) connection[Symbol.dispose]();
    await waitForUse(sidecar, ({ bodies }) => bodies === 0);
  });

  it("its balance is 0 after calls, batches, streams and disconnects", async () => {
    await using sidecar = await Sidecar.start({ flags: [...FLAGS, "--replay-max-age-ms", "1"] });
    const client = await sidecar.client();
    await Promise.all(Array.from({ length: 50 }, (_, index) => client.toolText("echo", { text: "é".repeat(index * 1000) })));
    const batching = await sidecar.client({ protocolVersion: "2025-03-26" });
    await batching.post([
      { jsonrpc: "2.0", id: 1, method: "ping" },
      { jsonrpc: "2.0", method: "notifications/x" },
    ]);
    using left = await RawConnection.open(sidecar.origin);
    await left.write(postBytes({ jsonrpc: "2.0", id: 9, method: "tools/call", params: { name: "hang", arguments: {} } }, client.sessionId));
    await waitForHanging(client, 1);
    left[Symbol.dispose]();
    await client.request("resources/subscribe", { uri: "test://a" });
    await waitForUse(sidecar, ({ subscriptions }) => Number(subscriptions) > 0);
    await client.request("resources/unsubscribe", { uri: "test://a" });
    await waitForUse(sidecar, ({ usedBytes, serverOutput }) => usedBytes === serverOutput);
    expect((await readStatus(sidecar)).memory).toMatchObject({ bodies: 0, requests: 0, replay: 0, unread: 0, subscriptions: 0 });
  });

  it("a message of more than a quarter of it is rejected in both directions", async () => {
    await using sidecar = await Sidecar.start({ flags: FLAGS });
    const client = await sidecar.client();
    const long = "x".repeat(BUDGET_BYTES / 4);
    expect((await client.callTool("echo", { text: long })).error).toMatchObject({ data: { code: "BODY_TOO_LARGE", limitBytes: 2 * MIB } });
    const { error } = await client.callTool("big", { length: long.length });
    expect(error).toMatchObject({ data: { code: "UPSTREAM_RESPONSE_TOO_LARGE" } });
  });

  it("clients that read nothing are disconnected, and another client is served meanwhile", async () => {
    await using dir = await TempDir.create();
    const tokenFile = dir.file("tokens");
    await writeFile(tokenFile, TOKENS.join("\n"));
    await using sidecar = await Sidecar.start({ flags: [...FLAGS, "--auth-token-file", tokenFile, "--replay-max-bytes", "1"] });
    const [deaf, client] = [await sidecar.client({ token: TOKENS[0] }), await sidecar.client({ token: TOKENS[1] })];
    const unread: (Socket & Disposable)[] = [];
    for (let count = 0; count < 8; count++) unread.push(await openUnread(sidecar.origin, getBytes("/mcp", deaf.getHeaders())));
    const params = { padding: "p".repeat(100_000) };
    const listChanged = JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed", params });
    while (sidecar.logLines.every(({ reason }) => reason !== "the memory budget is used up")) {
      await say(client, listChanged);
      expect(await client.toolText("echo", { text: "served" })).toBe("served");
    }
    for (const socket of unread) socket.destroy();
    expect((await readStatus(sidecar, { Authorization: `Bearer ${TOKENS[1]}` })).counters.http.readersCutOff).toBeGreaterThan(0);
  });
});
