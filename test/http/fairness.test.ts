import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import type { HttpReply } from "../support/http-client.ts";
import { readSeen } from "../support/in-flight.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { TempDir } from "../support/temp-dir.ts";

const MAX_IN_FLIGHT = 4;
/** The default of MAX_HELD_REQUESTS. */
const MAX_HELD = 256;
const FLOOD = 500;

/** Concurrent posts; counts the rejected ones, and lets a test wait for a count. */
class Flood {
  readonly replies: Promise<HttpReply[]>;
  #refused = 0;
  readonly #waiting = new Set<() => void>();

  constructor(client: McpClient, count: number, path: string) {
    const params = { name: "wait_for_file", arguments: { path } };
    const posts = Array.from({ length: count }, (_, id) => client.post({ jsonrpc: "2.0", id, method: "tools/call", params }));
    this.replies = Promise.all(posts.map((post) => post.then((reply) => this.#count(reply))));
  }

  async refused(count: number): Promise<void> {
    while (this.#refused < count) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  #count(reply: HttpReply): HttpReply {
    if (reply.status === 503) this.#refused++;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
    return reply;
  }
}

describe("a session that floods the server", () => {
  it("a flood delays another session's request by one turn, even with a full queue", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await HttpBench.start({ flags: ["--max-in-flight", String(MAX_IN_FLIGHT)] });
    const [flooding, other] = [await sidecar.client(), await sidecar.client()];
    const path = directory.file("go");
    const flood = new Flood(flooding, FLOOD, path);
    await flood.refused(FLOOD - MAX_IN_FLIGHT - MAX_HELD);
    const reply = other.request("x-vendor/other", {}, "mine");
    // A request of the flood makes room for the other request, which shows that it has arrived.
    await flood.refused(FLOOD - MAX_IN_FLIGHT - MAX_HELD + 1);
    await writeFile(path, "");

    expect(await reply).toMatchObject({ status: 200, id: "mine", result: { method: "x-vendor/other" } });
    const replies = (await flood.replies).map(({ body }) => JSON.parse(body) as JsonRpcMessage);
    expect(replies.filter(({ result }) => result !== undefined)).toHaveLength(MAX_IN_FLIGHT + MAX_HELD - 1);
    const refused = replies.flatMap(({ error }) => (error === undefined ? [] : [error.data?.["code"]]));
    expect(refused).toEqual(Array(FLOOD - MAX_IN_FLIGHT - MAX_HELD + 1).fill("OVERLOADED"));
    const requests = (await readSeen(other)).filter((method) => !/^(initialize|notifications)/.test(method));
    expect(requests.indexOf("x-vendor/other")).toBeLessThanOrEqual(MAX_IN_FLIGHT + 1);
  });

  it("messages of one session reach the server in the order they were sent", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-in-flight", "1"] });
    const client = await sidecar.client({ protocolVersion: "2025-03-26" });
    const methods = Array.from({ length: 50 }, (_, number) => `x-vendor/${number}`);
    const messages = methods.flatMap((method, id) => [
      { jsonrpc: "2.0", id, method },
      { jsonrpc: "2.0", method: `notifications/${method}` },
    ]);
    await client.post(messages);
    const seen = (await readSeen(client)).filter((method) => method.includes("x-vendor/"));
    expect(seen).toEqual(messages.map(({ method }) => method));
  });
});
