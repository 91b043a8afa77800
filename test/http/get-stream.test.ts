import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { EventStream } from "../support/event-stream.ts";
import { answerOf, HeldCall, progressOf, say } from "../support/held-call.ts";
import { send } from "../support/http-client.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { countSockets, waitForSockets } from "../support/open-sockets.ts";
import { HttpBench } from "../support/http-bench.ts";

const TOOLS_CHANGED = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
const PROMPTS_CHANGED = { jsonrpc: "2.0", method: "notifications/prompts/list_changed" };
const RESOURCES_CHANGED = { jsonrpc: "2.0", method: "notifications/resources/list_changed", params: { _meta: { n: 1 } } };

const OPENED = { comment: "open" };

function sayAll(client: McpClient, ...messages: readonly object[]): Promise<void> {
  return say(client, ...messages.map((message) => JSON.stringify(message)));
}

async function end(client: McpClient): Promise<void> {
  expect((await client.end()).status).toBe(204);
}

const sidecar = disposeAfterAll(await HttpBench.start());

it("a stream begins with a comment at once, without an event before the first message", async () => {
  const client = await sidecar.client();
  using stream = await client.openStream();
  expect(stream.headers).toMatchObject({
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "mcp-session-id": client.sessionId,
  });
  expect(await stream.block()).toEqual(OPENED);
  await sayAll(client, TOOLS_CHANGED);
  const id: unknown = expect.stringMatching(/./);
  expect(await stream.block()).toEqual({ id, event: "message", data: JSON.stringify(TOOLS_CHANGED) });
});

it("an idle stream gets comments", async () => {
  await using quick = await HttpBench.start({ flags: ["--keep-alive-ms", "10"] });
  using stream = await (await quick.client()).openStream();
  expect(await stream.block()).toEqual(OPENED);
  for (let count = 0; count < 3; count++) expect(await stream.block()).toEqual({ comment: "keep-alive" });
});

it.each(["application/json", "text/event-stream;q=0, application/json"])("a request with Accept: %s gets 406", async (accept) => {
  const { sessionId } = await sidecar.client();
  const headers = { "Mcp-Session-Id": sessionId, Accept: accept };
  expect(readError(await send(sidecar.url, { method: "GET", headers }))).toStrictEqual(errorReply(406, -32000, "NOT_ACCEPTABLE"));
});

it.each(["*/*", "text/*", undefined])("Accept: %s permits an event stream", async (accept) => {
  const { sessionId } = await sidecar.client();
  const headers = { "Mcp-Session-Id": sessionId, ...(accept !== undefined && { Accept: accept }) };
  using stream = await EventStream.open(sidecar.url, { headers });
  expect([stream.status, stream.headers["content-type"]]).toEqual([200, "text/event-stream"]);
});

it("each session gets list_changed once, on its newest stream or its next one", async () => {
  const [several, single, none, control] = await Promise.all(Array.from({ length: 4 }, () => sidecar.client()));
  if (several === undefined || single === undefined || none === undefined || control === undefined) throw new Error("four clients");
  const streams: EventStream[] = [];
  for (const client of [several, several, several, single]) streams.push(await client.openStream());
  await sayAll(control, TOOLS_CHANGED, PROMPTS_CHANGED);
  streams.push(await none.openStream());
  await sayAll(control, RESOURCES_CHANGED);
  for (const client of [several, single, none]) await end(client);
  const all = [TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED];
  expect(await Promise.all(streams.map((stream) => stream.rest()))).toEqual([[], [], all, all, all]);
});

it("a stream begins with the notifications kept for it, in order and without duplicates", async () => {
  const client = await sidecar.client();
  await sayAll(client, TOOLS_CHANGED, PROMPTS_CHANGED, TOOLS_CHANGED, RESOURCES_CHANGED, PROMPTS_CHANGED);
  using first = await client.openStream();
  expect(await first.messages(3)).toEqual([TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED]);
  using second = await client.openStream();
  await sayAll(client, TOOLS_CHANGED, TOOLS_CHANGED);
  await end(client);
  expect([await first.rest(), await second.rest()]).toEqual([[], [TOOLS_CHANGED, TOOLS_CHANGED]]);
});

it("an older stream takes over if the client closes the newer one", async () => {
  const client = await sidecar.client();
  using older = await client.openStream();
  const before = countSockets(sidecar.address);
  using newer = await client.openStream();
  newer.close();
  await waitForSockets(sidecar.address, before);
  await sayAll(client, TOOLS_CHANGED);
  expect(await older.messages(1)).toEqual([TOOLS_CHANGED]);
});

it("a GET stream has no messages that belong to a request", async () => {
  const client = await sidecar.client();
  using stream = await client.openStream();
  const call = await HeldCall.start(client, client);
  await call.progress(1, 2);
  await call.answer();
  expect(await (await call.stream).rest()).toEqual([progressOf(1), progressOf(2), answerOf()]);
  expect(await client.toolText("echo", { text: "json" })).toBe("json");
  await end(client);
  expect(await stream.rest()).toEqual([]);
});

it("all streams of a session end with it", async () => {
  const [client, other] = [await sidecar.client(), await sidecar.client()];
  using standalone = await client.openStream();
  using untouched = await other.openStream();
  const call = await HeldCall.start(client, other);
  await call.progress(1);
  using answer = await call.stream;
  await end(client);
  expect(await standalone.rest()).toEqual([]);
  expect(await answer.rest()).toMatchObject([progressOf(1), { id: 7, error: { data: { code: "REQUEST_CANCELLED", sent: true } } }]);
  const again = await client.get({ lastEventId: answer.lastEventId });
  expect(readError(again)).toStrictEqual(errorReply(404, -32001, "SESSION_NOT_FOUND"));
  await sayAll(other, TOOLS_CHANGED);
  expect(await untouched.messages(1)).toEqual([TOOLS_CHANGED]);
});

it("a session has sixteen streams at most; the next one ends the oldest", async () => {
  const client = await sidecar.client();
  const streams: EventStream[] = [];
  for (let count = 0; count < 17; count++) streams.push(await client.openStream());
  expect(await streams[0]?.rest()).toEqual([]);
  await sayAll(client, TOOLS_CHANGED);
  expect(await streams[16]?.messages(1)).toEqual([TOOLS_CHANGED]);
  await end(client);
  for (const stream of streams.slice(1)) expect(await stream.rest()).toEqual([]);
});

it("closed streams leak no socket, and later messages wait for the next one", async () => {
  const client = await sidecar.client();
  const before = countSockets(sidecar.address);
  for (let round = 0; round < 10; round++) {
    const streams = await Promise.all(Array.from({ length: 10 }, () => client.openStream()));
    for (const stream of streams) stream.close();
    await waitForSockets(sidecar.address, before);
  }
  await sayAll(client, TOOLS_CHANGED);
  using stream = await client.openStream();
  expect(await stream.messages(1)).toEqual([TOOLS_CHANGED]);
});
