import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { memoryBytes } from "../../bench/proc.ts";
import type { HttpReply } from "../support/http-client.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import { readResponse } from "../support/json-rpc.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

/** More than a pipe holds, and more than one write takes: while one is being written, no other is. */
const LARGE = 300_000;

function post(client: McpClient, id: number, length: number): Promise<HttpReply> {
  return client.post({ jsonrpc: "2.0", id, method: "x-vendor/large", params: { padding: "p".repeat(length) } });
}

function errorCodes(replies: readonly HttpReply[]): unknown[] {
  return replies.map((reply) => readResponse(reply).error?.data?.["code"]);
}

function residentBytes({ process: { pid } }: Sidecar): number {
  return memoryBytes(Number(pid), "VmRSS");
}

/** The number of LARGE requests that fit into a megabyte, besides the first one, which is being written. */
const MAX_ROOM = Math.floor((1_000_000 + LARGE + 256 * 1024) / LARGE);

async function countSettled(promises: readonly Promise<unknown>[], count: number): Promise<void> {
  let settled = 0;
  await new Promise<void>((resolve) => {
    for (const promise of promises) void promise.then(() => (++settled === count ? resolve() : undefined));
  });
}

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

it("rejected requests take no memory while the server does not read", async () => {
  await using directory = await TempDir.create();
  await using sidecar = await Sidecar.start({ flags: ["--max-queued-bytes", "1000000", "--request-timeout-ms", "600000"] });
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
