import { writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import { HttpBench } from "../support/http-bench.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { freePort } from "../support/open-sockets.ts";
import { RawConnection, getBytes } from "../support/raw-connection.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TOKENS } from "../support/token-clients.ts";

const TOKEN = "token-of-the-connections-test";
const AUTHORIZED = { Authorization: `Bearer ${TOKEN}` };
const WITH_TOKEN = { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN };
const FULL = errorReply(503, -32000, "OVERLOADED", { data: { retryAfterSeconds: 1 } });

function get(origin: string, path = "/livez", headers = {}): Promise<HttpReply> {
  return send(`${origin}${path}`, { method: "GET", headers });
}

/** Opens a connection and makes a request, so that the sidecar has accepted it. @returns undefined if the sidecar closes it instead. */
async function openUsed(sidecar: RunningSidecar, path = "/livez", headers = {}): Promise<RawConnection | undefined> {
  const connection = await RawConnection.open(sidecar.origin);
  return (await isServed(connection, path, headers)) ? connection : undefined;
}

async function isServed(connection: RawConnection, path = "/livez", headers = {}): Promise<boolean> {
  try {
    await connection.write(getBytes(path, headers));
    return (await connection.reply()).status === 200;
  } catch {
    return false;
  }
}

it("MAX_CONNECTIONS with a token: known connections stay, and a further one gets OVERLOADED", async () => {
  await using sidecar = await HttpBench.start({ env: WITH_TOKEN, flags: ["--max-connections", "3"] });
  using first = await openUsed(sidecar, "/status", AUTHORIZED);
  using unknown = await openUsed(sidecar);
  using second = await openUsed(sidecar, "/status", AUTHORIZED);
  using third = await openUsed(sidecar, "/status", AUTHORIZED);
  expect(readError(await get(sidecar.origin, "/status", AUTHORIZED))).toEqual(FULL);
  for (const connection of [first, unknown, second, third]) expect(connection !== undefined && (await isServed(connection))).toBe(true);
  await sidecar.waitForLog("connection closed: too many", ({ reason }) => reason === "MAX_CONNECTIONS is reached");
});

it("MAX_CONNECTIONS with a token: a connection whose token was removed makes room", async () => {
  await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--max-connections", "1"] });
  const [removed, kept] = TOKENS.map((token) => ({ Authorization: `Bearer ${token}` }));
  using connection = await openUsed(sidecar, "/status", removed);
  expect((await get(sidecar.origin, "/status", kept)).status).toBe(503);
  await writeFile(sidecar.directory.file("tokens"), TOKENS.slice(1).join("\n"));
  await sidecar.waitForLog("auth tokens reloaded");
  expect(connection !== undefined && (await isServed(connection))).toBe(true);
  using other = await openUsed(sidecar, "/status", kept);
  expect(other).toBeDefined();
  await connection?.write(getBytes("/status", removed));
  expect((await connection?.reply())?.status).toBe(401);
});

it("MAX_CONNECTIONS at ADMIN_ADDR: a connection whose token was removed makes room", async () => {
  const address = `127.0.0.1:${await freePort()}`;
  await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--max-connections", "1", "--admin-addr", address] });
  const [removed, kept] = TOKENS.map((token) => ({ Authorization: `Bearer ${token}` }));
  using connection = await RawConnection.open(`http://${address}`);
  expect(await isServed(connection, "/status", removed)).toBe(true);
  expect((await get(`http://${address}`, "/status", kept)).status).toBe(503);
  await writeFile(sidecar.directory.file("tokens"), TOKENS.slice(1).join("\n"));
  await sidecar.waitForLog("auth tokens reloaded");
  expect((await get(`http://${address}`, "/status", kept)).status).toBe(200);
});

it("MAX_CONNECTIONS without a configured token: the one idle for longest makes room", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--max-connections", "3", "--max-connections-without-token", "5"] });
  const { sessionId } = await sidecar.client({ agent: false });
  using streaming = await openUsed(sidecar, "/mcp", { Accept: "text/event-stream", "Mcp-Session-Id": sessionId });
  using first = await openUsed(sidecar, "/status");
  using second = await openUsed(sidecar, "/status");
  expect(first !== undefined && (await isServed(first))).toBe(true);
  using third = await openUsed(sidecar, "/status");
  expect(await second?.rest()).toEqual({ text: "", end: "closed" });
  for (const connection of [third, first]) expect(connection !== undefined && (await isServed(connection))).toBe(true);
  // Many clients that send nothing lock nobody out.
  const silent = await Promise.all(Array.from({ length: 20 }, () => RawConnection.open(sidecar.origin)));
  using probe = await openUsed(sidecar);
  using client = await openUsed(sidecar, "/status");
  expect([streaming, probe, client]).not.toContain(undefined);
  expect((await readStatus(sidecar)).openStreams).toBe(1);
  for (const connection of silent) connection[Symbol.dispose]();
});

it("MAX_CONNECTIONS: if all have open responses, new ones serve only probes", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--max-connections", "2"] });
  const openStream = async (): Promise<RawConnection | undefined> => {
    const { sessionId } = await sidecar.client({ agent: false });
    return openUsed(sidecar, "/mcp", { Accept: "text/event-stream", "Mcp-Session-Id": sessionId });
  };
  using first = await openStream();
  using second = await openStream();
  expect([first, second]).not.toContain(undefined);
  for (const path of ["/livez", "/readyz", "/healthz"]) expect((await get(sidecar.origin, path)).status).toBe(200);
  for (const path of ["/status", "/livez/", "/mcp"]) expect(readError(await get(sidecar.origin, path))).toEqual(FULL);
  second?.[Symbol.dispose]();
  await expect.poll(async () => (await get(sidecar.origin, "/status")).status).toBe(200);
  expect((await readStatus(sidecar)).counters.http.connectionsDropped).toBeGreaterThanOrEqual(3);
});

it("CONNECTION_IDLE_TIMEOUT_MS: a client is told the time, and its idle connection is closed", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--connection-idle-timeout-ms", "1000"] });
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(getBytes("/livez"));
  expect((await connection.reply()).headers["keep-alive"]).toBe("timeout=1");
  expect(await connection.rest()).toEqual({ text: "", end: "closed" });
  expect((await new McpClient(sidecar.url).open()).sessionId).not.toBe("");
});
