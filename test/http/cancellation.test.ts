import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorData } from "../support/error-reply.ts";
import { readSeen, waitForHanging } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import { toolCall } from "../support/mcp-client.ts";

const sidecar = disposeAfterAll(await HttpBench.start());
const control = await sidecar.client();

async function readCancellations(): Promise<string[]> {
  return (await readSeen(control)).filter((method) => method.startsWith("notifications/cancelled"));
}

it("a client's cancellation is forwarded with only its request id changed", async () => {
  const client = await sidecar.client();
  const hanging = client.post(toolCall("hang", {}, "my id"));
  const [wireId] = await waitForHanging(client, 1);
  const body = (id: string): string =>
    `{"method":"notifications/cancelled", "params":{"reason":"caf\\u00e9","requestId": ${id} ,"x":1.0},"jsonrpc":"2.0"}`;
  await client.post(body(`"my id"`));
  expect(await hanging).toMatchObject({ status: 202, body: "" });
  expect((JSON.parse(await client.toolText("notifications")) as string[]).at(-1)).toBe(body(String(wireId)));
  expect(await sidecar.waitForLog("request given up")).toMatchObject({ requestId: wireId, reason: "cancelled by the client" });
  await client.toolText("release");
});

it("an ambiguous id, one of another type or session, an unknown or the server's own id cancels nothing", async () => {
  const [client, stranger] = await Promise.all([sidecar.client(), sidecar.client()]);
  const before = await readCancellations();
  expect(await client.toolText("echo", { text: "done" })).toBe("done");
  const hanging = [client.callTool("hang", {}, 200), client.callTool("hang", {}, 7), client.callTool("hang", {}, 7)];
  const [wireId = 0] = await waitForHanging(client, 3);
  for (const [each, params, status] of [
    [client, { requestId: "200" }, 202],
    [client, { requestId: 201 }, 202],
    [client, { requestId: wireId }, 202],
    [client, { requestId: 7 }, 202],
    // The call of `echo`, which was answered.
    [client, { requestId: 2 }, 202],
    [stranger, { requestId: 200 }, 202],
    [client, {}, 202],
    [client, undefined, 202],
    [client, { requestId: null }, 400],
    [client, { requestId: [200] }, 400],
  ] as const)
    expect((await each.notify("notifications/cancelled", params)).status).toBe(status);
  expect(await readCancellations()).toEqual(before);
  await client.toolText("release");
  for (const { result } of await Promise.all(hanging)) expect(result?.content?.[0]?.text).toContain("released");
});

it("the end of a session cancels its requests in flight, and no others", async () => {
  const [ending, other] = await Promise.all([sidecar.client(), sidecar.client()]);
  const before = await readCancellations();
  const staying = other.callTool("hang", {}, 2);
  const [stayingId] = await waitForHanging(other, 1);
  const hanging = [ending.callTool("hang", {}, 2), ending.callTool("hang", {}, 3)];
  const [, ...endingIds] = await waitForHanging(other, 3);
  expect((await ending.end()).status).toBe(204);
  for (const { status, error } of await Promise.all(hanging)) {
    expect([status, error?.data]).toEqual([200, errorData("REQUEST_CANCELLED", { sent: true, retrySafe: false })]);
    expect(error?.message).toContain("The session ended during tools/call. The request was sent and may have taken effect;");
  }
  expect((await readCancellations()).slice(before.length)).toEqual(endingIds.map((wireId) => `notifications/cancelled ${wireId}`));
  await other.toolText("release");
  expect((await staying).result?.content?.[0]?.text).toBe(`released ${stayingId}`);
});
