import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { EventStream } from "../support/event-stream.ts";
import { HeldCall } from "../support/held-call.ts";
import { type HttpCall, type HttpReply, send } from "../support/http-client.ts";
import { initializeRequest, JSON_HEADERS } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { TOKENS } from "../support/token-clients.ts";

const [OWNER, OTHER] = [{ Authorization: `Bearer ${TOKENS[0]}` }, { Authorization: `Bearer ${TOKENS[1]}` }];
const REQUEST = '{"jsonrpc":"2.0","id":7,"method":"x-test/of-the-other"}';

/** Everything in a response that a client sees, except for dates. */
function visible({ status, headers, body }: HttpReply): object {
  const { date: _, ...rest } = headers;
  return { status, headers: rest, body };
}

/** Sends the same with a valid token that did not open the session: once with its id, and once with the id of no session. */
async function withBoth(url: string, { headers, ...call }: HttpCall): Promise<{ other: object; unknown: object }> {
  const sendWith = (sessionId: object): Promise<HttpReply> => send(url, { ...call, headers: { ...headers, ...OTHER, ...sessionId } });
  const [other, unknown] = [await sendWith({}), await sendWith({ "Mcp-Session-Id": "unknown" })];
  expect(unknown.status).toBe(404);
  return { other: visible(other), unknown: visible(unknown) };
}

const sidecar = disposeAfterAll(await HttpBench.start({ hasTokens: true }));
const client = await sidecar.client({ headers: OWNER });

it.each<[string, HttpCall]>([
  ["a request", { body: REQUEST }],
  ["a notification", { body: '{"jsonrpc":"2.0","method":"notifications/x-of-the-other"}' }],
  ["a response", { body: '{"jsonrpc":"2.0","id":1,"result":{}}' }],
  ["a batch", { body: `[${REQUEST}]` }],
  ["a request of another revision", { body: REQUEST, headers: { ...JSON_HEADERS, "MCP-Protocol-Version": "2025-06-18" } }],
  ["a request of an unknown revision", { body: REQUEST, headers: { ...JSON_HEADERS, "MCP-Protocol-Version": "2026-01-01" } }],
  ["GET", { method: "GET", headers: { Accept: "text/event-stream" } }],
  ["a GET without an event stream", { method: "GET" }],
  ["a resumption", { method: "GET", headers: { Accept: "text/event-stream", "Last-Event-ID": "1-1" } }],
  ["DELETE", { method: "DELETE" }],
])("%s with another valid token is answered as for an unknown session", async (_what, call) => {
  const headers = { ...(call.headers ?? JSON_HEADERS), "Mcp-Session-Id": client.sessionId };
  const { other, unknown } = await withBoth(sidecar.url, { ...call, headers });
  expect(other).toStrictEqual(unknown);
});

it("initialize with the session of another token opens a session", async () => {
  const headers = { ...JSON_HEADERS, ...OTHER, "Mcp-Session-Id": client.sessionId };
  const { status, headers: replied } = await send(sidecar.url, { body: JSON.stringify(initializeRequest()), headers });
  expect([status, replied["mcp-session-id"] === client.sessionId]).toEqual([200, false]);
});

it("a web page gets the same response with another valid token", async () => {
  const headers = { ...JSON_HEADERS, Origin: "http://localhost:5173", "Mcp-Session-Id": client.sessionId };
  const { other, unknown } = await withBoth(sidecar.url, { body: REQUEST, headers });
  expect(other).toStrictEqual(unknown);
  expect(unknown).toMatchObject({ headers: { "access-control-allow-origin": "http://localhost:5173" } });
});

it("the session and its server saw none of these requests", async () => {
  const seen = JSON.parse(await client.toolText("seen")) as string[];
  expect(seen.filter((method) => method.includes("of-the-other"))).toEqual([]);
  expect(await client.toolText("echo", { text: "still mine" })).toBe("still mine");
});

it("event ids of a broken stream are useless with another token", async () => {
  const control = await sidecar.client({ headers: OWNER });
  const call = await HeldCall.start(client, control);
  await call.progress(1);
  const stream = await call.stream;
  await stream.next();
  const lastEventId = stream.lastEventId;
  stream[Symbol.dispose]();
  const resume = { Accept: "text/event-stream", "Mcp-Session-Id": client.sessionId, "Last-Event-ID": lastEventId };
  const { other, unknown } = await withBoth(sidecar.url, { method: "GET", headers: resume });
  expect(other).toStrictEqual(unknown);
  await call.answer("for the owner only");
  using resumed = await EventStream.open(sidecar.url, { headers: { ...resume, ...OWNER } });
  expect(await resumed.nextText()).toContain("for the owner only");
});

it("requests with another token do not keep a session alive", async () => {
  await using small = await HttpBench.start({ hasTokens: true, flags: ["--max-sessions", "2", "--session-max-age-ms", "1"] });
  const [first, second] = [await small.client({ headers: OWNER }), await small.client({ headers: OWNER })];
  const headers = { ...JSON_HEADERS, "Mcp-Session-Id": first.sessionId };
  await withBoth(small.url, { body: REQUEST, headers });
  await small.client({ headers: OTHER });
  expect([(await first.request("ping")).status, (await second.request("ping")).status]).toEqual([404, 200]);
});
