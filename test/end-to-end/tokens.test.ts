import { writeFile } from "node:fs/promises";
import { expect } from "vitest";
import { crash, offer, readSeen, readWhere, waitForHanging } from "../support/fixture-server.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { TempDir } from "../support/temp-dir.ts";
import { EventStream } from "../support/event-stream.ts";
import { failureOf } from "../support/error-reply.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { LegacySseClient } from "../support/legacy-sse-client.ts";
import { ASKABLE, initializeRequest, JSON_HEADERS, type McpClient } from "../support/mcp-client.ts";
import { META, type ModernCall } from "../support/modern-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { ACCEPTED, answering, answersOf, elicitation, FORM_ELICITATION, inputRequired, UNKNOWN_STATE } from "../support/questions.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { flagsForTokens, TOKENS, tokenClients } from "../support/token-clients.ts";
import { proves } from "./proves.ts";

const [FIRST, SECOND] = TOKENS;
const AUTHORIZED = { Authorization: `Bearer ${FIRST}` };
const NAME = { questions: [elicitation("name")] };
const REJECTED = "auth token file rejected: the tokens are unchanged";

const directory = disposeAfterAll(await TempDir.create());
const limits = ["--max-session-requests", "3", "--max-parked-calls", "4", "--restart-backoff-ms", "1"];
const paths = ["--legacy-sse", "on", "--admin-addr", "127.0.0.1:0"];
const sidecar = disposeAfterAll(
  await Sidecar.start({
    flags: [...(await flagsForTokens(directory)), ...limits, ...paths],
    env: { FIXTURE_INITIALIZE_RESULT: offer({ tools: {}, logging: {} }) },
  }),
);
const operators = { origin: `http://${String((await sidecar.waitForLog("listening for operators"))["address"])}` };
const [first, second] = [await sidecar.client({ token: FIRST }), await sidecar.client({ token: SECOND })];

/** Makes a call that logs. @returns the messages of the log on its stream. */
async function logged(client: McpClient): Promise<unknown[]> {
  using call = await client.begin("log", { level: "error", data: "logged" });
  return (await call.rest()).filter(({ method }) => method === "notifications/message");
}

proves("log messages of two tokens are not mixed", async () => {
  await first.request("logging/setLevel", { level: "debug" });
  await crash(sidecar);
  expect(await logged(first)).toHaveLength(1);
  await second.request("logging/setLevel", { level: "debug" });
  await second.toolText("echo", { text: "of the second" });
  expect([await logged(first), await logged(second)]).toEqual([[], []]);
});

proves("a client without a token learns only the state", async () => {
  const calls = [
    { headers: JSON_HEADERS, body: JSON.stringify(initializeRequest()) },
    { headers: { ...JSON_HEADERS, "Mcp-Session-Id": first.sessionId }, body: '{"jsonrpc":"2.0","id":1,"method":"x-test/refused"}' },
    { headers: JSON_HEADERS, body: "{" },
    { method: "DELETE", headers: { "Mcp-Session-Id": first.sessionId } },
    { method: "GET", headers: { Accept: "text/event-stream", "Mcp-Session-Id": first.sessionId } },
  ];
  for (const call of calls) {
    for (const credentials of [{}, { Authorization: "Bearer wrong-token-0123456789" }]) {
      const { status, headers, body } = await send(sidecar.url, { ...call, headers: { ...call.headers, ...credentials } });
      expect([status, JSON.parse(body)]).toMatchObject([401, { id: null, error: { data: { code: "UNAUTHORIZED" } } }]);
      expect(headers["www-authenticate"]).toMatch(/^Bearer realm="mcp"/);
      expect(headers).not.toHaveProperty("mcp-session-id");
    }
  }
  for (const path of ["/status", "/metrics"]) expect((await send(`${operators.origin}${path}`, { method: "GET" })).status).toBe(401);
  for (const path of ["/readyz", "/healthz"]) {
    expect(JSON.parse((await send(`${sidecar.origin}${path}`, { method: "GET" })).body)).toStrictEqual({
      status: "ready",
      state: "ready",
    });
  }
  expect(await readSeen(first)).not.toContain("x-test/refused");
});

proves("the token is never passed to the server", async () => {
  expect(await first.toolText("lines")).not.toContain(FIRST);
  expect(await sidecar.modernClient({ token: FIRST }).toolText("lines")).not.toContain(FIRST);
  expect(await first.toolText("env")).not.toContain("first-token");
});

proves("ADMIN_ADDR has the administration for itself", async () => {
  for (const path of ["/status", "/metrics"]) {
    expect((await send(`${sidecar.origin}${path}`, { method: "GET", headers: AUTHORIZED })).status).toBe(404);
    expect((await send(`${operators.origin}${path}`, { method: "GET", headers: AUTHORIZED })).status).toBe(200);
  }
  expect((await send(`${operators.origin}/mcp`, { headers: { ...JSON_HEADERS, ...AUTHORIZED }, body: "{}" })).status).toBe(404);
});

proves("clients without a session have their token's limits", async () => {
  const [client, other] = tokenClients(sidecar, {});
  const named = (name: string): ModernCall => ({ meta: { [META.clientInfo]: { name, version: "1" } } });
  const held = ["a", "b", "c"].map((name) => client.callTool("hang", {}, named(name)));
  await waitForHanging(second, 3);
  expect(failureOf(await client.callTool("echo", {}, named("d")))).toEqual([429, -32603, "SESSION_OVERLOADED"]);
  expect((await other.callTool("echo", { text: "x" }, named("a"))).status).toBe(200);
  await second.toolText("release");
  for (const { status } of await Promise.all(held)) expect(status).toBe(200);
});

proves("a process that may ask serves one client", async () => {
  const clients = tokenClients(sidecar, FORM_ELICITATION).slice(0, 2);
  const pids = (await Promise.all([...clients, ...clients].map((client) => readWhere(client)))).map(({ pid }) => pid);
  expect([pids[0] === pids[2], pids[1] === pids[3], pids[0] === pids[1]]).toEqual([true, true, false]);
  expect(pids).not.toContain((await readWhere(first)).pid);
  // The shared process cannot ask.
  const asked = JSON.parse(await first.toolText("ask", { method: "sampling/createMessage" })) as { readonly error?: object };
  expect(asked.error).toMatchObject({ code: -32601 });
});

proves("a question's state is valid once, for one token", async () => {
  const [client, other] = tokenClients(sidecar, FORM_ELICITATION);
  const reply = await client.callTool("ask_all", NAME);
  const answer = answering(reply);
  const misuses = [
    await other.callTool("ask_all", NAME, answer),
    await client.callTool("ask_all", { ...NAME, needsAll: true }, answer),
    await client.callTool("echo", NAME, answer),
    await client.callTool("ask_all", NAME, { ...answer, requestState: `${answer.requestState as string}x` }),
  ];
  expect(misuses.map(failureOf)).toEqual(misuses.map(() => UNKNOWN_STATE));
  expect(answersOf(await client.callTool("ask_all", NAME, answer))).toEqual({ name: ACCEPTED });
  expect(failureOf(await client.callTool("ask_all", NAME, answer))).toEqual(UNKNOWN_STATE);
});

proves("calls that wait for answers have limits", async () => {
  const [client, other] = tokenClients(sidecar, FORM_ELICITATION);
  const waiting = await client.callTool("ask_all", NAME);
  inputRequired(waiting);
  // A quarter of MAX_PARKED_CALLS is one.
  const refused = answersOf(await client.callTool("ask_all", NAME));
  expect(refused).toMatchObject({ name: { error: { code: -32600 } } });
  const ofOther = await other.callTool("ask_all", NAME);
  expect((await readStatus(operators, AUTHORIZED)).stateless?.asks?.parked).toMatchObject({ now: 2, refused: 1 });
  for (const [asked, reply] of [
    [client, waiting],
    [other, ofOther],
  ] as const) {
    expect(answersOf(await asked.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
  }
});

proves("tasks belong to their token", async () => {
  const task =
    '{"taskId":"task-1","status":"working","createdAt":"2025-11-25T00:00:00Z","lastUpdatedAt":"2025-11-25T00:00:00Z","ttl":60000}';
  const line = `{"jsonrpc":"2.0","id":$ID,"result":{"task":${task}}}`;
  await first.request("tools/call", { name: "raw_line", arguments: { line }, task: { ttl: 60_000 } });
  for (const method of ["tasks/get", "tasks/result", "tasks/cancel"]) {
    expect((await second.request(method, { taskId: "task-1" })).error).toMatchObject({ code: -32602 });
    expect(await readSeen(second)).not.toContain(method);
    expect((await first.request(method, { taskId: "task-1" })).result).toMatchObject({ method });
  }
});

proves("foreign and altered session ids are unknown", async () => {
  const id = first.sessionId;
  const middle = id.length / 2;
  const altered = [`${id}x`, id.slice(0, -4), `${id.slice(0, middle)}${id.charAt(middle) === "A" ? "B" : "A"}${id.slice(middle + 1)}`];
  const call = (token: string, sessionId: string, method: string): Promise<HttpReply> => {
    const headers = { ...JSON_HEADERS, Authorization: `Bearer ${token}`, "Mcp-Session-Id": sessionId };
    const body = '{"jsonrpc":"2.0","id":1,"method":"x-test/foreign"}';
    return send(sidecar.url, { method, headers, ...(method === "POST" ? { body } : {}) });
  };
  for (const method of ["POST", "GET", "DELETE"]) {
    const unknown = await call(SECOND, "unknown", method);
    expect(unknown.status).toBe(404);
    for (const [token, sessionId] of [[SECOND, id] as const, ...altered.map((each) => [FIRST, each] as const)]) {
      const { status, headers, body } = await call(token, sessionId, method);
      expect({ status, headers: { ...headers, date: "" }, body }).toEqual({ ...unknown, headers: { ...unknown.headers, date: "" } });
    }
  }
  expect(await readSeen(first)).not.toContain("x-test/foreign");
});

proves("HTTP+SSE has the same guards", async () => {
  const statuses: number[] = [];
  for (const headers of [{}, { Origin: "https://evil.com" }, { Host: "evil.com" }]) {
    const all = { Accept: "text/event-stream", ...(Object.keys(headers).length === 0 ? {} : AUTHORIZED), ...headers };
    using stream = await EventStream.open(`${sidecar.origin}/sse`, { headers: all });
    statuses.push(stream.status);
  }
  expect(statuses).toEqual([401, 403, 403]);
  using client = await LegacySseClient.connect(sidecar.origin, {}, AUTHORIZED);
  expect(await client.toolText("echo", { text: "mine" })).toBe("mine");
  for (const message of [{ jsonrpc: "2.0", id: 7, method: "ping" }, initializeRequest()]) {
    const [other, wrong] = await Promise.all(
      [SECOND, "wrong-token-0123456789"].map((token) =>
        send(client.url, { headers: { ...JSON_HEADERS, Authorization: `Bearer ${token}` }, body: JSON.stringify(message) }),
      ),
    );
    expect([other?.status, other?.body]).toEqual([401, wrong?.body]);
  }
  expect(client.messages.filter(({ id }) => id === 7)).toEqual([]);
});

proves("tokens are rotated without a restart", async () => {
  const file = directory.file("tokens");
  const next = "next-token-0123456789";
  await writeFile(file, "half-writ");
  await sidecar.waitForLog(REJECTED, ({ reason }) => reason === "line 1 has fewer than 16 characters");
  expect(await first.toolText("echo", { text: "still valid" })).toBe("still valid");
  await writeFile(file, `${FIRST}\n${next}\n`);
  await sidecar.waitForLog("auth tokens reloaded");
  const [ending, other] = [await sidecar.client({ token: FIRST, capabilities: ASKABLE }), await sidecar.client({ token: next })];
  const { pid } = await readWhere(ending);
  using stream = await ending.openStream();
  const call = ending.callTool("hang");
  await waitForHanging(ending, 1);
  await writeFile(file, `${next}\n`);
  expect((await call).error?.data?.["code"]).toBe("REQUEST_CANCELLED");
  expect(await stream.rest()).toEqual([]);
  await sidecar.waitForLog("sessions ended", ({ reason }) => reason === "their auth token is no longer valid");
  await groupEnd(pid);
  expect((await ending.callTool("echo")).status).toBe(401);
  expect(await other.toolText("echo", { text: "goes on" })).toBe("goes on");
});
