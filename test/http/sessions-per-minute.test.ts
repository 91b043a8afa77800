import { expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import type { HttpReply } from "../support/http-client.ts";
import { LegacySseClient } from "../support/legacy-sse-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

const SAMPLING = { sampling: {} };

function initialize(sidecar: RunningSidecar, capabilities: object = {}): Promise<HttpReply> {
  const params = { protocolVersion: "2025-11-25", capabilities, clientInfo: { name: "raw", version: "1" } };
  return new McpClient(sidecar.url).post({ jsonrpc: "2.0", id: "mine", method: "initialize", params });
}

it("sessions above the limit get 429 and Retry-After, and open sessions are unaffected", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--sessions-per-minute", "2"] });
  const startedAtMs = performance.now();
  const clients = [await sidecar.client(), await sidecar.client()];
  const refused = await initialize(sidecar);
  const retryAfterSeconds = Number(refused.headers["retry-after"]);
  expect(readError(refused)).toStrictEqual(
    errorReply(429, -32000, "RATE_LIMITED", { id: "mine", data: { sent: false, retrySafe: true, retryAfterSeconds } }),
  );
  expect(refused.body).toContain("Only 2 sessions may be opened per minute.");
  expect(refused.headers).not.toHaveProperty("mcp-session-id");
  // Half a minute after the first one, less the time that has passed since.
  expect(retryAfterSeconds).toBeGreaterThanOrEqual(30 - Math.ceil((performance.now() - startedAtMs) / 1000));
  expect(retryAfterSeconds).toBeLessThanOrEqual(30);
  for (const client of clients) expect(await client.toolText("echo", { text: "on" })).toBe("on");
  expect(await readStatus(sidecar)).toMatchObject({ sessions: 2, counters: { requests: { refused: { RATE_LIMITED: 1 } } } });
});

it("sessions with a private server count, and a rejected client starts none", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--sessions-per-minute", "1"] });
  expect((await initialize(sidecar, SAMPLING)).status).toBe(200);
  expect((await initialize(sidecar, { roots: {} })).status).toBe(429);
  expect((await readStatus(sidecar)).lanes.private.servers).toBe(1);
  await sidecar.stop();
  expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(2);
});

it("clients that are rejected for another reason do not count", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--sessions-per-minute", "2", "--max-private-servers", "1"] });
  expect((await initialize(sidecar, SAMPLING)).status).toBe(200);
  expect((await initialize(sidecar, { roots: {} })).status).toBe(503);
  expect((await initialize(sidecar)).status).toBe(200);
  expect((await initialize(sidecar)).status).toBe(429);
});

it("an HTTP+SSE client gets the error on its stream", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--sessions-per-minute", "1", "--legacy-sse", "on"] });
  await sidecar.client();
  using legacy = await LegacySseClient.open(sidecar.origin);
  expect(await legacy.request("initialize", { protocolVersion: "2024-11-05", capabilities: {} })).toMatchObject({
    error: { data: { code: "RATE_LIMITED", sent: false } },
  });
});
