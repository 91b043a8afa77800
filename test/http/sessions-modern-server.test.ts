import { describe, expect, it } from "vitest";
import { Gate, QUICK_RESTART, crash, crashServerOf, readSeen, readWhere, crashProcess } from "../support/fixture-server.ts";
import { listTools } from "../support/discover.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { TempDir } from "../support/temp-dir.ts";
import { EVERYTHING, readAllListens, waitForOwnFilter } from "../support/listens.ts";
import { ASKABLE, McpClient } from "../support/mcp-client.ts";
import { resultText, type JsonRpcMessage } from "../support/json-rpc.ts";
import { META } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import type { StartOptions, RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";
import type { EventStream } from "../support/event-stream.ts";
import { ACCEPTED, SAMPLED } from "../support/questions.ts";

const UPDATED = "notifications/resources/updated";
const CAPABILITIES = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  logging: {},
};

/** The filter of the sidecar for sessions without subscriptions to resources. */
const LISTS = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };

/** Returns the number of subscriptions that this generation of the server was asked for. */
async function countListenRequests(client: McpClient): Promise<number> {
  return (await readSeen(client)).filter((method) => method === "subscriptions/listen").length;
}

function start(options: StartOptions = {}): Promise<RunningSidecar> {
  return HttpBench.start({ mode: "modern-only", ...options });
}

function discoverResult(members: object): string {
  return JSON.stringify({ resultType: "complete", supportedVersions: ["2026-07-28"], ttlMs: 0, cacheScope: "private", ...members });
}

describe("sessions of a server without sessions", async () => {
  const sidecar = disposeAfterAll(await start());

  it("a subscription that a crash interrupts is opened once at the next process", async () => {
    await using own = await start({ flags: QUICK_RESTART });
    const [client, control] = [await own.client(), own.modernClient()];
    const { pid } = await readWhere(control);
    await control.callTool("mute", { method: "subscriptions/listen" });
    const subscribed = client.request("resources/subscribe", { uri: "fixture://a" });
    while ((await countListenRequests(client)) < 2);
    signalServer(pid, "SIGKILL");
    expect((await subscribed).result).toEqual({});
    expect(await countListenRequests(client)).toBe(1);
  });

  it.each(["2025-11-25", "2024-11-05"])("initialize with %s is answered from the discovery", async (protocolVersion) => {
    const client = new McpClient(sidecar.url, { protocolVersion });
    const { result } = await client.initialize();
    expect(result).toStrictEqual({
      protocolVersion,
      capabilities: CAPABILITIES,
      serverInfo: expect.objectContaining({ name: expect.any(String) as string }) as object,
      instructions: "modern 1.0",
    });
  });

  it("the tasks of the new revision are not a capability of a session", async () => {
    const tasks = "io.modelcontextprotocol/tasks";
    const result = discoverResult({ capabilities: { tools: {}, tasks: {}, extensions: { [tasks]: {}, "example.com/x": {} } } });
    await using own = await start({ env: { FIXTURE_DISCOVER_RESULT: result } });
    const { result: initialized } = await new McpClient(own.url).initialize();
    expect(initialized).toMatchObject({
      capabilities: { tools: {}, extensions: { "example.com/x": {} } },
      serverInfo: { name: "unknown" },
    });
    expect(JSON.stringify(initialized)).not.toContain("tasks");
  });

  it("all clients share the process, also those that the server could ask", async () => {
    const [one, other] = [await sidecar.client(), await sidecar.client({ capabilities: ASKABLE })];
    expect((await readWhere(one)).pid).toBe((await readWhere(other)).pid);
    expect((await readStatus(sidecar)).lanes).toMatchObject({ private: { servers: 0 } });
  });

  it("a client that may be asked is served before the era of the server is known", async () => {
    await using gate = await Gate.create();
    await using own = await start({ env: { ...gate.env, FIXTURE_GATED_DISCOVERY: "1" }, untilReady: false });
    const opening = new McpClient(own.url, { capabilities: ASKABLE }).open();
    await own.waitForLog("mcp server started", ({ lane }) => lane === "private-1");
    while ((await readStatus(own)).lanes.private.servers !== 0);
    await gate.open();
    expect(await (await opening).toolText("echo", { text: "served" })).toBe("served");
    expect((await readStatus(own)).lanes).toMatchObject({ private: { servers: 0 } });
  });

  it("the envelope of the session overwrites the reserved keys of each request", async () => {
    const client = await sidecar.client();
    const [version, info, capabilities, level] = [META.protocolVersion, META.clientInfo, META.clientCapabilities, META.logLevel];
    const own = {
      [info]: { name: "forged", version: "9" },
      [capabilities]: { sampling: {} },
    };
    const trace = { "example.com/trace": 1 };
    for (const [meta, kept] of [
      [undefined, {}],
      [{}, {}],
      [trace, trace],
      [{ ...own, ...trace }, trace],
      [{ [level]: "debug" }, { [level]: "emergency" }],
    ]) {
      const reply = await client.request("tools/call", { name: "meta", arguments: {}, _meta: meta });
      expect(JSON.parse(resultText(reply))).toStrictEqual({
        ...kept,
        [version]: "2026-07-28",
        [info]: { name: "raw", version: "1" },
        [capabilities]: {},
      });
    }
    expect((await client.post('{"jsonrpc":"2.0","id":1,"method":"tools/list"}')).body).toContain('"result":{"tools":[');
    await client.request("logging/setLevel", { level: "error" });
    const { result } = await client.callTool("meta");
    expect(JSON.stringify(result)).toContain(String.raw`\"${level}\":\"error\"`);
  });

  it("a reserved key that is repeated is refused", async () => {
    const key = JSON.stringify(META.clientCapabilities);
    const text = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{${key}:{"sampling":{}},${key}:{}}}}`;
    expect((await (await sidecar.client()).post(text)).body).toContain("-32602");
  });

  it("structured content becomes an object, and its schema is left out", async () => {
    const outputSchema = { type: "array", items: {} };
    const object = { type: "object", properties: { n: { type: "number" } } };
    const tools = [
      { name: "list", inputSchema: { type: "object" }, outputSchema },
      { name: "object", inputSchema: { type: "object" }, outputSchema: object },
    ];
    await using directory = await TempDir.create();
    await using own = await start({ env: await listTools(directory, tools) });
    const client = await own.client();
    const { result: listed } = await client.request("tools/list");
    expect(listed).toStrictEqual({ tools: [{ name: "list", inputSchema: { type: "object" } }, tools[1]] });
    for (const [structuredContent, expected] of [
      [[1, 2], { result: [1, 2] }],
      [null, { result: null }],
      [{ n: 1 }, { n: 1 }],
    ]) {
      const { result } = await client.callTool("result_type", { resultType: "complete", result: { structuredContent } });
      expect(result).toStrictEqual({ content: [{ type: "text", text: "typed" }], structuredContent: expected });
    }
  });

  it.each(["task", "other"])("a result of the type %s is an error that says that the call was sent", async (resultType) => {
    const { status, error } = await (await sidecar.client()).callTool("result_type", { resultType });
    expect([status, error?.data]).toMatchObject([200, { code: "UNKNOWN_RESULT_TYPE", sent: true }]);
  });

  it("ping, log levels and notifications are handled here", async () => {
    const client = await sidecar.client();
    expect(await client.request("ping")).toMatchObject({ result: {} });
    expect(await client.request("logging/setLevel", { level: "info" })).toMatchObject({ result: {} });
    expect(await client.request("logging/setLevel", { level: "loud" })).toMatchObject({ error: { code: -32602 } });
    expect(await client.notify("notifications/roots/list_changed")).toMatchObject({ status: 202 });
    for (const method of ["tasks/list", "tasks/get", "server/discover", "subscriptions/listen"]) {
      expect(await client.request(method)).toMatchObject({ error: { code: -32601 } });
    }
  });
});

describe("subscriptions of sessions at a server without sessions", () => {
  it("one subscription serves all sessions, and is widened by each resource", async () => {
    await using sidecar = await start();
    const [one, other] = [await sidecar.client(), await sidecar.client()];
    const [ofOne, ofOther] = [await one.openStream(), await other.openStream()];
    await one.request("resources/subscribe", { uri: "fixture://a" });
    await other.request("resources/subscribe", { uri: "fixture://b" });
    await waitForOwnFilter(one, { ...EVERYTHING, resourceSubscriptions: ["fixture://a", "fixture://b"] });
    for (const uri of ["fixture://b", "fixture://a"]) await one.callTool("touch", { uri });
    expect(await ofOne.next()).toStrictEqual({ jsonrpc: "2.0", method: UPDATED, params: { uri: "fixture://a" } });
    expect(await ofOther.next()).toStrictEqual({ jsonrpc: "2.0", method: UPDATED, params: { uri: "fixture://b" } });
    await one.callTool("change_list", { list: "prompts" });
    for (const stream of [ofOne, ofOther]) expect(await stream.next()).toMatchObject({ method: "notifications/prompts/list_changed" });
    await one.request("resources/unsubscribe", { uri: "fixture://a" });
    await other.end();
    await waitForOwnFilter(one, LISTS);
    await one.end();
    await waitForOwnFilter(sidecar.modernClient(), { toolsListChanged: true });
  });

  it("an update is not lost while the subscription is widened", async () => {
    await using gate = await Gate.create();
    await using sidecar = await start({ env: gate.env });
    const client = await sidecar.client();
    const stream = await client.openStream();
    await client.request("resources/subscribe", { uri: "fixture://a" });
    const before = await countListenRequests(client);
    const widening = client.request("resources/subscribe", { uri: "held://b" });
    while ((await countListenRequests(client)) === before);
    await client.toolText("touch", { uri: "fixture://a" });
    expect(await stream.next()).toMatchObject({ params: { uri: "fixture://a" } });
    await gate.open();
    expect(await widening).toMatchObject({ result: {} });
    await client.toolText("touch", { uri: "held://b" });
    expect(await stream.next()).toMatchObject({ params: { uri: "held://b" } });
  });

  it("a subscription that waits while the server crashes is confirmed by the next generation", async () => {
    await using gate = await Gate.create();
    await using sidecar = await start({ env: gate.env, flags: QUICK_RESTART });
    const client = await sidecar.client();
    await waitForOwnFilter(client, LISTS);
    const before = await countListenRequests(client);
    const subscribing = client.request("resources/subscribe", { uri: "held://a" });
    while ((await countListenRequests(client)) === before);
    await crashServerOf(sidecar, client);
    await gate.open();
    expect(await subscribing).toMatchObject({ result: {} });
  });

  it("a server that exits at the subscription of a known resource is not asked twice by one generation", async () => {
    await using gate = await Gate.create();
    await using sidecar = await start({ env: gate.env, flags: QUICK_RESTART });
    const client = await sidecar.client();
    await client.request("resources/subscribe", { uri: "fatal://a" });
    await gate.open();
    await crash(sidecar);
    await sidecar.waitForLog("mcp server exited", ({ exitCode }) => exitCode === 5);
    await gate.close();
    await waitForOwnFilter(client, { ...EVERYTHING, resourceSubscriptions: ["fatal://a"] });
    expect(await countListenRequests(client)).toBe(1);
    expect((await readStatus(sidecar)).counters).toMatchObject({ defects: 0 });
  });

  it("a server that never acknowledges one resource gets the next one", async () => {
    await using gate = await Gate.create();
    await using sidecar = await start({ env: gate.env, flags: ["--request-timeout-ms", "2000"] });
    const [one, other] = [await sidecar.client(), await sidecar.client()];
    // The time of the call and that of the subscription end together.
    const { error } = await one.request("resources/subscribe", { uri: "held://a" });
    expect(["REQUEST_TIMEOUT", "INVALID_PARAMS"]).toContain(error?.data?.["code"]);
    while ((await other.request("resources/subscribe", { uri: "fixture://a" })).error !== undefined);
    await waitForOwnFilter(one, EVERYTHING);
  });

  it("resources of all sessions together may be longer than the filter of one client", async () => {
    await using sidecar = await start();
    const uris = Array.from({ length: 40 }, (_, index) => `fixture://${index}/${"u".repeat(8000)}`);
    const [one, other] = [await sidecar.client(), await sidecar.client()];
    for (const uri of uris) expect(await one.request("resources/subscribe", { uri })).toMatchObject({ result: {} });
    expect(await other.request("resources/subscribe", { uri: "fixture://a" })).toMatchObject({ result: {} });
  });

  it.each(["refused://a", "declined://a"])("a resource %s is an error for its client only", async (uri) => {
    await using sidecar = await start();
    const [one, other] = [await sidecar.client(), await sidecar.client()];
    const stream = await other.openStream();
    const subscribing = Promise.all(
      ["fixture://1", "fixture://a", "fixture://2"].map((good) => other.request("resources/subscribe", { uri: good })),
    );
    const { error } = await one.request("resources/subscribe", { uri });
    expect(error?.data).toMatchObject({ code: "INVALID_PARAMS" });
    for (const reply of await subscribing) expect(reply).toMatchObject({ result: {} });
    await one.callTool("touch", { uri: "fixture://a" });
    expect(await stream.next()).toMatchObject({ method: UPDATED, params: { uri: "fixture://a" } });
    await one.callTool("change_list", { list: "tools" });
    expect(await stream.next()).toMatchObject({ method: "notifications/tools/list_changed" });
  });

  it.each(["end_listens", "cancel_listens"])("a subscription that ends by %s is opened again, and lists are announced", async (end) => {
    await using sidecar = await start();
    const client = await sidecar.client();
    const stream = await client.openStream();
    await client.request("resources/subscribe", { uri: "fixture://a" });
    expect(await client.toolText(end)).toBe("1");
    for (const list of ["tools", "prompts", "resources"]) {
      expect(await stream.next()).toMatchObject({ method: `notifications/${list}/list_changed` });
    }
    await waitForOwnFilter(client, EVERYTHING);
  });

  it("a server that offers no subscriptions refuses them, and gets none", async () => {
    await using sidecar = await start({ env: { FIXTURE_DISCOVER_RESULT: discoverResult({ capabilities: { tools: {}, resources: {} } }) } });
    const client = await sidecar.client();
    expect(await client.request("resources/subscribe", { uri: "fixture://a" })).toMatchObject({ error: { code: -32601 } });
    expect(await client.request("logging/setLevel", { level: "info" })).toMatchObject({ error: { code: -32601 } });
    expect(await readAllListens(client)).toEqual([]);
  });
});

describe("questions of a server without sessions to a session", async () => {
  const FORM = { method: "elicitation/create", params: { message: "Your name?", requestedSchema: { type: "object", properties: {} } } };
  const URL = { method: "elicitation/create", params: { mode: "url", message: "Sign in", url: "https://example.com/sign-in" } };
  const SAMPLE = { method: "sampling/createMessage", params: { messages: [], maxTokens: 1 } };
  const ROOTS = { method: "roots/list" };

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
});
