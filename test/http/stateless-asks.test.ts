import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { failureOf } from "../support/error-reply.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { META } from "../support/modern-client.ts";
import {
  ACCEPTED,
  ALL_QUESTIONS,
  answering,
  answersOf,
  elicitation,
  FORM_ELICITATION,
  inputRequired,
  SAMPLED,
  SAMPLING,
  sampling,
  URL_ELICITATION,
} from "../support/questions.ts";
import { HttpBench } from "../support/http-bench.ts";

const NAME = { questions: [elicitation("name")] };
const REFUSED = { error: { code: -32601 } };

describe("a question of a server with sessions", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient({ capabilities: ALL_QUESTIONS });

  it("reaches the client together with others that come at the same time", async () => {
    const questions = [elicitation("a"), sampling(7), elicitation("b", { mode: "url", url: "https://example.com" })];
    const reply = await client.callTool("ask_all", { questions });
    expect(Object.keys(inputRequired(reply).inputRequests)).toEqual(["a", "ask-7", "b"]);
    const inputResponses = { a: ACCEPTED, "ask-7": SAMPLED, b: { action: "decline" } };
    const { requestState } = inputRequired(reply);
    const next = await client.callTool("ask_all", { questions }, { requestState, inputResponses });
    expect(answersOf(next)).toEqual({ a: ACCEPTED, 7: SAMPLED, b: { action: "decline" } });
  });

  it("is answered as the manual says", async () => {
    const manual = await readFile(new URL("../../docs/operations/stateless.md", import.meta.url), "utf8");
    const example = /<!-- answer: [^\n]*\n```json\n(?<json>.*?)```/s.exec(manual)?.groups?.["json"] ?? "";
    const first = await client.callTool("ask_all", NAME);
    const named = example.replace('"greet","arguments":{}', `"ask_all","arguments":${JSON.stringify(NAME)}`);
    const { headers } = client.compose("tools/call", { name: "ask_all" });
    const reply = await client.post(named.replace("STATE", inputRequired(first).requestState), { headers });
    expect(answersOf({ ...(JSON.parse(reply.body) as JsonRpcMessage), status: 200, headers: {}, notifications: [], texts: [] })).toEqual({
      name: ACCEPTED,
    });
  });

  it.each([
    ["prompts/get", { name: "asking" }],
    ["resources/read", { uri: "asking:name" }],
  ])("works during %s", async (method, params) => {
    const reply = await client.request(method, params);
    expect(answersOf(await client.request(method, params, answering(reply)))).toEqual({ name: ACCEPTED });
  });

  it("loses the members that belong to its connection", async () => {
    const removed = {
      task: { ttl: 1 },
      elicitationId: "e",
      _meta: { progressToken: 1, "io.modelcontextprotocol/related-task": {}, own: 2 },
    };
    const questions = [elicitation("x", { ...removed, mode: "url", url: "https://example.com" })];
    const reply = await client.callTool("ask_all", { questions });
    const params = {
      message: "Your name?",
      requestedSchema: { type: "object", properties: {} },
      _meta: { own: 2 },
      mode: "url",
      url: "https://example.com",
    };
    expect(inputRequired(reply).inputRequests["x"]).toEqual({ method: "elicitation/create", params });
    await client.callTool("ask_all", { questions }, answering(reply));
  });

  it("has a key of its own, whatever its id", async () => {
    const questions = [3, "ask-3", "__proto__", "", "x y", "constructor"].map((id) => elicitation(id));
    const keys: string[] = [];
    let reply = await client.callTool("ask_all", { questions });
    // On a busy machine, the questions of the server may arrive in several groups.
    for (; reply.result?.["resultType"] === "input_required"; reply = await client.callTool("ask_all", { questions }, answering(reply)))
      keys.push(...Object.keys(inputRequired(reply).inputRequests));
    expect([keys.length, new Set(keys).size]).toEqual([questions.length, questions.length]);
    expect(Object.keys(answersOf(reply) as object)).toHaveLength(questions.length - 1);
  });
});

describe("an answer of a client without a session", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient({ capabilities: ALL_QUESTIONS });
  const questions = [elicitation("a"), elicitation("b")];

  it("is sent even if another one is missing, which is asked again", async () => {
    const first = await client.callTool("ask_all", { questions });
    const { requestState } = inputRequired(first);
    const second = await client.callTool("ask_all", { questions }, { requestState, inputResponses: { a: ACCEPTED, unknown: ACCEPTED } });
    expect(Object.keys(inputRequired(second).inputRequests)).toEqual(["b"]);
    expect(inputRequired(second).requestState).not.toBe(requestState);
    const declined = { action: "decline" };
    expect(answersOf(await client.callTool("ask_all", { questions }, answering(second, declined)))).toEqual({ a: ACCEPTED, b: declined });
  });

  it.each([
    ["no answers", undefined],
    ["answers in an array", []],
    ["an answer that is a string", { a: "yes" }],
    ["an answer without an action", { a: { content: {} } }],
    ["an unknown action", { a: { action: "maybe" } }],
    ["content in an array", { a: { action: "accept", content: [] } }],
    ["an error", { a: { error: { code: 1, message: "no" } } }],
  ])("%s: the client is asked again", async (_what, inputResponses) => {
    const args = { questions: [elicitation("a")] };
    const first = await client.callTool("ask_all", args);
    const { requestState } = inputRequired(first);
    const second = await client.callTool("ask_all", args, { requestState, ...(inputResponses === undefined ? {} : { inputResponses }) });
    expect(Object.keys(inputRequired(second).inputRequests)).toEqual(["a"]);
    expect(answersOf(await client.callTool("ask_all", args, answering(second)))).toEqual({ a: ACCEPTED });
  });

  it.each([
    ["an elicitation's", { role: "assistant" }],
    ["one without a model", { role: "assistant", content: { type: "text", text: "" } }],
    ["one without content", { role: "assistant", model: "m" }],
  ])("to a sampling, %s is asked again", async (_what, answer) => {
    const args = { questions: [sampling("s")] };
    const first = await client.callTool("ask_all", args);
    const second = await client.callTool("ask_all", args, answering(first, answer));
    expect(answersOf(await client.callTool("ask_all", args, answering(second, SAMPLED)))).toEqual({ s: SAMPLED });
  });

  it("reaches the server byte for byte", async () => {
    const args = { questions: [elicitation("a")] };
    const { requestState } = inputRequired(await client.callTool("ask_all", args));
    const { headers, body } = client.compose(
      "tools/call",
      { name: "ask_all", arguments: args },
      { requestState, inputResponses: { a: "$" } },
    );
    const answer = '{"action" : "accept","content":{"n":1.0,"big":12345678901234567890,"s":"\\u0041\\/"}}';
    await client.post(body.replace('"$"', answer), { headers });
    expect(await client.toolText("lines")).toContain(JSON.stringify(`{"jsonrpc":"2.0","id":"a","result":${answer}}`).slice(1, -1));
  });

  it("may come with the first request, for the questions that a server names itself", async () => {
    const args = { questions: [elicitation("a"), elicitation(5)] };
    const inputResponses = { a: ACCEPTED, "ask-5": ACCEPTED, unknown: ACCEPTED };
    const reply = await client.callTool("ask_all", args, { inputResponses });
    expect(Object.keys(inputRequired(reply).inputRequests)).toEqual(["ask-5"]);
    expect(answersOf(await client.callTool("ask_all", args, answering(reply)))).toEqual({ a: ACCEPTED, 5: ACCEPTED });
  });

  it("the progress token of its request applies from then on", async () => {
    const first = await client.callTool("ask_all", NAME, { meta: { progressToken: "old" } });
    const reply = await client.callTool("ask_all", NAME, { ...answering(first), meta: { progressToken: "new" } });
    expect(answersOf(reply)).toEqual({ name: ACCEPTED });
    expect(reply.notifications).toMatchObject([{ method: "notifications/progress", params: { progressToken: "new" } }]);
  });
});

describe("a question that the client has not declared", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());

  it.each([
    ["a URL of a client with forms", FORM_ELICITATION, elicitation("q", { mode: "url", url: "https://example.com" }), URL_ELICITATION],
    ["a form of a client with URLs", URL_ELICITATION, elicitation("q"), { elicitation: { form: {} } }],
    ["a sampling of a client with forms", FORM_ELICITATION, sampling("q"), SAMPLING],
    ["tools for a client without them", SAMPLING, sampling("q", { tools: [] }), { sampling: { tools: {} } }],
  ])("%s: a call that needs the answer fails", async (_what, capabilities, question, requiredCapabilities) => {
    const client = sidecar.modernClient({ capabilities });
    const reply = await client.callTool("ask_all", { questions: [question], needsAll: true });
    expect(failureOf(reply)).toEqual([400, -32021, "MISSING_CAPABILITY"]);
    expect(reply.error?.data).toMatchObject({ requiredCapabilities, sent: true, retrySafe: false });
    expect(reply.error?.message).toContain("the client of this call has not declared it");
  });

  it("is refused to the server if the client can answer another one", async () => {
    const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
    const args = { questions: [elicitation("a"), sampling("s")] };
    const reply = await client.callTool("ask_all", args);
    expect(Object.keys(inputRequired(reply).inputRequests)).toEqual(["a"]);
    expect(answersOf(await client.callTool("ask_all", args, answering(reply)))).toMatchObject({ a: ACCEPTED, s: REFUSED });
  });

  it("is refused if the client no longer declares it", async () => {
    const client = sidecar.modernClient({ capabilities: ALL_QUESTIONS });
    const args = { questions: [elicitation("a"), sampling("s")], needsAll: true };
    const first = await client.callTool("ask_all", args);
    const { requestState } = inputRequired(first);
    const meta = { [META.clientCapabilities]: FORM_ELICITATION };
    const second = await client.callTool("ask_all", args, { requestState, meta });
    expect(Object.keys(inputRequired(second).inputRequests)).toEqual(["a"]);
    const last = await client.callTool("ask_all", args, answering(second));
    expect([failureOf(last), last.error?.data?.["requiredCapabilities"]]).toEqual([[400, -32021, "MISSING_CAPABILITY"], { sampling: {} }]);
  });

  it("roots of a client that declares them are asked, although no server is offered them", async () => {
    const client = sidecar.modernClient({ capabilities: { ...ALL_QUESTIONS, roots: {} } });
    const args = { questions: [{ id: "r", method: "roots/list", params: {} }] };
    const first = await client.callTool("ask_all", args);
    expect(inputRequired(first).inputRequests).toEqual({ r: { method: "roots/list", params: {} } });
    const second = await client.callTool("ask_all", args, answering(first, { roots: "none" }));
    const answer = { roots: [{ uri: "file:///mine" }] };
    expect(answersOf(await client.callTool("ask_all", args, answering(second, answer)))).toEqual({ r: answer });
    expect((JSON.parse(await client.toolText("lines")) as string[])[0]).not.toContain("roots");
  });

  it("with ISOLATION=shared no question reaches a client", async () => {
    await using shared = await HttpBench.start({ flags: ["--isolation", "shared"] });
    const client = shared.modernClient({ capabilities: ALL_QUESTIONS });
    expect(answersOf(await client.callTool("ask_all", NAME))).toMatchObject({ name: { error: { code: -32601 } } });
  });
});
