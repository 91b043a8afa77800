import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import type { HttpReply, JsonRpcReply, RawClient } from "../support/http-client.ts";
import { readSeen } from "../support/in-flight.ts";
import { waitForGeneration } from "../support/readiness.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];
/** More than a pipe takes, and more than is written to it at once: while one is being written, no other is. */
const LARGE = 300_000;
const OVERLOADED = { sent: false, retrySafe: true, retryAfterSeconds: 1 };

function post(client: RawClient, id: number, length: number): Promise<HttpReply> {
  return client.post({ jsonrpc: "2.0", id, method: "x-vendor/large", params: { padding: "p".repeat(length) } });
}

function parse(reply: HttpReply): JsonRpcReply {
  return JSON.parse(reply.body) as JsonRpcReply;
}

/** As many requests as may be in flight and one more: the one that is refused shows that all others are in flight. */
async function fill(
  client: RawClient,
  maxInFlight: number,
  length: number,
): Promise<{ refused: HttpReply; inFlight: Promise<HttpReply[]> }> {
  const replies = Array.from({ length: maxInFlight + 1 }, (_, id) => post(client, id, length));
  const refused = await Promise.race(replies);
  return { refused, inFlight: Promise.all(replies).then((all) => all.filter((reply) => reply !== refused)) };
}

describe("overload", () => {
  it("refuses requests beyond MAX_IN_FLIGHT at once, until there is room again", async () => {
    await using sidecar = await Sidecar.start({ flags: [...QUICK_RESTART, "--max-in-flight", "3"] });
    const client = await sidecar.client();
    await client.callTool("mute", { method: "x-vendor/large" });
    const { refused, inFlight } = await fill(client, 3, 1);
    const id = Number(parse(refused).id);
    expect(readError(refused)).toEqual(errorReply(503, -32000, "OVERLOADED", { id, data: OVERLOADED }));
    expect(refused.headers["retry-after"]).toBe("1");
    expect(refused.body).toContain("The MCP server is overloaded: 3 requests are in flight. The request was not sent to it");
    await crash(sidecar);
    expect((await inFlight).map((reply) => parse(reply).error?.data?.["code"])).toEqual(Array(3).fill("UPSTREAM_EXITED"));
    expect(await client.toolText("echo", { text: "room" })).toBe("room");
  });

  it("refuses requests beyond MAX_QUEUED_BYTES when the server stops reading", async () => {
    const maxQueued = 500_000;
    const flags = ["--max-queued-bytes", String(maxQueued), "--request-timeout-ms", "600"];
    await using sidecar = await Sidecar.start({ flags });
    const client = await sidecar.client();
    await client.toolText("stop_reading");
    const replies = await Promise.all(Array.from({ length: 50 }, (_, id) => post(client, id, 100_000)));
    const refused = replies.filter((reply) => reply.status === 503);
    const accepted = replies.filter((reply) => reply.status === 200);
    expect(refused.length + accepted.length).toBe(50);
    for (const reply of refused) {
      expect(readError(reply)).toEqual(errorReply(503, -32000, "OVERLOADED", { id: Number(parse(reply).id), data: OVERLOADED }));
      expect(reply.body).toContain("too much is waiting to be read by it");
    }
    expect(new Set(accepted.map((reply) => parse(reply).error?.data?.["code"]))).toEqual(new Set(["REQUEST_TIMEOUT"]));
    // Besides the queue there is one write under way, of 256 KiB at most.
    expect(accepted.length * 100_000).toBeLessThanOrEqual(maxQueued + 256 * 1024);
  });

  it("refuses notifications beyond MAX_QUEUED_BYTES when the server stops reading", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--max-queued-bytes", "500000"] });
    const client = await sidecar.client();
    await client.toolText("stop_reading");
    const notification = { jsonrpc: "2.0", method: "notifications/x-vendor", params: { padding: "p".repeat(100_000) } };
    const replies = await Promise.all(Array.from({ length: 50 }, () => client.post(notification)));
    const refused = replies.filter((reply) => reply.status !== 202);
    expect((50 - refused.length) * 100_000).toBeLessThanOrEqual(500_000 + 256 * 1024);
    for (const reply of refused) expect(readError(reply)).toEqual(errorReply(503, -32000, "OVERLOADED", { data: OVERLOADED }));
  });

  it("takes one request that alone is over MAX_QUEUED_BYTES", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--max-queued-bytes", "1000"] });
    const client = await sidecar.client();
    const text = "t".repeat(LARGE);
    expect((await client.toolText("echo", { text })) === text).toBe(true);
  });

  it.each([
    { what: "requests", id: 2 },
    { what: "notifications", id: undefined },
  ])("refuses $what beyond MAX_QUEUED_BYTES while the server is away", async ({ id }) => {
    const flags = [
      "--restart-backoff-ms",
      "600000",
      "--restart-max-ms",
      "600000",
      "--max-queued-bytes",
      "250000",
      "--hold-timeout-ms",
      "300",
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

  it("sends what a server never read to the next generation, each request exactly once", async () => {
    await using sidecar = await Sidecar.start({ flags: [...QUICK_RESTART, "--max-in-flight", "5"] });
    const client = await sidecar.client();
    await client.toolText("stop_reading");
    const { inFlight } = await fill(client, 5, LARGE);
    await crash(sidecar);
    const replies = (await inFlight).map(parse);

    const failed = replies.filter((reply) => reply.error !== undefined);
    expect(failed.map((reply) => reply.error?.data)).toEqual([
      { code: "UPSTREAM_EXITED", sent: true, retrySafe: false, signal: "SIGKILL" },
    ]);
    const answered = replies.filter((reply) => reply.result !== undefined);
    for (const reply of answered) expect(reply.result).toMatchObject({ method: "x-vendor/large" });
    expect(answered).toHaveLength(4);
    expect(new Set(replies.map((reply) => reply.id)).size).toBe(5);
    const seen = await readSeen(client);
    expect(seen.filter((method) => method === "x-vendor/large")).toHaveLength(4);
  });

  it.each([
    { how: "is killed", inGeneration: [] },
    { how: "reads again", inGeneration: ["x-vendor/large", "notifications/cancelled"] },
  ])("never sends a request that was given up before it was written, when the server $how", async ({ how, inGeneration }) => {
    await using directory = await TempDir.create();
    await using sidecar = await Sidecar.start({ flags: [...QUICK_RESTART, "--request-timeout-ms", "600"] });
    const client = await sidecar.client();
    const path = directory.file("read");
    await client.toolText("pause_reading", { path });
    const replies = (await Promise.all([post(client, 1, LARGE), post(client, 2, LARGE), post(client, 3, LARGE)])).map(parse);
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
