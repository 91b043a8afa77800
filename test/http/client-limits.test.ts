import { writeFile } from "node:fs/promises";
import { Agent } from "node:http";
import { describe, expect, it } from "vitest";
import { errorReply, failureOf, readError } from "../support/error-reply.ts";
import { offer, readSeen } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { HttpReply } from "../support/http-client.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { LANE_CLIENTS } from "../support/lane-client.ts";
import { initializeRequest, McpClient, toolCall } from "../support/mcp-client.ts";
import { META, type ModernClient, type ModernListen, type ModernReply } from "../support/modern-client.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";
import { tokenClients, TOKENS } from "../support/token-clients.ts";

const SAMPLING = { sampling: {} };

function initialize(sidecar: RunningSidecar, capabilities: object = {}): Promise<HttpReply> {
  return new McpClient(sidecar.url).post(initializeRequest(capabilities));
}

it("sessions above the limit get 429 and Retry-After, and open sessions are unaffected", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--sessions-per-minute", "2"] });
  const startedAtMs = performance.now();
  const clients = [await sidecar.client(), await sidecar.client()];
  const refused = await initialize(sidecar);
  const retryAfterSeconds = Number(refused.headers["retry-after"]);
  expect(readError(refused)).toStrictEqual(
    errorReply(429, -32000, "RATE_LIMITED", { id: 1, data: { sent: false, retrySafe: true, retryAfterSeconds } }),
  );
  expect(refused.body).toContain("Only 2 sessions may be opened per minute.");
  expect(refused.headers).not.toHaveProperty("mcp-session-id");
  // Half a minute after the first one, less the time that has passed since.
  expect(retryAfterSeconds).toBeGreaterThanOrEqual(30 - Math.ceil((performance.now() - startedAtMs) / 1000));
  expect(retryAfterSeconds).toBeLessThanOrEqual(30);
  for (const client of clients) expect(await client.toolText("echo", { text: "on" })).toBe("on");
  expect(await readStatus(sidecar)).toMatchObject({ sessions: 2, counters: { requests: { refused: { RATE_LIMITED: 1 } } } });
});

it("sessions with a private server count, and a rejected client starts none", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--sessions-per-minute", "1"] });
  expect((await initialize(sidecar, SAMPLING)).status).toBe(200);
  expect((await initialize(sidecar, { roots: {} })).status).toBe(429);
  expect((await readStatus(sidecar)).lanes.private.servers).toBe(1);
  await sidecar.stop();
  expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(2);
});

it("clients that are rejected for another reason do not count", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--sessions-per-minute", "2", "--max-private-servers", "1"] });
  expect((await initialize(sidecar, SAMPLING)).status).toBe(200);
  expect((await initialize(sidecar, { roots: {} })).status).toBe(503);
  expect((await initialize(sidecar)).status).toBe(200);
  expect((await initialize(sidecar)).status).toBe(429);
});

/** Fewer than that may be in flight: queued requests count as well. */
const REQUESTS = ["--max-session-requests", "3", "--max-in-flight", "2"];
const DATA = { sent: false, retrySafe: true, retryAfterSeconds: 1 };

/** Sends one request more than the limit. Its rejection shows that all others have arrived. */
async function exceed(client: McpClient, path: string): Promise<{ refused: HttpReply; others: Promise<HttpReply[]> }> {
  const replies = ["a", 1, "c", 2].map((id) => client.post(toolCall("wait_for_file", { path }, id)));
  const refused = await Promise.race(replies);
  return { refused, others: Promise.all(replies).then((all) => all.filter((reply) => reply !== refused)) };
}

function parse({ body }: HttpReply): JsonRpcMessage {
  return JSON.parse(body) as JsonRpcMessage;
}

it("a further request gets 429 and its own id until one is answered", async () => {
  await using sidecar = await HttpBench.start({ flags: REQUESTS });
  const [client, other] = [await sidecar.client(), await sidecar.client()];
  const path = sidecar.directory.file("go");
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
  await using sidecar = await HttpBench.start({ flags: REQUESTS });
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
  await using sidecar = await HttpBench.start({ flags: REQUESTS });
  const client = await sidecar.client();
  const leaving = new AbortController();
  const replies = [1, 2, 3, 4].map((id) =>
    client.post(toolCall("wait_for_file", { path: "/no such file" }, id), { signal: leaving.signal }),
  );
  expect((await Promise.race(replies)).status).toBe(429);
  leaving.abort();
  await Promise.allSettled(replies);
  await sidecar.waitFor(
    () => sidecar.logLines.filter(({ reason }) => reason === "client disconnected").length === 3 || undefined,
    "three requests that were given up",
  );
  expect(await client.toolText("echo", { text: "again" })).toBe("again");
});

/** The expected rejection, with this retry delay. */
function rateLimited(id: number, retryAfterSeconds: number): object {
  return errorReply(429, -32000, "RATE_LIMITED", { id, data: { sent: false, retrySafe: true, retryAfterSeconds } });
}

describe.each(LANE_CLIENTS)("the call rate of a session ($lane)", ({ connect }) => {
  it("a call above the rate is rejected with a retry time; other sessions are unaffected", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--session-calls-per-minute", "3"] });
    const client = await connect(sidecar);
    // The connection to a private server has already made one call.
    const made = client.childPid === 0 ? 0 : 1;
    for (let id = made; id < 3; id++) expect((await client.post(toolCall("echo", {}, id))).status).toBe(200);
    const refused = await client.post(toolCall("echo", {}, 4));
    expect(readError(refused)).toStrictEqual(rateLimited(4, 20));
    expect(refused.headers["retry-after"]).toBe("20");
    expect(refused.body).toContain(
      "Rate limit reached: 3 per minute for tool calls of this client. The call was not sent; it is safe to retry in 20 s.",
    );
    expect((await client.request("tools/list")).result).toBeDefined();
    const other = await connect(sidecar);
    expect((await other.post(toolCall("echo", {}, 5))).status).toBe(200);
    const { counters, lanes } = await readStatus(sidecar);
    const { requests, answers } = counters as unknown as { requests: { accepted: number; refused: object }; answers: { results: number } };
    expect(requests.refused).toEqual({ RATE_LIMITED: 1 });
    expect([answers, requests.accepted]).toEqual([
      { results: requests.accepted, errors: 0, dismissed: 0, unread: 0, failures: {} },
      answers.results,
    ]);
    expect([lanes.shared.requestsInFlight, lanes.private.requestsInFlight]).toEqual([0, 0]);
  });
});

describe("the call rate of a tool", () => {
  it.each([
    ["--tool-calls-per-minute", "echo=1"],
    ["--tool-concurrency", "echo=1"],
    ["--argument-check", "enforce"],
  ])("a call whose name is no text does not reach the server with %s %s", async (...flags) => {
    await using sidecar = await HttpBench.start({ flags });
    const client = await sidecar.client();
    for (const name of [["echo"], undefined]) {
      expect((await client.request("tools/call", { name, arguments: {} })).error?.data).toMatchObject({ code: "TOOL_NOT_FOUND" });
    }
    expect((await readSeen(client)).filter((method) => method === "tools/call")).toHaveLength(1);
  });

  it("a call that another limit rejects does not count", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--session-calls-per-minute", "2", "--max-session-requests", "1"] });
    const client = await sidecar.client();
    const waiting = client.post(toolCall("hang", {}, "w"));
    // The ping is rejected once the call is in flight.
    while (!(await client.post({ jsonrpc: "2.0", id: "p", method: "ping" })).body.includes("SESSION_OVERLOADED"));
    expect((await client.post(toolCall("echo", {}, 1))).body).toContain("SESSION_OVERLOADED");
    await client.notify("notifications/cancelled", { requestId: "w" });
    await waiting;
    expect([(await client.post(toolCall("echo", {}, 2))).status, (await client.post(toolCall("echo", {}, 3))).status]).toEqual([200, 429]);
  });
});

const [FIRST, SECOND] = TOKENS;

async function statuses(client: ModernClient, count: number): Promise<number[]> {
  const found: number[] = [];
  for (let call = 0; call < count; call++) found.push((await client.callTool("echo", { text: "x" })).status);
  return found;
}

function busy(reply: ModernReply): readonly unknown[] {
  return [...failureOf(reply), reply.headers["retry-after"], reply.error?.data?.["sent"]];
}

describe("SESSION_CALLS_PER_MINUTE for clients without a session", () => {
  const FLAGS = ["--session-calls-per-minute", "3"];

  it("each token has a rate of its own, whatever its connections and names", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true, flags: FLAGS });
    using agent = closing(new Agent({ keepAlive: true, localAddress: "127.0.0.2" }));
    const first = sidecar.modernClient({ token: FIRST });
    const startedAtMs = performance.now();
    expect(await statuses(first, 3)).toEqual([200, 200, 200]);
    const refused = await first.callTool("echo", {}, { id: "over" });
    const [status, code, dataCode, seconds, sent] = busy(refused);
    expect([status, code, dataCode, sent, refused.id]).toEqual([429, -32603, "RATE_LIMITED", false, "over"]);
    // A third of a minute from the first call on.
    expect(Number(seconds)).toBeLessThanOrEqual(20);
    expect(Number(seconds)).toBeGreaterThanOrEqual(20 - Math.ceil((performance.now() - startedAtMs) / 1000));
    expect(await statuses(sidecar.modernClient({ token: FIRST, agent: agent.value }), 1)).toEqual([429]);
    const renamed = await first.callTool("echo", {}, { meta: { [META.clientInfo]: { name: "another", version: "2" } } });
    expect(renamed.status).toBe(429);
    expect(await statuses(sidecar.modernClient({ token: SECOND }), 4)).toEqual([200, 200, 200, 429]);
  });

  it("without tokens, each address has a rate of its own", async () => {
    await using sidecar = await HttpBench.start({ flags: FLAGS });
    using agent = closing(new Agent({ keepAlive: true, localAddress: "127.0.0.2" }));
    expect(await statuses(sidecar.modernClient(), 4)).toEqual([200, 200, 200, 429]);
    expect(await statuses(sidecar.modernClient({ agent: agent.value }), 4)).toEqual([200, 200, 200, 429]);
  });

  it("a session has its own rate besides", async () => {
    await using sidecar = await HttpBench.start({ flags: FLAGS });
    expect(await statuses(sidecar.modernClient(), 4)).toEqual([200, 200, 200, 429]);
    expect((await (await sidecar.client()).callTool("echo")).status).toBe(200);
  });

  it("a discovery and lists are served above the rate", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--session-calls-per-minute", "1", "--sessions-per-minute", "1"] });
    const client = sidecar.modernClient();
    expect(await statuses(client, 2)).toEqual([200, 429]);
    for (let round = 0; round < 3; round++) {
      expect((await client.request("server/discover")).status).toBe(200);
      expect((await client.request("tools/list")).status).toBe(200);
    }
  });
});

describe("TOOL_CALLS_PER_MINUTE for clients without a session", () => {
  it("the rate of a tool covers sessions and clients without one", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--tool-calls-per-minute", "echo=2"] });
    const session = await sidecar.client();
    expect((await session.callTool("echo")).status).toBe(200);
    expect(await statuses(sidecar.modernClient(), 2)).toEqual([200, 429]);
    expect((await session.callTool("echo")).status).toBe(429);
  });
});

function closing(agent: Agent): { readonly value: Agent } & Disposable {
  return { value: agent, [Symbol.dispose]: () => agent.destroy() };
}

describe("the resources of subscriptions", () => {
  it.each([
    {
      what: "with sessions",
      mode: "keeps-state",
      env: { FIXTURE_INITIALIZE_RESULT: offer({ tools: {}, resources: { subscribe: true } }) },
    },
    { what: "without sessions", mode: "modern-only", env: {} },
  ])("a client watches at most 10,000 in all its subscriptions, server $what", async ({ mode, env }) => {
    await using sidecar = await HttpBench.start({ mode, env, hasTokens: true });
    const [client, other] = tokenClients(sidecar, {});
    const filter = { resourceSubscriptions: Array.from({ length: 1000 }, (_, index) => `x://${index}`) };
    const [first, ...more] = await Promise.all(Array.from({ length: 10 }, () => client.listen(filter)));
    const refused = await client.request("subscriptions/listen", { notifications: { resourceSubscriptions: ["x://1"] } });
    expect([refused.status, refused.error?.data]).toMatchObject([429, { code: "SESSION_OVERLOADED", sent: false, retryAfterSeconds: 1 }]);
    await using ofOther = await other.listen(filter);
    expect(ofOther.accepted).toEqual(filter);
    await first?.close();
    // The sidecar notices the end of the connection.
    const again = async (): Promise<ModernListen> => client.listen(filter).catch(again);
    for (const listen of [await again(), ...more]) await listen.close();
  });
});
