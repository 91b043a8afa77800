import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { answerOf, HeldCall, progressOf } from "../support/held-call.ts";
import { send } from "../support/http-client.ts";
import { readSeen, timeoutFlags, waitForSeen } from "../support/fixture-server.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { countSockets, waitForSockets } from "../support/open-sockets.ts";
import { HttpBench } from "../support/http-bench.ts";

const QUIET = ["--stream-after-ms", "1"];

const sidecar = disposeAfterAll(await HttpBench.start({ flags: QUIET }));
const control = await sidecar.client({ accept: "application/json" });

/** Starts a call whose response is a stream, and disconnects before any message. Returns when the sidecar has noticed. */
async function leaveSilentStream(client: McpClient): Promise<{ readonly call: HeldCall; readonly lastEventId: string }> {
  const call = await HeldCall.start(client, control);
  const stream = await call.stream;
  expect(stream.headers["content-type"]).toBe("text/event-stream");
  if (client.protocolVersion === "2025-11-25") await stream.block();
  await leave(() => stream.close());
  return { call, lastEventId: stream.lastEventId };
}

async function leave(act: () => void): Promise<void> {
  const before = countSockets(sidecar.address);
  act();
  await waitForSockets(sidecar.address, before - 1);
}

it.each(["2025-06-18", "2025-03-26", "2024-11-05"])(
  "a client without an event id (%s) cancels its call by disconnecting",
  async (version) => {
    const client = await sidecar.client({ protocolVersion: version });
    const { call } = await leaveSilentStream(client);
    await waitForSeen(control, `notifications/cancelled ${call.wireId}`);
    expect(await sidecar.waitForLog("request given up", (line) => line["requestId"] === call.wireId)).toMatchObject({
      reason: "client disconnected",
    });
  },
);

it("a client with an event id can reconnect, and its response is kept", async () => {
  const client = await sidecar.client();
  const { call, lastEventId } = await leaveSilentStream(client);
  await call.answer();
  expect(await readSeen(control)).not.toContain(`notifications/cancelled ${call.wireId}`);
  using resumed = await client.openStream({ lastEventId });
  expect(await resumed.rest()).toEqual([answerOf()]);
});

it("a disconnected client can cancel its call and still read earlier messages", async () => {
  const client = await sidecar.client();
  const call = await HeldCall.start(client, control);
  await call.progress(1, 2);
  const stream = await call.stream;
  await stream.messages(1);
  await leave(() => stream.close());
  expect((await client.notify("notifications/cancelled", { requestId: 7 })).status).toBe(202);
  await waitForSeen(control, `notifications/cancelled ${call.wireId}`);
  using resumed = await client.openStream({ lastEventId: stream.lastEventId });
  expect(await resumed.rest()).toEqual([progressOf(2)]);
  const headers = client.getHeaders({ lastEventId: resumed.lastEventId });
  expect((await send(client.url, { method: "GET", headers })).status).toBe(204);
});

it("a call of a client that never reconnects times out and frees its slot", async () => {
  await using impatient = await HttpBench.start({ flags: [...QUIET, ...timeoutFlags(1000), "--max-in-flight", "1"] });
  const client = await impatient.client();
  using stream = await client.begin("hang", {}, 7);
  await stream.block();
  stream.close();
  await impatient.waitForLog("request given up", (line) => line["reason"] === "timeout");
  expect(await client.toolText("echo", { text: "free" })).toBe("free");
  using resumed = await client.openStream({ lastEventId: stream.lastEventId });
  expect(await resumed.rest()).toMatchObject([{ id: 7, error: { data: { code: "REQUEST_TIMEOUT", sent: true } } }]);
});

it("a client that reconnects and disconnects again loses no message", async () => {
  const client = await sidecar.client();
  const { call, lastEventId } = await leaveSilentStream(client);
  const resumed = await client.openStream({ lastEventId });
  await leave(() => resumed.close());
  await call.progress(1);
  await call.answer();
  using again = await client.openStream({ lastEventId });
  expect(await again.rest()).toEqual([progressOf(1), answerOf()]);
  expect(await readSeen(control)).not.toContain(`notifications/cancelled ${call.wireId}`);
});
