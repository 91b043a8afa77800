import { expect, it } from "vitest";
import { crashProcess, readWhere } from "../support/fixture-server.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import type { EventStream } from "../support/event-stream.ts";
import { type JsonRpcMessage, resultText } from "../support/json-rpc.ts";
import { ASKABLE } from "../support/mcp-client.ts";
import { ACCEPTED, SAMPLED } from "../support/questions.ts";
import { META } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import type { StartOptions, RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

const FORM = { method: "elicitation/create", params: { message: "Your name?", requestedSchema: { type: "object", properties: {} } } };
const URL = { method: "elicitation/create", params: { mode: "url", message: "Sign in", url: "https://example.com/sign-in" } };
const SAMPLE = { method: "sampling/createMessage", params: { messages: [], maxTokens: 1 } };
const ROOTS = { method: "roots/list" };

function start(options: StartOptions = {}): Promise<RunningSidecar> {
  return HttpBench.start({ mode: "modern-only", ...options });
}

function asking(inputRequests: object, other: object = {}): object {
  return { inputRequests, ...other };
}

async function received(stream: EventStream): Promise<unknown> {
  return (JSON.parse(resultText(await stream.next())) as { readonly inputResponses?: unknown }).inputResponses;
}

function errorOf({ error }: JsonRpcMessage): unknown {
  return [error?.code, error?.data?.["code"], error?.data?.["sent"]];
}

const sidecar = disposeAfterAll(await start());

it("a question is an ordinary request on the stream of its call, and the answer reaches the server", async () => {
  const client = await sidecar.client({ capabilities: ASKABLE });
  const other = await sidecar.client({ capabilities: ASKABLE });
  const stream = await client.begin("ask_input", asking({ name: FORM }), "call");
  const question = await stream.next();
  expect(question).toStrictEqual({ jsonrpc: "2.0", id: expect.any(Number) as number, ...FORM });
  expect(await other.answer(question, { action: "decline" })).toMatchObject({ status: 202 });
  expect((await readStatus(sidecar)).lanes.shared).toMatchObject({ requestsInFlight: 0, suspended: 1 });
  expect(await client.answer(question, ACCEPTED)).toMatchObject({ status: 202 });
  const response = await stream.next();
  expect(response.id).toBe("call");
  expect(JSON.parse(resultText(response))).toMatchObject({ inputResponses: { name: ACCEPTED } });
  expect(response.result).not.toHaveProperty("resultType");
  expect(await stream.rest()).toEqual([]);
});

it("questions of one result are asked together, and rounds follow each other with the state of the server", async () => {
  const client = await sidecar.client({ capabilities: ASKABLE });
  const questions = { form: FORM, 'quoted " \u2028 key': SAMPLE, roots: ROOTS };
  const stream = await client.begin("ask_input", asking(questions, { rounds: 8 }));
  const answers = { form: ACCEPTED, 'quoted " \u2028 key': SAMPLED, roots: { roots: [] } };
  for (let round = 0; round < 8; round++) {
    const asked = [await stream.next(), await stream.next(), await stream.next()];
    expect(asked.map(({ method }) => method)).toEqual([FORM.method, SAMPLE.method, ROOTS.method]);
    for (const [index, answer] of Object.values(answers).entries()) await client.answer({ jsonrpc: "2.0", ...asked[index] }, answer);
  }
  expect(await received(stream)).toStrictEqual(answers);
});

it("the server is told what the client can answer, without its roots and tasks", async () => {
  const capabilities = { ...ASKABLE, tasks: { list: {} }, experimental: { x: {} } };
  const client = await sidecar.client({ capabilities });
  const meta = JSON.parse(await client.toolText("meta")) as Record<string, unknown>;
  expect(meta[META.clientCapabilities]).toStrictEqual({ sampling: {}, elicitation: { form: {}, url: {} }, roots: {} });
});

it("an elicitation by URL has an id", async () => {
  const client = await sidecar.client({ capabilities: ASKABLE });
  const stream = await client.begin("ask_input", asking({ link: URL }));
  const question = await stream.next();
  const elicitationId = expect.stringMatching(/^[\w-]{36}$/) as string;
  expect(question.params).toStrictEqual({ ...URL.params, elicitationId });
  await client.answer(question, { action: "accept" });
  expect(await received(stream)).toEqual({ link: { action: "accept" } });
});

it("a result without questions repeats the request", async () => {
  const client = await sidecar.client();
  const { result } = await client.callTool("ask_input", asking({}, { inputRequests: null, rounds: 3 }));
  expect(JSON.stringify(result)).toContain("requestState");
});

it("a call, a prompt or a resource gets the answers, with or without _meta", async () => {
  const client = await sidecar.client({ capabilities: ASKABLE });
  for (const [method, params] of [
    ["prompts/get", { name: "ask_input" }],
    ["resources/read", { uri: "fixture://ask_input" }],
    ...[undefined, {}, { progressToken: "p" }].map((meta) => [
      "tools/call",
      { name: "ask_input", arguments: asking({ name: FORM }), _meta: meta },
    ]),
  ]) {
    const stream = await client.postForStream({ jsonrpc: "2.0", id: 1, method, params });
    await client.answer(await stream.next(), ACCEPTED);
    expect(JSON.stringify((await stream.next()).result)).toContain("Ann");
  }
});

it.each(["inputResponses", "requestState", "InputResponses", "RequestState"])("a client cannot send %s", async (member) => {
  const client = await sidecar.client({ capabilities: ASKABLE });
  const params = { name: "ask_input", arguments: asking({ name: FORM }), [member]: member.endsWith("State") ? "s" : { name: ACCEPTED } };
  expect(await client.request("tools/call", params)).toMatchObject({ error: { code: -32_602 } });
});

it.each([
  ["a form", FORM, { sampling: {} }, { elicitation: { form: {} } }],
  ["an elicitation by URL", URL, { elicitation: {} }, { elicitation: { url: {} } }],
  ["a sampling", SAMPLE, {}, { sampling: {} }],
  ["a question for roots", ROOTS, { sampling: {} }, { roots: {} }],
])("%s that the client has not declared fails the call within HTTP 200", async (_name, question, capabilities, requiredCapabilities) => {
  const client = await sidecar.client({ capabilities });
  const reply = await client.callTool("ask_input", asking({ name: question }));
  expect([reply.status, ...(errorOf(reply) as unknown[])]).toEqual([200, -32_021, "MISSING_CAPABILITY", true]);
  expect(reply.error?.data).toMatchObject({ requiredCapabilities });
});

it.each([
  ["sampling/createMessage", SAMPLE],
  ["roots/list", ROOTS],
])("an error of the client for %s fails the call, and cancels its other questions", async (method, question) => {
  const client = await sidecar.client({ capabilities: ASKABLE });
  const stream = await client.begin("ask_input", asking({ failing: question, open: FORM }));
  const [failing, open] = [await stream.next(), await stream.next()];
  await client.post({ jsonrpc: "2.0", id: failing.id, error: { code: -1, message: "no model" } });
  expect(await stream.next()).toMatchObject({ method: "notifications/cancelled", params: { requestId: open.id } });
  const { error } = await stream.next();
  expect(error).toMatchObject({ code: -32_603, data: { code: "QUESTION_FAILED", sent: true, retrySafe: false } });
  expect(error?.message).toContain(`The client answered ${method} of the MCP server with an error: no model.`);
  expect(await client.answer(open, ACCEPTED)).toMatchObject({ status: 202 });
});

it.each([
  ["more than 8 rounds", { name: FORM }, 9],
  ["an unknown method", { name: { method: "tools/list" } }, 1],
  ["params that are not an object", { name: { ...FORM, params: [] } }, 1],
  ["a question that is not an object", { name: 1 }, 1],
  ["too many questions", Object.fromEntries(Array.from({ length: 65 }, (_, index) => [index, FORM])), 1],
])("a call fails after %s", async (_name, inputRequests, rounds) => {
  const client = await sidecar.client({ capabilities: ASKABLE });
  const stream = await client.begin("ask_input", asking(inputRequests, { rounds }));
  for (let round = 1; round < rounds; round++) await client.answer(await stream.next(), ACCEPTED);
  expect(errorOf(await stream.answer())).toEqual([-32_603, "QUESTION_FAILED", true]);
  expect((await readStatus(sidecar)).lanes.shared).toMatchObject({ suspended: 0 });
});

it("a server that does not answer the next request times out", async () => {
  await using own = await start({ flags: ["--tool-timeouts-ms", "ask_input=2000"] });
  const client = await own.client({ capabilities: ASKABLE });
  const { pid } = await readWhere(client);
  const stream = await client.begin("ask_input", asking({ name: FORM }));
  const question = await stream.next();
  signalServer(pid, "SIGSTOP");
  await client.answer(question, ACCEPTED);
  const response = await stream.answer();
  expect(errorOf(response)).toEqual([-32_001, "REQUEST_TIMEOUT", true]);
  expect(response.error?.data).toMatchObject({ timeoutMs: 2000 });
});

it("a call waits for its answer on another connection, and across a restart of the server", async () => {
  await using own = await start({ flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "20"] });
  const client = await own.client({ capabilities: ASKABLE });
  const stream = await client.begin("ask_input", asking({ name: FORM }, { hasState: false }), "call");
  const question = await stream.next();
  const { lastEventId } = stream;
  stream.close();
  const { pid } = await readWhere(client);
  await crashProcess(own, pid);
  await client.answer(question, ACCEPTED);
  const resumed = await client.openStream({ lastEventId });
  expect(await received(resumed)).toEqual({ name: ACCEPTED });
});

it("a call that waits for its client takes no slot, and counts as one request", async () => {
  await using own = await start({ flags: ["--max-in-flight", "1"] });
  const client = await own.client({ capabilities: ASKABLE });
  const before = (await readStatus(own)).counters;
  const stream = await client.begin("ask_input", asking({ name: FORM }));
  const question = await stream.next();
  expect(await client.toolText("echo", { text: "free" })).toBe("free");
  await client.answer(question, ACCEPTED);
  await received(stream);
  const { answers } = (await readStatus(own)).counters;
  expect(answers.results - before.answers.results).toBe(2);
});

it("the end of a session ends its questions, and a stop waits for their answers", async () => {
  await using own = await start();
  const [ending, staying] = [await own.client({ capabilities: ASKABLE }), await own.client({ capabilities: ASKABLE })];
  const ended = await ending.begin("ask_input", asking({ name: FORM }));
  await ended.next();
  await ending.end();
  expect(errorOf(await ended.answer())).toEqual([-32_000, "REQUEST_CANCELLED", true]);
  const stream = await staying.begin("ask_input", asking({ name: FORM }));
  const question = await stream.next();
  const stopped = own.stop();
  await own.waitForLog("stopping");
  await staying.answer(question, ACCEPTED);
  expect(await received(stream)).toEqual({ name: ACCEPTED });
  expect(await stopped).toBe(0);
});

it("all memory of a question is free after its end", async () => {
  const client = await sidecar.client({ capabilities: ASKABLE });
  const stream = await client.begin("ask_input", asking({ name: FORM, other: SAMPLE }));
  const [form] = [await stream.next(), await stream.next()];
  expect((await readStatus(sidecar)).memory["requests"]).toBeGreaterThan(0);
  await client.answer(form, ACCEPTED);
  await client.notify("notifications/cancelled", { requestId: 2 });
  expect(await stream.rest()).toMatchObject([{ method: "notifications/cancelled" }]);
  while ((await readStatus(sidecar)).memory["requests"] !== 0);
});
