import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { crash, readSeen, waitForHanging } from "../support/fixture-server.ts";
import { answerOf, progressOf, say } from "../support/held-call.ts";
import { HttpBench } from "../support/http-bench.ts";
import { send } from "../support/http-client.ts";
import { JSON_HEADERS, toolCall } from "../support/mcp-client.ts";
import { readStatus } from "../support/status.ts";

const JSON_ONLY = { headers: { Accept: "application/json" } };

function echo(id: string | number, text: string): object {
  return toolCall("echo", { text }, id);
}

function notification(method: string): object {
  return { jsonrpc: "2.0", method };
}

const sidecar = disposeAfterAll(await HttpBench.start());
const client = await sidecar.client({ protocolVersion: "2025-03-26" });
const control = await sidecar.client();

it.each(["2025-03-26", "2024-11-05", "2024-10-07"])("a batch of requests gets one array of their responses (%s)", async (version) => {
  const own = await sidecar.client({ protocolVersion: version });
  const reply = await own.post([echo(1, "one"), echo("two", "two"), { jsonrpc: "2.0", id: 3, method: "ping" }]);
  expect([reply.status, reply.headers["content-type"]]).toEqual([200, "application/json"]);
  const responses = JSON.parse(reply.body) as unknown[];
  expect(responses).toHaveLength(3);
  expect(responses).toEqual(expect.arrayContaining([answerOf("one", 1), answerOf("two", "two"), { jsonrpc: "2.0", id: 3, result: {} }]));
});

it("each message of a batch reaches the server unchanged", async () => {
  const first = `{"jsonrpc":"2.0" ,"id":"a","method":"tools/call","params":{"name":"received","arguments":{"n":9007199254740993,"s":"],[{\\"\\u00e9"}}}`;
  const second = `{ "params":{"name":"received","arguments":{"x":1.0}},"method":"tools/call","id":"b","jsonrpc":"2.0" }`;
  const reply = await client.post(` [\n${first}\t,\r\n ${second}\n]\n`);
  const responses = JSON.parse(reply.body) as { id: string; result: { content: [{ text: string }] } }[];
  const received = new Map(responses.map(({ id, result }) => [id, result.content[0].text]));
  for (const [id, sent] of [
    ["a", first],
    ["b", second],
  ] as const) {
    const line = received.get(id) ?? "";
    expect(line).toBe(sent.replace(`"id":"${id}"`, `"id":${(JSON.parse(line) as { id: number }).id}`));
  }
});

it("requests of a batch with equal ids each get their own response", async () => {
  const reply = await client.post(Array.from({ length: 50 }, (_, index) => echo(1, `text ${index}`)));
  const responses = JSON.parse(reply.body) as unknown[];
  expect(responses).toHaveLength(50);
  expect(responses).toEqual(expect.arrayContaining(Array.from({ length: 50 }, (_, index) => answerOf(`text ${index}`, 1))));
});

it("progress turns the response to a batch into a stream, one event per response", async () => {
  const batch = [
    toolCall("progress", { steps: 2 }, 1, { progressToken: "mine" }),
    echo(2, "two"),
    toolCall("progress", { steps: 1 }, 3, { progressToken: 7 }),
  ];
  using stream = await client.postForStream(batch);
  expect([stream.status, stream.headers["content-type"]]).toEqual([200, "text/event-stream"]);
  const messages = await stream.rest();
  expect(messages).toHaveLength(6);
  const expected = [progressOf(1), progressOf(2), answerOf("done", 1), answerOf("two", 2), progressOf(1, 7), answerOf("done", 3)];
  expect(messages).toEqual(expect.arrayContaining(expected));
  expect(messages.findIndex((each) => JSON.stringify(each) === JSON.stringify(answerOf("done", 1)))).toBeGreaterThan(1);
});

it("responses that arrive before the stream begins are sent on it once", async () => {
  const hanging = await waitForHanging(control, 0);
  const opening = client.postForStream([echo(1, "first"), toolCall("hang", {}, 2, { progressToken: "mine" })]);
  const wireId = (await waitForHanging(control, hanging.length + 1)).at(-1);
  await say(control, JSON.stringify({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: wireId, progress: 1 } }));
  using stream = await opening;
  await say(control, JSON.stringify({ jsonrpc: "2.0", id: wireId, result: { content: [{ type: "text", text: "done" }] } }));
  const messages = await stream.rest();
  expect(messages).toHaveLength(3);
  expect(messages).toEqual(expect.arrayContaining([answerOf("first", 1), progressOf(1), answerOf("done", 2)]));
});

it("a client that reconnects with an event id gets the remaining responses", async () => {
  const hanging = await waitForHanging(control, 0);
  const first = await client.postForStream([
    toolCall("progress", { steps: 1 }, 1, { progressToken: "mine" }),
    toolCall("hang", {}, 2),
    toolCall("hang", {}, 3),
  ]);
  expect(await first.messages(2)).toEqual([progressOf(1), answerOf("done", 1)]);
  first.close();
  for (const wireId of (await waitForHanging(control, hanging.length + 2)).slice(hanging.length)) {
    await say(control, JSON.stringify({ jsonrpc: "2.0", id: wireId, result: { content: [{ type: "text", text: "late" }] } }));
  }
  using second = await client.openStream({ lastEventId: first.lastEventId });
  expect(await second.rest()).toEqual([answerOf("late", 2), answerOf("late", 3)]);
});

it("a client that does not accept streams gets one array despite progress", async () => {
  const reply = await client.post([toolCall("progress", { steps: 2 }, 1, { progressToken: "mine" }), echo(2, "two")], JSON_ONLY);
  expect(reply.headers["content-type"]).toBe("application/json");
  const responses = JSON.parse(reply.body) as unknown[];
  expect(responses).toHaveLength(2);
  expect(responses).toEqual(expect.arrayContaining([answerOf("done", 1), answerOf("two", 2)]));
});

it("a batch without requests gets 202, and its notifications arrive in order", async () => {
  const batch = [notification("notifications/x-1"), { jsonrpc: "2.0", id: 1, result: {} }, notification("notifications/x-2")];
  expect(await client.post(batch)).toMatchObject({ status: 202, body: "" });
  expect((await readSeen(control)).filter((method) => method.startsWith("notifications/x-"))).toEqual([
    "notifications/x-1",
    "notifications/x-2",
  ]);
});

it("cancelled requests of a batch get no response, and 202 if all are cancelled", async () => {
  const before = await waitForHanging(control, 0);
  const posted = client.post([toolCall("hang", {}, "cancelled"), echo(2, "two")]);
  await waitForHanging(control, before.length + 1);
  await client.notify("notifications/cancelled", { requestId: "cancelled" });
  expect(JSON.parse((await posted).body)).toEqual([answerOf("two", 2)]);
  const alone = client.post([toolCall("hang", {}, "alone")]);
  await waitForHanging(control, before.length + 2);
  await client.post([{ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "alone" } }]);
  expect(await alone).toMatchObject({ status: 202, body: "" });
});

it("the rest of a batch is rejected and counted after a notification is rejected", async () => {
  const flags = ["--max-held-requests", "1", "--restart-backoff-ms", "60000", "--restart-max-ms", "60000", "--drain-timeout-ms", "1"];
  await using full = await HttpBench.start({ flags });
  const own = await full.client({ protocolVersion: "2025-03-26" });
  await crash(full);
  await full.waitForLog("mcp server will be restarted");
  const held = own.callTool("echo", { text: "held" });
  while ((await readStatus(full)).lanes.shared.waiting === 0);
  const reply = await own.post([notification("notifications/anything"), echo(1, "one"), echo(2, "two")]);
  expect(JSON.parse(reply.body)).toMatchObject([1, 2].map((id) => ({ id, error: { data: { code: "UPSTREAM_NOT_READY", sent: false } } })));
  expect((await readStatus(full)).counters).toMatchObject({ requests: { refused: { UPSTREAM_NOT_READY: 2 } } });
  full.kill("SIGTERM");
  expect((await held).error?.data).toMatchObject({ code: "SHUTTING_DOWN", sent: false });
});

const REFUSED = errorReply(400, -32600, "INVALID_REQUEST");
const GOOD = JSON.stringify({ jsonrpc: "2.0", method: "notifications/refused" });

it.each([
  ["an empty batch", "[]"],
  ["a batch of white space", " [ \n ] "],
  ["a batch of more than a hundred messages", `[${Array.from({ length: 101 }, () => GOOD).join(",")}]`],
  [
    "a batch with an initialize request",
    `[${GOOD},{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}]`,
  ],
  ["a batch with a member that is not an object", `[${GOOD},42]`],
  ["a batch with a null member", `[${GOOD},null]`],
  ["a batch inside a batch", `[${GOOD},[${GOOD}]]`],
  ["a batch with a member that is not a message", `[${GOOD},{"id":1}]`],
  ["a batch with a message without a version", `[${GOOD},{"id":1,"method":"ping"}]`],
  ["a batch with a null id", `[${GOOD},{"jsonrpc":"2.0","id":null,"method":"ping"}]`],
  ["a batch with a message that repeats a member", `[${GOOD},{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}]`],
  ["a batch with a notification that has an id", `[${GOOD},{"jsonrpc":"2.0","id":1,"method":"notifications/refused"}]`],
])("%s is rejected, and none of it reaches the server", async (_why, body) => {
  expect(readError(await client.post(body))).toStrictEqual(REFUSED);
  expect(await readSeen(client)).not.toContain("notifications/refused");
});

it.each(["[", "[{]", "[{},]", `[${GOOD}`, `[${GOOD}]x`])("a batch that is not JSON is rejected: %s", async (body) => {
  expect(readError(await client.post(body))).toStrictEqual(errorReply(400, -32700, "PARSE_ERROR"));
  expect(await readSeen(client)).not.toContain("notifications/refused");
});

it.each(["2025-06-18", "2025-11-25"])("a batch is rejected if %s was negotiated, despite an older header", async (version) => {
  const own = await sidecar.client({ protocolVersion: version });
  for (const header of [{}, { "MCP-Protocol-Version": "2025-03-26" }]) {
    expect(readError(await own.post(`[${GOOD}]`, { headers: header }))).toStrictEqual(REFUSED);
  }
  expect(await readSeen(client)).not.toContain("notifications/refused");
});

it("a batch without a session, or with an ended one, is rejected", async () => {
  const body = `[${GOOD}]`;
  expect(readError(await send(sidecar.url, { headers: JSON_HEADERS, body }))).toStrictEqual(REFUSED);
  const ended = await sidecar.client({ protocolVersion: "2025-03-26" });
  await ended.end();
  expect(readError(await ended.post(body))).toStrictEqual(errorReply(404, -32001, "SESSION_NOT_FOUND"));
});
