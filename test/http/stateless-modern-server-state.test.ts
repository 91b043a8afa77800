import { beforeAll, describe, expect, it } from "vitest";
import { Gate, crashProcess, readWhere } from "../support/fixture-server.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { TempDir } from "../support/temp-dir.ts";
import { INVALID_PARAMS, failureOf } from "../support/error-reply.ts";
import { send } from "../support/http-client.ts";
import { resultText } from "../support/json-rpc.ts";
import type { ModernClient, ModernReply } from "../support/modern-client.ts";
import { FORM_ELICITATION, UNKNOWN_STATE } from "../support/questions.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { flagsForTokens, tokenClients } from "../support/token-clients.ts";

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

let single: RunningSidecar;
let client: ModernClient;
let other: ModernClient;
beforeAll(async () => {
  single = disposeAfterAll(await HttpBench.start({ mode: "modern-only" }));
  const directory = disposeAfterAll(await TempDir.create());
  const sealing = disposeAfterAll(await HttpBench.start({ mode: "modern-only", flags: await flagsForTokens(directory) }));
  [client, other] = tokenClients(sealing, FORM_ELICITATION);
});

describe("the state of a request in rounds", () => {
  it.each(REQUESTS)("questions, answers and state of $method pass unchanged for a single principal", async ({ method, params }) => {
    const alone = single.modernClient({ capabilities: { elicitation: {} } });
    const { requestState, inputRequests } = roundOf(await alone.request(method, params));
    expect(requestState).toMatch(STATE);
    expect(inputRequests).toMatchObject({ name: { method: "elicitation/create", params: { mode: "form", message: "Your name?" } } });
    const { result } = await alone.request(method, params, { inputResponses: ANSWERS, requestState });
    expect(JSON.stringify(result)).toContain(JSON.stringify(JSON.stringify({ inputResponses: ANSWERS, requestState })).slice(1, -1));
  });

  it.each(REQUESTS)("the state of $method is sealed with several principals, and opened for the server", async ({ method, params }) => {
    const { requestState } = roundOf(await client.request(method, params));
    expect(requestState).toMatch(/^[\w-]{50,}$/);
    const { result } = await client.request(method, params, { inputResponses: ANSWERS, requestState });
    const said = JSON.stringify(result);
    expect(said).toContain("Ann");
    expect(said).not.toContain(requestState);
  });

  it("a sealed state has another text in each round, and each round gets the server's own state", async () => {
    const args = { rounds: 3 };
    let reply = await client.callTool("ask_input", args);
    const states = new Set<string>();
    while (reply.result?.["resultType"] === "input_required") {
      const { requestState } = roundOf(reply);
      states.add(requestState);
      reply = await client.callTool("ask_input", args, { inputResponses: ANSWERS, requestState });
    }
    expect(states.size).toBe(3);
    const received = JSON.parse(resultText(reply)) as { readonly requestState: string };
    expect(received.requestState).toMatch(STATE);
  });

  it.each(["\ud800", "\udc00\ud800x", "\ufffd", "\u0000"])(
    "a state that ends with %j comes back as the server has sent it",
    async (stateEnd) => {
      const { requestState } = roundOf(await client.callTool("ask_input", { stateEnd }));
      const reply = await client.callTool("ask_input", { stateEnd }, { inputResponses: ANSWERS, requestState });
      const received = JSON.parse(resultText(reply)) as { readonly requestState: string };
      expect(received.requestState.endsWith(`\u2028${stateEnd}`)).toBe(true);
    },
  );

  it("the state of a resource is valid only for its URI", async () => {
    const [{ method, params }, uri] = [REQUESTS[2], "fixture://other"];
    const { requestState } = roundOf(await client.request(method, params));
    const retry = { inputResponses: ANSWERS, requestState };
    expect(failureOf(await client.request(method, { uri }, retry))).toEqual(UNKNOWN_STATE);
    expect((await client.request(method, params, retry)).result).toMatchObject({ resultType: "complete" });
  });

  it("a call without a state passes beside sealed ones", async () => {
    const args = { hasState: false };
    const { requestState } = roundOf(await client.callTool("ask_input", args));
    expect(requestState).toBeUndefined();
    expect(await client.toolText("ask_input", args, { inputResponses: ANSWERS })).toBe(JSON.stringify({ inputResponses: ANSWERS }));
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
    const reply = await single.modernClient({ capabilities: { ...capabilities } }).callTool("ask_input", args);
    expect(failureOf(reply)).toEqual([400, -32021, "MISSING_CAPABILITY"]);
    expect(reply.error?.data).toMatchObject({ sent: true, requiredCapabilities });
    expect(reply.texts.join("")).not.toContain("example.com");
    const able = single.modernClient({ capabilities: { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} } });
    expect(roundOf(await able.callTool("ask_input", args)).inputRequests).toEqual(args.inputRequests);
  });

  it("a question that two parsers read differently fails the call", async () => {
    const questions = '"q":{"method":"roots/list","method":"elicitation/create"}';
    const line = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","inputRequests":{${questions}}}}`;
    const reply = await single.modernClient({ capabilities: { roots: {} } }).callTool("raw_line", { line });
    expect(failureOf(reply)).toEqual([200, -32603, "QUESTION_FAILED"]);
  });
});

describe("a task of a server without sessions", () => {
  async function createTask(owner: ModernClient, result: object): Promise<void> {
    const reply = await owner.callTool("result_type", { resultType: "task", result });
    expect(reply.result).toMatchObject({ resultType: "task", ...result });
  }

  it.each([{ taskId: "task-1" }, { task: { taskId: "task-1" } }])("another principal cannot use a task: %j", async (created) => {
    await createTask(client, created);
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      const params = { taskId: "task-1" };
      expect((await client.request(method, params)).error).toBeUndefined();
      expect((await other.request(method, params)).error).toMatchObject({ code: -32602, data: { code: "INVALID_PARAMS", sent: false } });
      expect((await other.request(method, { taskId: "unknown to the sidecar" })).error).toBeUndefined();
    }
    const filter = { notifications: { taskIds: ["mine", "task-1"] } };
    expect((await other.request("subscriptions/listen", filter)).error).toMatchObject({ code: -32602 });
  });

  it("a task is not bound without several principals", async () => {
    await createTask(single.modernClient(), { taskId: "task-1" });
    expect((await single.modernClient().request("tasks/get", { taskId: "task-1" })).error).toBeUndefined();
  });

  it.each([
    ["tasks/get", '"taskId":"own","taskId":"foreign"'],
    ["tasks/cancel", '"TASKID":"foreign","taskId":"own"'],
    ["subscriptions/listen", '"notifications":{"taskIds":["own"],"TaskIds":["foreign"]}'],
    ["subscriptions/listen", '"notifications":{"taskIds":["own"]},"notifications":{"taskIds":["foreign"]}'],
  ])("%s with an ambiguous task is rejected: %s", async (method, members) => {
    const { headers, body } = single.modernClient().compose(method, { taskId: "own" });
    const reply = await send(single.url, { headers, body: body.replace('"taskId":"own"', members) });
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
    await using sidecar = await HttpBench.start({ mode: "modern-only", env, flags: ["--restart-backoff-ms", "1"] });
    const listening = sidecar.modernClient();
    await using listen = await listening.listen({ toolsListChanged: true, taskIds: ["t"] }, { id: 1 });
    expect(listen.accepted).toEqual({ toolsListChanged: true, taskIds: ["t"] });
    await gate.open();
    await crashProcess(sidecar, (await readWhere(listening)).pid);
    expect(await listen.rest()).toMatchObject([{ id: 1, result: { resultType: "complete" } }]);
  });
});
