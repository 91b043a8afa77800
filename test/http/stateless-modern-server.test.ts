import { beforeAll, describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { readSeen, waitForHanging, waitForSeen, Gate, crashProcess, readWhere } from "../support/fixture-server.ts";
import { type JsonRpcMessage, progressTokenOf, readResponse, resultText } from "../support/json-rpc.ts";
import { META, type ModernCall, type ModernClient, type ModernReply } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { INVALID_PARAMS, failureOf } from "../support/error-reply.ts";
import { send } from "../support/http-client.ts";
import { FORM_ELICITATION, UNKNOWN_STATE } from "../support/questions.ts";
import { tokenClients } from "../support/token-clients.ts";

let sidecar: RunningSidecar;
let client: ModernClient;
beforeAll(async () => {
  sidecar = disposeAfterAll(await HttpBench.start({ mode: "modern-only" }));
  client = sidecar.modernClient();
});

/** Makes the server log, though its call may not want that. */
function log(level: string, call?: ModernCall): ReturnType<ModernClient["callTool"]> {
  const message = JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params: { level, data: level } });
  return client.callTool(
    "raw_line",
    { line: `${message}\n{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[]}}` },
    call,
  );
}

function levels(messages: readonly JsonRpcMessage[]): unknown[] {
  return messages.map(({ method, params }) => [method, params?.["level"]]);
}

describe("a request to a server without sessions", () => {
  it.each([["7"], ['"seven"'], ['"\\u0073\\"even"']])(
    "the request with the id %s is sent unchanged except for id and token",
    async (idText) => {
      const composed = client.compose(
        "tools/call",
        { name: "received", arguments: { text: "é\u2028", list: [] } },
        { id: "$ID", meta: { progressToken: "$TOKEN", traceparent: "00-1-2-03", "example.com/x": { y: null }, [META.logLevel]: "error" } },
      );
      const sent = composed.body
        .replace('"list":[]', '"list" : [1.50, 1e3,\t-0 ]')
        .replace('"$ID"', idText)
        .replace('"$TOKEN"', idText)
        .replace("é", "\\u00e9");
      const response = readResponse(await client.post(sent, { headers: composed.headers }));
      expect(response.id).toBe(JSON.parse(idText));
      const received = resultText(response);
      const wire = JSON.parse(received) as JsonRpcMessage;
      expect(wire.id).not.toBe(JSON.parse(idText));
      const restored = received
        .replace(`"id":${wire.id}`, `"id":${idText}`)
        .replace(`"progressToken":${JSON.stringify(progressTokenOf(wire))}`, `"progressToken":${idText}`);
      // Some servers would take a line separator for the end of the message.
      expect(restored).toBe(sent.replace("\u2028", "\\u2028"));
    },
  );

  it("results keep the hints, the type and the name of the server", async () => {
    const [listed, read] = [await client.request("tools/list"), await client.request("resources/read", { uri: "fixture://text" })];
    const serverInfo = { [META.serverInfo]: { name: "fixture", version: "1.0.0" } };
    expect(listed.result).toMatchObject({ resultType: "complete", ttlMs: 60_000, cacheScope: "public", _meta: serverInfo });
    expect(read.result).toMatchObject({ resultType: "complete", ttlMs: 1000, cacheScope: "private", _meta: serverInfo });
  });

  it("the discovery is answered from the handshake", async () => {
    for (let count = 0; count < 3; count++) expect((await client.request("server/discover")).result).toMatchObject({ ttlMs: 60_000 });
    expect((await readSeen(client)).filter((method) => method === "server/discover")).toHaveLength(1);
  });

  it("the server's question is refused, and the client never sees it", async () => {
    const asked = await client.callTool("ask", { id: "q", method: "sampling/createMessage" });
    expect(asked.notifications).toEqual([]);
    expect(JSON.parse(resultText(asked))).toMatchObject({ id: "q", error: { code: -32601 } });
  });
});

describe("an error of a server without sessions", () => {
  it("an error after the first message comes in the stream, with status 200", async () => {
    const message = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}';
    const line = `${message}\n{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}`;
    const reply = await client.callTool("raw_line", { line }, { meta: { [META.logLevel]: "debug" } });
    expect({ status: reply.status, error: reply.error, count: reply.notifications.length }).toMatchObject({
      status: 200,
      error: { code: -32601 },
      count: 1,
    });
  });
});

describe("the type of a result", () => {
  it.each(["complete", "input_required", "task"])("a result of the type %s passes", async (resultType) => {
    const { result } = await client.callTool("result_type", { resultType, result: { extra: [1] } });
    expect(result).toMatchObject({ resultType, extra: [1] });
  });

  it.each(["later", "", "Complete", 1, null, {}])("a result of the unknown type %j fails for the client", async (resultType) => {
    const { status, error, result } = await client.callTool("result_type", { resultType });
    expect(result).toBeUndefined();
    expect({ status, error }).toMatchObject({
      status: 200,
      error: { code: -32603, data: { code: "UNKNOWN_RESULT_TYPE", sent: true, retrySafe: false } },
    });
  });

  it("a member of the same name elsewhere is not the type", async () => {
    const { result } = await client.callTool("result_type", { resultType: "complete", result: { structuredContent: { resultType: "x" } } });
    expect(result).toMatchObject({ structuredContent: { resultType: "x" } });
  });
});

describe("log messages of a server without sessions", () => {
  const DEBUG = { meta: { [META.logLevel]: "debug" } };

  it("the only call with a level gets messages from that level on", async () => {
    expect(levels((await log("warning", { meta: { [META.logLevel]: "error" } })).notifications)).toEqual([]);
    expect(levels((await log("error", { meta: { [META.logLevel]: "error" } })).notifications)).toEqual([
      ["notifications/message", "error"],
    ]);
    expect(levels((await log("emergency")).notifications)).toEqual([]);
  });

  it("a call without a level does not take messages from the one with a level", async () => {
    const held = client.callTool("hang", {}, { meta: { [META.logLevel]: "warning" } });
    await waitForHanging(client, 1);
    for (const level of ["info", "warning"]) expect(levels((await log(level)).notifications)).toEqual([]);
    await client.callTool("release");
    expect(levels((await held).notifications)).toEqual([["notifications/message", "warning"]]);
  });

  it("messages are dropped while two calls have a level", async () => {
    const held = client.callTool("hang", {}, DEBUG);
    await waitForHanging(client, 1);
    expect(levels((await log("error", DEBUG)).notifications)).toEqual([]);
    await client.callTool("release");
    expect(levels((await held).notifications)).toEqual([]);
    expect(levels((await log("error", DEBUG)).notifications)).toEqual([["notifications/message", "error"]]);
  });

  it("a call whose client has left no longer counts", async () => {
    const leaving = new AbortController();
    const held = client.callTool("hang", {}, { ...DEBUG, signal: leaving.signal });
    const [wireId] = await waitForHanging(client, 1);
    leaving.abort();
    await expect(held).rejects.toThrow("aborted");
    await waitForSeen(client, `notifications/cancelled ${wireId}`);
    expect(levels((await log("error", DEBUG)).notifications)).toEqual([["notifications/message", "error"]]);
    await client.callTool("release");
  });
});

const ANSWERS = { name: { action: "accept", content: { name: "Ann" } } };
/** The end of each state of the fixture: characters that an inexact copy would change. */
const STATE = /^[0-9a-f-]{36} \\"é\/\+=\u2028$/;

interface Round {
  readonly requestState: string;
  readonly inputRequests: unknown;
}

function roundOf({ result }: ModernReply): Round {
  expect(result).toMatchObject({ resultType: "input_required" });
  return result as unknown as Round;
}

const REQUESTS = [
  { method: "tools/call", params: { name: "ask_input", arguments: {} } },
  { method: "prompts/get", params: { name: "ask_input" } },
  { method: "resources/read", params: { uri: "fixture://ask_input" } },
] as const;

let first: ModernClient;
let other: ModernClient;
beforeAll(async () => {
  const sealing = disposeAfterAll(await HttpBench.start({ mode: "modern-only", hasTokens: true }));
  [first, other] = tokenClients(sealing, FORM_ELICITATION);
});

describe("the state of a request in rounds", () => {
  it.each(REQUESTS)("questions, answers and state of $method pass unchanged for a single principal", async ({ method, params }) => {
    const alone = sidecar.modernClient({ capabilities: { elicitation: {} } });
    const { requestState, inputRequests } = roundOf(await alone.request(method, params));
    expect(requestState).toMatch(STATE);
    expect(inputRequests).toMatchObject({ name: { method: "elicitation/create", params: { mode: "form", message: "Your name?" } } });
    const { result } = await alone.request(method, params, { inputResponses: ANSWERS, requestState });
    expect(JSON.stringify(result)).toContain(JSON.stringify(JSON.stringify({ inputResponses: ANSWERS, requestState })).slice(1, -1));
  });

  it.each(REQUESTS)("the state of $method is sealed with several principals, and opened for the server", async ({ method, params }) => {
    const { requestState } = roundOf(await first.request(method, params));
    expect(requestState).toMatch(/^[\w-]{50,}$/);
    const { result } = await first.request(method, params, { inputResponses: ANSWERS, requestState });
    const said = JSON.stringify(result);
    expect(said).toContain("Ann");
    expect(said).not.toContain(requestState);
  });

  it("a sealed state has another text in each round, and each round gets the server's own state", async () => {
    const args = { rounds: 3 };
    let reply = await first.callTool("ask_input", args);
    const states = new Set<string>();
    while (reply.result?.["resultType"] === "input_required") {
      const { requestState } = roundOf(reply);
      states.add(requestState);
      reply = await first.callTool("ask_input", args, { inputResponses: ANSWERS, requestState });
    }
    expect(states.size).toBe(3);
    const received = JSON.parse(resultText(reply)) as { readonly requestState: string };
    expect(received.requestState).toMatch(STATE);
  });

  it.each(["\ud800", "\udc00\ud800x", "\ufffd", "\u0000"])(
    "a state that ends with %j comes back as the server has sent it",
    async (stateEnd) => {
      const { requestState } = roundOf(await first.callTool("ask_input", { stateEnd }));
      const reply = await first.callTool("ask_input", { stateEnd }, { inputResponses: ANSWERS, requestState });
      const received = JSON.parse(resultText(reply)) as { readonly requestState: string };
      expect(received.requestState.endsWith(`\u2028${stateEnd}`)).toBe(true);
    },
  );

  it("the state of a resource is valid only for its URI", async () => {
    const [{ method, params }, uri] = [REQUESTS[2], "fixture://other"];
    const { requestState } = roundOf(await first.request(method, params));
    const retry = { inputResponses: ANSWERS, requestState };
    expect(failureOf(await first.request(method, { uri }, retry))).toEqual(UNKNOWN_STATE);
    expect((await first.request(method, params, retry)).result).toMatchObject({ resultType: "complete" });
  });

  it("a call without a state passes beside sealed ones", async () => {
    const args = { hasState: false };
    const { requestState } = roundOf(await first.callTool("ask_input", args));
    expect(requestState).toBeUndefined();
    expect(await first.toolText("ask_input", args, { inputResponses: ANSWERS })).toBe(JSON.stringify({ inputResponses: ANSWERS }));
  });
});

const FORM = { method: "elicitation/create", params: { message: "?", requestedSchema: { type: "object", properties: {} } } };
const LINK = { method: "elicitation/create", params: { mode: "url", message: "?", url: "https://example.com/" } };

describe("a question of a server without sessions for a client without one", () => {
  it.each([
    ["a form", FORM, { elicitation: { url: {} } }, { elicitation: { form: {} } }],
    ["an elicitation by URL", LINK, { elicitation: {} }, { elicitation: { url: {} } }],
    ["a sampling", { method: "sampling/createMessage", params: {} }, {}, { sampling: {} }],
    ["a sampling with tools", { method: "sampling/createMessage", params: { tools: [] } }, { sampling: {} }, { sampling: { tools: {} } }],
    ["a question for roots", { method: "roots/list" }, {}, { roots: {} }],
  ])("%s fails the call of a client that has not declared it", async (_name, question, capabilities, requiredCapabilities) => {
    const args = { inputRequests: { declared: FORM, other: question } };
    const reply = await sidecar.modernClient({ capabilities: { ...capabilities } }).callTool("ask_input", args);
    expect(failureOf(reply)).toEqual([400, -32021, "MISSING_CAPABILITY"]);
    expect(reply.error?.data).toMatchObject({ sent: true, requiredCapabilities });
    expect(reply.texts.join("")).not.toContain("example.com");
    const able = sidecar.modernClient({ capabilities: { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} } });
    expect(roundOf(await able.callTool("ask_input", args)).inputRequests).toEqual(args.inputRequests);
  });

  it("a question that two parsers read differently fails the call", async () => {
    const questions = '"q":{"method":"roots/list","method":"elicitation/create"}';
    const line = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","inputRequests":{${questions}}}}`;
    const reply = await sidecar.modernClient({ capabilities: { roots: {} } }).callTool("raw_line", { line });
    expect(failureOf(reply)).toEqual([200, -32603, "QUESTION_FAILED"]);
  });
});

describe("a task of a server without sessions", () => {
  async function createTask(owner: ModernClient, result: object): Promise<void> {
    const reply = await owner.callTool("result_type", { resultType: "task", result });
    expect(reply.result).toMatchObject({ resultType: "task", ...result });
  }

  it.each([{ taskId: "task-1" }, { task: { taskId: "task-1" } }])("another principal cannot use a task: %j", async (created) => {
    await createTask(first, created);
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      const params = { taskId: "task-1" };
      expect((await first.request(method, params)).error).toBeUndefined();
      expect((await other.request(method, params)).error).toMatchObject({ code: -32602, data: { code: "INVALID_PARAMS", sent: false } });
      expect((await other.request(method, { taskId: "unknown to the sidecar" })).error).toBeUndefined();
    }
    const filter = { notifications: { taskIds: ["mine", "task-1"] } };
    expect((await other.request("subscriptions/listen", filter)).error).toMatchObject({ code: -32602 });
  });

  it("a task is not bound without several principals", async () => {
    await createTask(sidecar.modernClient(), { taskId: "task-1" });
    expect((await sidecar.modernClient().request("tasks/get", { taskId: "task-1" })).error).toBeUndefined();
  });

  it.each([
    ["tasks/get", '"taskId":"own","taskId":"foreign"'],
    ["tasks/cancel", '"TASKID":"foreign","taskId":"own"'],
    ["subscriptions/listen", '"notifications":{"taskIds":["own"],"TaskIds":["foreign"]}'],
    ["subscriptions/listen", '"notifications":{"taskIds":["own"]},"notifications":{"taskIds":["foreign"]}'],
  ])("%s with an ambiguous task is rejected: %s", async (method, members) => {
    const { headers, body } = sidecar.modernClient().compose(method, { taskId: "own" });
    const reply = await send(sidecar.url, { headers, body: body.replace('"taskId":"own"', members) });
    expect([failureOf(reply), reply.body]).toEqual([INVALID_PARAMS, expect.stringContaining("ambiguous")]);
  });

  it("a subscription to a task ends if the restarted server does not accept it", async () => {
    await using gate = await Gate.create();
    const result = (capabilities: object): string =>
      JSON.stringify({ resultType: "complete", supportedVersions: ["2026-07-28"], capabilities, ttlMs: 0, cacheScope: "private" });
    const tools = { listChanged: true };
    const env = {
      ...gate.env,
      FIXTURE_DISCOVER_RESULT: result({ tools, extensions: { "io.modelcontextprotocol/tasks": {} } }),
      FIXTURE_NEXT_DISCOVER_RESULT: result({ tools }),
    };
    await using changing = await HttpBench.start({ mode: "modern-only", env, flags: ["--restart-backoff-ms", "1"] });
    const listening = changing.modernClient();
    await using listen = await listening.listen({ toolsListChanged: true, taskIds: ["t"] }, { id: 1 });
    expect(listen.accepted).toEqual({ toolsListChanged: true, taskIds: ["t"] });
    await gate.open();
    await crashProcess(changing, (await readWhere(listening)).pid);
    expect(await listen.rest()).toMatchObject([{ id: 1, result: { resultType: "complete" } }]);
  });
});
