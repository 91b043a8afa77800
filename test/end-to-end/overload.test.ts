import { Agent } from "node:http";
import { describe, expect } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { GatedCalls } from "../support/gated-calls.ts";
import { readSeen } from "../support/fixture-server.ts";
import { JSON_HEADERS, type McpClient } from "../support/mcp-client.ts";
import { RawConnection, getBytes, headBytes, postBytes } from "../support/raw-connection.ts";
import { openUnread } from "../support/open-sockets.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { proves } from "./proves.ts";

const MAX_HELD = 4;
const MIB = 1024 * 1024;
const TOKEN = "a-token-of-enough-length";
const AUTHORIZED = { Authorization: `Bearer ${TOKEN}` };

describe("a busy server", async () => {
  const flags = ["--max-in-flight", "1", "--max-held-requests", String(MAX_HELD), "--max-sessions", "16", "--session-max-age-ms", "1"];
  const sidecar = disposeAfterAll(await Sidecar.start({ flags }));

  proves("sessions take turns", async () => {
    const [busy, other] = [await sidecar.client(), await sidecar.client()];
    await using calls = await GatedCalls.create(sidecar);
    const replies = [calls.post(busy, "first")];
    await calls.waitForReached(1);
    for (const name of ["second", "third", "fourth"]) replies.push(calls.post(busy, name));
    await calls.waitForWaiting(3);
    replies.push(calls.post(other, "other"));
    await calls.waitForWaiting(4);
    await calls.letThrough("first", "second", "third", "fourth", "other");
    for (const { status } of await Promise.all(replies)) expect(status).toBe(200);
    const order = await calls.waitForReached(5);
    expect(order.indexOf("other")).toBeLessThanOrEqual(2);
    expect(order.filter((name) => name !== "other")).toEqual(["first", "second", "third", "fourth"]);
  });

  proves("requests beyond a limit can be repeated", async () => {
    const client = await sidecar.client();
    await using calls = await GatedCalls.create(sidecar);
    const replies = [calls.post(client, "in flight")];
    await sidecar.waitFor(() => sidecar.logLines.find(({ msg }) => msg.endsWith("/in flight")), "the call in flight");
    replies.push(...["a", "b", "c", "d"].map((name) => calls.post(client, name)));
    await calls.waitForWaiting(MAX_HELD);
    const rejected = await calls.post(client, "too many");
    const retryAfterSeconds = Number(rejected.headers["retry-after"]);
    expect(retryAfterSeconds).toBeGreaterThan(0);
    expect(readError(rejected)).toStrictEqual(errorReply(503, -32000, "OVERLOADED", { id: "too many", data: { retryAfterSeconds } }));
    await calls.letThrough("in flight", "a", "b", "c", "d", "too many");
    for (const { status } of await Promise.all(replies)) expect(status).toBe(200);
    expect((await calls.post(client, "too many")).status).toBe(200);
  });

  proves("a client with many sessions evicts only its own", async () => {
    const agents = ["127.0.0.2", "127.0.0.3", "127.0.0.9"].map((localAddress) => new Agent({ localAddress }));
    const [one, other, many] = agents;
    if (one === undefined || other === undefined || many === undefined) throw new Error("three agents");
    const clients = [await sidecar.client({ agent: one }), await sidecar.client({ agent: other })];
    const used = await sidecar.client({ agent: many });
    using stream = await used.openStream();
    const unused = await sidecar.client({ agent: many });
    for (let count = 0; count < 20; count++) await sidecar.client({ agent: many });
    for (const client of [...clients, used]) expect(await client.toolText("echo", { text: "here" })).toBe("here");
    expect(stream.status).toBe(200);
    expect((await unused.callTool("echo")).status).toBe(404);
    expect((await readStatus(sidecar)).sessions).toBeLessThanOrEqual(12);
    for (const agent of agents) agent.destroy();
  });
});

/** Opens a connection and makes a request, so that the sidecar has accepted it. */
async function openUsed(sidecar: Sidecar, path = "/livez", headers = {}): Promise<RawConnection> {
  const connection = await RawConnection.open(sidecar.origin);
  await expectServed(connection, path, headers);
  return connection;
}

async function expectServed(connection: RawConnection, path = "/livez", headers = {}): Promise<void> {
  await connection.write(getBytes(path, headers));
  expect((await connection.reply()).status).toBe(200);
}

describe("connections and memory", async () => {
  const limits = ["--max-connections-without-token", "3", "--memory-budget-bytes", String(8 * MIB)];
  const times = ["--headers-timeout-ms", "1000", "--body-timeout-ms", "1000", "--reader-timeout-ms", "1000"];
  const limited = disposeAfterAll(await Sidecar.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN }, flags: limits }));
  const impatient = disposeAfterAll(await Sidecar.start({ flags: times }));

  proves("connections without a token push out no other", async () => {
    using known = await openUsed(limited, "/status", AUTHORIZED);
    using oldest = await openUsed(limited);
    using second = await openUsed(limited);
    using third = await openUsed(limited);
    using fourth = await openUsed(limited, "/livez", { Authorization: "Bearer wrong" });
    expect(await oldest.rest()).toEqual({ text: "", end: "closed" });
    for (const connection of [known, second, third, fourth]) await expectServed(connection);
    await limited.waitForLog("connection closed: too many", ({ reason }) => reason === "MAX_CONNECTIONS_WITHOUT_TOKEN is reached");
  });

  proves("all messages share one memory budget", async () => {
    const client = await limited.client({ token: TOKEN });
    const stall = async (declaredBytes: number, bytes: number): Promise<RawConnection> => {
      const connection = await RawConnection.open(limited.origin);
      const headers = { ...JSON_HEADERS, ...AUTHORIZED, "Mcp-Session-Id": client.sessionId, "Content-Length": String(declaredBytes) };
      await connection.write(headBytes("POST /mcp", headers) + "x".repeat(bytes));
      return connection;
    };
    const stalled: RawConnection[] = [];
    for (let count = 0; count < 6; count++) stalled.push(await stall(MIB / 2 + 1, MIB / 4));
    // Each byte counts three times.
    while (Number((await readStatus(limited, AUTHORIZED)).memory["bodies"]) <= (6 * 3 * MIB) / 4);
    using rejected = await stall(MIB, 1);
    const reply = await rejected.reply();
    expect(reply.headers["retry-after"]).toBe("1");
    expect(readError(reply)).toStrictEqual(errorReply(503, -32000, "OUT_OF_MEMORY", { data: { retryAfterSeconds: 1 } }));
    expect(await client.toolText("echo", { text: "x".repeat(MIB / 4) })).toHaveLength(MIB / 4);
    for (const connection of stalled) connection[Symbol.dispose]();
    while ((await readStatus(limited, AUTHORIZED)).memory["bodies"] !== 0);
  });

  proves("slow and silent clients are disconnected", async () => {
    const client: McpClient = await impatient.client();
    const bytes = postBytes({ jsonrpc: "2.0", id: 7, method: "x-test/never-arrived" }, client.sessionId);
    using silent = await RawConnection.open(impatient.origin);
    const slow = await Promise.all([bytes.slice(0, 30), bytes.slice(0, -1)].map((part) => stalledAfter(impatient, part)));
    const params = { name: "big", arguments: { length: 32 * MIB } };
    using deaf = await openUnread(impatient.origin, postBytes({ jsonrpc: "2.0", id: 8, method: "tools/call", params }, client.sessionId));
    for (const connection of slow) {
      expect(readError(await connection.reply())).toStrictEqual(errorReply(408, -32000, "BODY_INCOMPLETE"));
      expect(await connection.rest()).toEqual({ text: "", end: "closed" });
    }
    expect(await silent.rest()).toEqual({ text: "", end: "closed" });
    await impatient.waitForLog("connection cut off");
    expect(deaf.readableFlowing).toBe(false);
    expect(await readSeen(client)).not.toContain("x-test/never-arrived");
  });
});

async function stalledAfter({ origin }: Sidecar, part: string): Promise<RawConnection> {
  const connection = await RawConnection.open(origin);
  await connection.write(part);
  return connection;
}
