import { writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { QUICK_RESTART, crash, readSeen } from "../support/fixture-server.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { HttpReply } from "../support/http-client.ts";
import { readResponse } from "../support/json-rpc.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { readStatus, waitForGeneration } from "../support/status.ts";
import { signalServer } from "../support/in-process-server.ts";
import { LaneClient } from "../support/lane-client.ts";

/** More than a pipe holds, and more than one write takes: while one is being written, no other is. */
const LARGE = 300_000;
const OVERLOADED = { sent: false, retrySafe: true, retryAfterSeconds: 1 };

function post(client: McpClient, id: number, length: number): Promise<HttpReply> {
  return client.post({ jsonrpc: "2.0", id, method: "x-vendor/large", params: { padding: "p".repeat(length) } });
}

it("requests above MAX_QUEUED_BYTES are rejected if the server stops reading", async () => {
  const maxQueued = 500_000;
  // All requests arrive before the first one times out.
  const flags = ["--max-queued-bytes", String(maxQueued), "--request-timeout-ms", "5000"];
  await using sidecar = await HttpBench.start({ flags });
  const client = await sidecar.client();
  await client.toolText("stop_reading");
  const replies = await Promise.all(Array.from({ length: 50 }, (_, id) => post(client, id, 100_000)));
  const refused = replies.filter((reply) => reply.status === 503);
  const accepted = replies.filter((reply) => reply.status === 200);
  expect(refused.length + accepted.length).toBe(50);
  for (const reply of refused) {
    expect(readError(reply)).toEqual(errorReply(503, -32000, "OVERLOADED", { id: Number(readResponse(reply).id), data: OVERLOADED }));
    expect(reply.body).toContain("its input queue is full");
  }
  expect(new Set(accepted.map((reply) => readResponse(reply).error?.data?.["code"]))).toEqual(new Set(["REQUEST_TIMEOUT"]));
  // Besides the queue, one write of at most 256 KiB is in progress.
  expect(accepted.length * 100_000).toBeLessThanOrEqual(maxQueued + 256 * 1024);
});

it("notifications above MAX_QUEUED_BYTES are rejected if the server stops reading", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--max-queued-bytes", "500000"] });
  const client = await sidecar.client();
  await client.toolText("stop_reading");
  const notification = { jsonrpc: "2.0", method: "notifications/x-vendor", params: { padding: "p".repeat(100_000) } };
  const replies = await Promise.all(Array.from({ length: 50 }, () => client.post(notification)));
  const refused = replies.filter((reply) => reply.status !== 202);
  expect((50 - refused.length) * 100_000).toBeLessThanOrEqual(500_000 + 256 * 1024);
  for (const reply of refused) expect(readError(reply)).toEqual(errorReply(503, -32000, "OVERLOADED", { data: OVERLOADED }));
});

it("a single request larger than MAX_QUEUED_BYTES is accepted", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--max-queued-bytes", "1000"] });
  const client = await sidecar.client();
  const text = "t".repeat(LARGE);
  expect((await client.toolText("echo", { text })) === text).toBe(true);
});

it.concurrent.each([
  { what: "requests", id: 2 },
  { what: "notifications", id: undefined },
])("messages above MAX_QUEUED_BYTES are rejected during a restart: $what", async ({ id }) => {
  const flags = [
    "--restart-backoff-ms",
    "600000",
    "--restart-max-ms",
    "600000",
    "--max-queued-bytes",
    "250000",
    // All messages arrive before the first one times out.
    "--hold-timeout-ms",
    "3000",
  ];
  await using sidecar = await HttpBench.start({ flags });
  const client = await sidecar.client();
  await client.callTool("exit");
  const method = id === undefined ? "notifications/x-vendor" : "x-vendor/padded";
  const message = { jsonrpc: "2.0", id, method, params: { padding: "p".repeat(100_000) } };
  const replies = await Promise.all(Array.from({ length: 10 }, () => client.post(message)));
  const refused = replies.filter((reply) => reply.body.includes('"OVERLOADED"'));
  for (const reply of refused) {
    expect(readError(reply)).toEqual(errorReply(503, -32000, "OVERLOADED", { ...(id === undefined ? {} : { id }), data: OVERLOADED }));
  }
  expect(refused).toHaveLength(8);
  expect(replies.filter((reply) => reply.status === 202)).toHaveLength(id === undefined ? 2 : 0);
});

it.concurrent.each([
  { how: "is killed", inGeneration: [] },
  { how: "reads again", inGeneration: ["x-vendor/large", "notifications/cancelled"] },
])("a request that timed out before its write is never sent if the server $how", async ({ how, inGeneration }) => {
  await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, "--request-timeout-ms", "3000"] });
  const client = await sidecar.client();
  const path = sidecar.directory.file("read");
  await client.toolText("pause_reading", { path });
  const replies = (await Promise.all([post(client, 1, LARGE), post(client, 2, LARGE), post(client, 3, LARGE)])).map(readResponse);
  expect(replies.map((reply) => reply.error?.data?.["code"])).toEqual(Array(3).fill("REQUEST_TIMEOUT"));
  expect(replies.filter((reply) => reply.error?.data?.["sent"] === true)).toHaveLength(1);
  expect(replies.filter((reply) => reply.error?.data?.["sent"] === false)).toHaveLength(2);

  if (how === "is killed") {
    await crash(sidecar);
    await waitForGeneration(sidecar, 2);
  } else await writeFile(path, "");
  const carried = (await readSeen(client)).filter((method) => /large|cancelled/.test(method));
  expect(carried.map((method) => method.replace(/ \d+$/, ""))).toEqual(inGeneration);
});

/** More than a pipe holds, and more than one write takes: while one is being written, no other is. */
const PADDING = "p".repeat(300_000);

it.each([
  { how: "reads again", signal: "SIGCONT", first: undefined, seen: ["x-vendor/1", "x-vendor/3"] },
  { how: "is killed", signal: "SIGKILL", first: "UPSTREAM_EXITED", seen: ["x-vendor/3"] },
] as const)("they reach the server once, and a cancelled one never, if it $how", async ({ signal, first, seen }) => {
  await using sidecar = await HttpBench.start({ flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "20"] });
  const client = await LaneClient.connectShared(sidecar);
  const pid = sidecar.childPid;
  const left = new AbortController();
  signalServer(pid, "SIGSTOP");
  const calls: Promise<unknown>[] = [];
  for (const id of [1, 2, 3]) {
    const reply = client.request(`x-vendor/${id}`, { PADDING }, id, id === 2 ? { signal: left.signal } : {});
    const code = reply.then(
      ({ error }) => error?.data?.["code"],
      () => "left",
    );
    calls.push(code);
    // One after another, so that their order is known.
    await expect.poll(async () => (await readStatus(sidecar)).lanes.shared.requestsInFlight).toBe(id);
  }
  left.abort();
  await expect.poll(async () => (await readStatus(sidecar)).lanes.shared.requestsInFlight).toBe(2);
  signalServer(pid, signal);
  if (signal === "SIGKILL") await waitForGeneration(sidecar, 2);
  expect(await Promise.all(calls)).toEqual([first, "left", undefined]);
  const requests = (await readSeen(client)).filter((method) => method.startsWith("x-vendor/"));
  expect(requests).toEqual(seen);
});
