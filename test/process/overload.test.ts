import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import { errorData, errorReply, readError } from "../support/error-reply.ts";
import type { HttpReply } from "../support/http-client.ts";
import { readSeen, waitForHanging } from "../support/in-flight.ts";
import { readResponse } from "../support/json-rpc.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { waitForGeneration } from "../support/readiness.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];
/** More than a pipe holds, and more than one write takes: while one is being written, no other is. */
const LARGE = 300_000;
const OVERLOADED = { sent: false, retrySafe: true, retryAfterSeconds: 1 };

function post(client: McpClient, id: number, length: number): Promise<HttpReply> {
  return client.post({ jsonrpc: "2.0", id, method: "x-vendor/large", params: { padding: "p".repeat(length) } });
}

/** Sends one request more than the session may have; the rejected one shows that all others have arrived. */
async function fill(client: McpClient, maxRequests: number, length: number): Promise<{ refused: HttpReply; others: Promise<HttpReply[]> }> {
  const replies = Array.from({ length: maxRequests + 1 }, (_, id) => post(client, id, length));
  const refused = await Promise.race(replies);
  return { refused, others: Promise.all(replies).then((all) => all.filter((reply) => reply !== refused)) };
}

function errorCodes(replies: readonly HttpReply[]): unknown[] {
  return replies.map((reply) => readResponse(reply).error?.data?.["code"]);
}

/** Returns how many calls of `wait_for_file` have reached the server, which reports each on stderr. */
function waitingCalls(sidecar: Sidecar): number {
  return sidecar.logLines.filter((line) => JSON.stringify(line).includes("waiting for")).length;
}

function textOf(text: string): object {
  return { content: [{ type: "text", text }] };
}

/** Returns the sidecar's resident memory in bytes. */
function residentBytes(sidecar: Sidecar): number {
  const status = readFileSync(`/proc/${sidecar.process.pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}

/** The number of LARGE requests that fit into a megabyte, besides the first one, which is being written. */
const MAX_ROOM = Math.floor((1_000_000 + LARGE + 256 * 1024) / LARGE);

/** Resolves when `count` of the promises are settled. */
async function countSettled(promises: readonly Promise<unknown>[], count: number): Promise<void> {
  let settled = 0;
  await new Promise<void>((resolve) => {
    for (const promise of promises) void promise.then(() => (++settled === count ? resolve() : undefined));
  });
}

describe("overload", () => {
  it("requests above MAX_IN_FLIGHT are queued, and rejected if the queue is full", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await Sidecar.start({ flags: ["--max-in-flight", "2", "--max-held-requests", "3"] });
    const client = await sidecar.client();
    const path = directory.file("go");
    const calls = Array.from({ length: 6 }, (_, id) =>
      client.post({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "wait_for_file", arguments: { path } } }),
    );
    const refused = await Promise.race(calls);
    const id = Number(readResponse(refused).id);
    expect(readError(refused)).toEqual(errorReply(503, -32000, "OVERLOADED", { id, data: OVERLOADED }));
    expect(refused.headers["retry-after"]).toBe("1");
    expect(refused.body).toContain("The MCP server is overloaded: 2 in flight, 3 queued. The request was not sent");
    await sidecar.waitFor(() => (waitingCalls(sidecar) === 2 ? true : undefined), "two calls that the server has");
    await writeFile(path, "");
    const answered = (await Promise.all(calls)).filter((reply) => reply !== refused);
    expect(answered.map((reply) => readResponse(reply).result)).toEqual(Array(5).fill(textOf("the file is there")));
    await sidecar.waitFor(() => (waitingCalls(sidecar) === 5 ? true : undefined), "five calls that the server had");
  });

  it("the sidecar keeps no request text that the server has read", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--max-body-bytes", "16777216"] });
    const client = await sidecar.client();
    const before = residentBytes(sidecar);
    const length = 3_000_000;
    // Ids as most clients choose them, so long that V8 may keep a slice of the text instead of a copy.
    const ids = Array.from({ length: 60 }, () => randomUUID());
    const calls: Promise<HttpReply>[] = [];
    for (const [index, id] of ids.entries()) {
      const params = { name: "hang", arguments: { padding: "p".repeat(length) }, _meta: { progressToken: `token of ${id}` } };
      calls.push(client.post({ jsonrpc: "2.0", id, method: "tools/call", params }));
      await waitForHanging(client, index + 1);
    }
    // If kept, each request would take its length twice: as bytes of the body, and as text for the server.
    expect(residentBytes(sidecar) - before).toBeLessThan(ids.length * length);
    await client.callTool("release");
    expect((await Promise.all(calls)).map((reply) => readResponse(reply).id)).toEqual(ids);
  });

  it("a request queued for HOLD_TIMEOUT_MS is rejected, and later requests succeed", async () => {
    await using sidecar = await Sidecar.start({ flags: [...QUICK_RESTART, "--max-in-flight", "1", "--hold-timeout-ms", "100"] });
    const client = await sidecar.client();
    const hanging = client.callTool("wait_for_file", { path: "/no such file" });
    await sidecar.waitFor(() => (waitingCalls(sidecar) === 1 ? true : undefined), "the call that the server has");
    const refused = await post(client, 5, 1);
    expect(readError(refused)).toEqual(errorReply(503, -32000, "OVERLOADED", { id: 5, data: OVERLOADED }));
    expect(refused.body).toContain("1 in flight, 0 queued");
    await crash(sidecar);
    expect((await hanging).error?.data?.["code"]).toBe("UPSTREAM_EXITED");
    await waitForGeneration(sidecar, 2);
    expect(await client.toolText("echo", { text: "room" })).toBe("room");
  });

  it("requests above MAX_QUEUED_BYTES are rejected if the server stops reading", async () => {
    const maxQueued = 500_000;
    // All requests arrive before the first one times out.
    const flags = ["--max-queued-bytes", String(maxQueued), "--request-timeout-ms", "5000"];
    await using sidecar = await Sidecar.start({ flags });
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

  it("rejected requests take no memory while the server does not read", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await Sidecar.start({ flags: ["--max-queued-bytes", "1000000"] });
    const client = await sidecar.client();
    const path = directory.file("read");
    await client.toolText("pause_reading", { path });
    const accepted: Promise<HttpReply>[] = [];
    const flood = async (count: number): Promise<void> => {
      for (let wave = 0; wave < count; wave++) {
        const replies = Array.from({ length: 10 }, (_, id) => post(client, id, LARGE));
        const refusal = await Promise.race(replies);
        expect(errorCodes([refusal])).toEqual(["OVERLOADED"]);
        accepted.push(...replies);
      }
    };
    // A first flood, so that the usual garbage already exists.
    await flood(30);
    const before = residentBytes(sidecar);
    const waves = 100;
    // 300 MB, which do not fit into the queue.
    await flood(waves);
    const after = residentBytes(sidecar);
    // Bodies are read one after another, so from now on only requests that fit are queued.
    await countSettled(accepted, accepted.length - MAX_ROOM);
    await writeFile(path, "");
    const replies = await Promise.all(accepted);
    const answered = replies.filter((reply) => readResponse(reply).result !== undefined);
    expect(new Set(errorCodes(replies.filter((reply) => !answered.includes(reply))))).toEqual(new Set(["OVERLOADED"]));
    // The first request is being written, in addition to the queue.
    expect(answered.length).toBeGreaterThanOrEqual(3);
    expect(answered.length).toBeLessThanOrEqual(MAX_ROOM);
    expect(await client.toolText("echo", { text: "reads again" })).toBe("reads again");
    // Some of the memory is garbage that is not collected yet.
    expect(after - before).toBeLessThan((waves * 10 * LARGE) / 2);
  });

  it("notifications above MAX_QUEUED_BYTES are rejected if the server stops reading", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--max-queued-bytes", "500000"] });
    const client = await sidecar.client();
    await client.toolText("stop_reading");
    const notification = { jsonrpc: "2.0", method: "notifications/x-vendor", params: { padding: "p".repeat(100_000) } };
    const replies = await Promise.all(Array.from({ length: 50 }, () => client.post(notification)));
    const refused = replies.filter((reply) => reply.status !== 202);
    expect((50 - refused.length) * 100_000).toBeLessThanOrEqual(500_000 + 256 * 1024);
    for (const reply of refused) expect(readError(reply)).toEqual(errorReply(503, -32000, "OVERLOADED", { data: OVERLOADED }));
  });

  it("a single request larger than MAX_QUEUED_BYTES is accepted", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--max-queued-bytes", "1000"] });
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
    await using sidecar = await Sidecar.start({ flags });
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

  it("requests that the server never read are sent to the next generation once", async () => {
    await using sidecar = await Sidecar.start({ flags: [...QUICK_RESTART, "--max-in-flight", "3", "--max-session-requests", "5"] });
    const client = await sidecar.client();
    await client.toolText("stop_reading");
    const { others } = await fill(client, 5, LARGE);
    await crash(sidecar);
    const replies = (await others).map(readResponse);

    const failed = replies.filter((reply) => reply.error !== undefined);
    expect(failed.map((reply) => reply.error?.data)).toEqual([
      errorData("UPSTREAM_EXITED", { sent: true, retrySafe: false, signal: "SIGKILL" }),
    ]);
    const answered = replies.filter((reply) => reply.result !== undefined);
    for (const reply of answered) expect(reply.result).toMatchObject({ method: "x-vendor/large" });
    expect(answered).toHaveLength(4);
    expect(new Set(replies.map((reply) => reply.id)).size).toBe(5);
    const seen = await readSeen(client);
    expect(seen.filter((method) => method === "x-vendor/large")).toHaveLength(4);
  });

  it.concurrent.each([
    { how: "is killed", inGeneration: [] },
    { how: "reads again", inGeneration: ["x-vendor/large", "notifications/cancelled"] },
  ])("a request that timed out before its write is never sent if the server $how", async ({ how, inGeneration }) => {
    await using directory = await TempDir.create();
    await using sidecar = await Sidecar.start({ flags: [...QUICK_RESTART, "--request-timeout-ms", "3000"] });
    const client = await sidecar.client();
    const path = directory.file("read");
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
});
