import { writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import type { HttpReply } from "../support/http-client.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { TempDir } from "../support/temp-dir.ts";

/** Fewer than that may be in flight: queued requests count as well. */
const FLAGS = ["--max-session-requests", "3", "--max-in-flight", "2"];
const DATA = { sent: false, retrySafe: true, retryAfterSeconds: 1 };

function waitForFile(id: string | number, path: string): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name: "wait_for_file", arguments: { path } } };
}

/** Sends one request more than the limit. Its rejection shows that all others have arrived. */
async function exceed(client: McpClient, path: string): Promise<{ refused: HttpReply; others: Promise<HttpReply[]> }> {
  const replies = ["a", 1, "c", 2].map((id) => client.post(waitForFile(id, path)));
  const refused = await Promise.race(replies);
  return { refused, others: Promise.all(replies).then((all) => all.filter((reply) => reply !== refused)) };
}

function parse({ body }: HttpReply): JsonRpcMessage {
  return JSON.parse(body) as JsonRpcMessage;
}

it("a further request gets 429 and its own id until one is answered", async () => {
  await using directory = await TempDir.create();
  await using sidecar = await HttpBench.start({ flags: FLAGS });
  const [client, other] = [await sidecar.client(), await sidecar.client()];
  const path = directory.file("go");
  const { refused, others } = await exceed(client, path);
  const { id } = parse(refused);
  if (id === undefined) throw new Error("the id is missing");
  expect(readError(refused)).toEqual(errorReply(429, -32000, "SESSION_OVERLOADED", { id, data: DATA }));
  expect(refused.headers["retry-after"]).toBe("1");
  expect(refused.body).toContain("This client has 3 requests in flight or queued. The request was not sent; it is safe to retry.");
  const ofOther = other.request("x-vendor/other");
  // Notifications are none of them.
  expect((await client.notify("notifications/x-vendor")).status).toBe(202);
  await writeFile(path, "");
  expect((await ofOther).status).toBe(200);
  const answered = (await others).map(parse);
  expect(new Set([id, ...answered.map((reply) => reply.id)])).toEqual(new Set(["a", 1, "c", 2]));
  for (const reply of answered) expect(reply.result?.content?.[0]?.text).toBe("the file is there");
  expect(await client.toolText("echo", { text: "again" })).toBe("again");
});

it("each request of a batch counts; those above the limit are rejected, others answered", async () => {
  await using sidecar = await HttpBench.start({ flags: FLAGS });
  const client = await sidecar.client({ protocolVersion: "2025-03-26" });
  const batch = [1, 2, 3, 4, 5].map((id) => ({ jsonrpc: "2.0", id, method: "x-vendor/batched" }));
  const reply = await client.post([...batch, { jsonrpc: "2.0", method: "notifications/x-vendor" }]);
  const responses = JSON.parse(reply.body) as JsonRpcMessage[];
  const codes = new Map(responses.map(({ id, error }) => [id, error?.data?.["code"]]));
  expect([reply.status, codes]).toEqual([
    200,
    new Map([
      [1, undefined],
      [2, undefined],
      [3, undefined],
      [4, "SESSION_OVERLOADED"],
      [5, "SESSION_OVERLOADED"],
    ]),
  ]);
});

it("the requests of a disconnected client no longer count", async () => {
  await using sidecar = await HttpBench.start({ flags: FLAGS });
  const client = await sidecar.client();
  const leaving = new AbortController();
  const replies = [1, 2, 3, 4].map((id) => client.post(waitForFile(id, "/no such file"), { signal: leaving.signal }));
  expect((await Promise.race(replies)).status).toBe(429);
  leaving.abort();
  await Promise.allSettled(replies);
  await sidecar.waitFor(
    () => sidecar.logLines.filter(({ reason }) => reason === "client disconnected").length === 3 || undefined,
    "three requests that were given up",
  );
  expect(await client.toolText("echo", { text: "again" })).toBe("again");
});
