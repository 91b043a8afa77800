import { describe, expect, it } from "vitest";
import { errorData } from "../support/error-reply.ts";
import type { HttpReply } from "../support/http-client.ts";
import { readSeen, waitForHanging } from "../support/in-flight.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";

function cancel(client: McpClient, requestId: string | number): Promise<HttpReply> {
  return client.notify("notifications/cancelled", { requestId });
}

async function readCancellations(client: McpClient): Promise<string[]> {
  return (await readSeen(client)).filter((method) => method.startsWith("notifications/cancelled"));
}

function texts(replies: readonly JsonRpcMessage[]): (string | undefined)[] {
  return replies.map((reply) => reply.result?.content?.[0]?.text);
}

describe("cancellation", () => {
  it("a disconnect during one request cancels only that request at the server", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const staying = client.callTool("hang", {}, 2);
    const [stayingId] = await waitForHanging(client, 1);
    const leaving = new AbortController();
    const left = client.callTool("hang", {}, 2, { signal: leaving.signal }).catch((error: unknown) => String(error));
    const [, leavingId] = await waitForHanging(client, 2);
    leaving.abort();
    expect(await left).toContain("aborted");
    expect(await sidecar.waitForLog("request given up")).toMatchObject({
      method: "tools/call",
      requestId: leavingId,
      reason: "client disconnected",
    });
    expect(await readCancellations(client)).toEqual([`notifications/cancelled ${leavingId}`]);

    await client.toolText("release");
    expect(texts([await staying])).toEqual([`released ${stayingId}`]);
    expect(await sidecar.waitForLog("late answer dropped")).toMatchObject({
      requestId: leavingId,
      reason: "client disconnected",
      count: 1,
    });
  });

  it("90 disconnects at once cancel 90 requests and free their slots", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-in-flight", "100"] });
    const client = await sidecar.client();
    const leaving = new AbortController();
    const left = Array.from({ length: 90 }, () => client.callTool("hang", {}, 2, { signal: leaving.signal }).catch(String));
    const wireIds = await waitForHanging(client, 90);
    leaving.abort();
    await Promise.all(left);
    await sidecar.waitFor(
      () => sidecar.logLines.filter((line) => line.msg === "request given up").length === 90 || undefined,
      "90 requests given up",
    );
    expect(new Set(await readCancellations(client))).toEqual(new Set(wireIds.map((wireId) => `notifications/cancelled ${wireId}`)));
    const echoes = Array.from({ length: 100 }, (_, index) => client.callTool("echo", { text: `${index}` }));
    expect(texts(await Promise.all(echoes))).toEqual(Array.from({ length: 100 }, (_, index) => `${index}`));
  });

  it("a client's cancellation is forwarded with only its request id changed", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const hanging = client.post({ jsonrpc: "2.0", id: "my id", method: "tools/call", params: { name: "hang", arguments: {} } });
    const [wireId] = await waitForHanging(client, 1);
    const body = (id: string): string =>
      `{"method":"notifications/cancelled", "params":{"reason":"caf\\u00e9","requestId": ${id} ,"x":1.0},"jsonrpc":"2.0"}`;
    const reply = await client.post(body(`"my id"`));
    expect([reply.status, reply.body]).toEqual([202, ""]);

    // MCP 2025-11-25, basic/utilities/cancellation: a cancelled request gets no response.
    const cancelled = await hanging;
    expect([cancelled.status, cancelled.body]).toEqual([202, ""]);
    expect((JSON.parse(await client.toolText("notifications")) as string[]).at(-1)).toBe(body(String(wireId)));
    expect(await sidecar.waitForLog("request given up")).toMatchObject({ requestId: wireId, reason: "cancelled by the client" });
  });

  it("a cancellation whose id names two requests cancels neither", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const hanging = [client.callTool("hang", {}, 2), client.callTool("hang", {}, 2)];
    const wireIds = await waitForHanging(client, 2);
    expect((await cancel(client, 2)).status).toBe(202);
    expect(await readCancellations(client)).toEqual([]);
    await client.toolText("release");
    expect(new Set(texts(await Promise.all(hanging)))).toEqual(new Set(wireIds.map((wireId) => `released ${wireId}`)));
  });

  it("an id of another type, an unknown id or the server's id cancels nothing", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const hanging = client.callTool("hang", {}, 200);
    const [wireId = 0] = await waitForHanging(client, 1);
    for (const requestId of ["200", 201, wireId]) expect((await cancel(client, requestId)).status).toBe(202);
    for (const [params, status] of [
      [{}, 202],
      [undefined, 202],
      [{ requestId: null }, 400],
      [{ requestId: [200] }, 400],
    ] as const)
      expect((await client.notify("notifications/cancelled", params)).status).toBe(status);
    expect(await readCancellations(client)).toEqual([]);
    await client.toolText("release");
    expect(texts([await hanging])).toEqual([`released ${wireId}`]);
  });

  it("a cancellation does not affect a request of another session", async () => {
    await using sidecar = await HttpBench.start();
    const [owner, stranger] = await Promise.all([sidecar.client(), sidecar.client()]);
    const hanging = owner.callTool("hang", {}, 7);
    const [wireId] = await waitForHanging(owner, 1);
    expect((await cancel(stranger, 7)).status).toBe(202);
    expect(await readCancellations(owner)).toEqual([]);
    await owner.toolText("release");
    expect(texts([await hanging])).toEqual([`released ${wireId}`]);
  });

  it("a cancellation of an answered request does nothing", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    expect(await client.toolText("echo", { text: "done" })).toBe("done");
    expect((await cancel(client, 2)).status).toBe(202);
    expect(await readCancellations(client)).toEqual([]);
  });

  it("the end of a session cancels its requests in flight, and no others", async () => {
    await using sidecar = await HttpBench.start();
    const [ending, other] = await Promise.all([sidecar.client(), sidecar.client()]);
    const otherHanging = other.callTool("hang", {}, 2);
    const [otherId] = await waitForHanging(other, 1);
    const hanging = [ending.callTool("hang", {}, 2), ending.callTool("hang", {}, 3)];
    const [, ...endingIds] = await waitForHanging(other, 3);
    expect((await ending.end()).status).toBe(204);
    for (const { status, error } of await Promise.all(hanging)) {
      expect(status).toBe(200);
      expect(error?.data).toEqual(errorData("REQUEST_CANCELLED", { sent: true, retrySafe: false }));
      expect(error?.message).toBe(
        "The session ended during tools/call. The request was sent and may have taken effect; check before you repeat it.",
      );
    }
    expect(await readCancellations(other)).toEqual(endingIds.map((wireId) => `notifications/cancelled ${wireId}`));
    await other.toolText("release");
    expect(texts([await otherHanging])).toEqual([`released ${otherId}`]);
  });
});
