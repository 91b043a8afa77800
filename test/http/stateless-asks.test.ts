import { readFile, writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { failureOf } from "../support/error-reply.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { META, type ModernClient } from "../support/modern-client.ts";
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
  UNKNOWN_STATE,
} from "../support/questions.ts";
import { HttpBench } from "../support/http-bench.ts";
import { readWhere, offer } from "../support/fixture-server.ts";
import { signalServer } from "../support/in-process-server.ts";
import { readStatus, type Status } from "../support/status.ts";
import { tokenClients, TOKENS } from "../support/token-clients.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { LaneClient } from "../support/lane-client.ts";
import { processEnd } from "../support/process-end.ts";

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

describe("a question and the calls of its client", () => {
  const AMBIGUOUS = { error: { code: -32000, message: expect.stringContaining("several are in flight") as unknown } };

  it("a question during slow calls of the same client finds its call when those have ended", async () => {
    await using sidecar = await HttpBench.start();
    const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
    const path = sidecar.directory.file("go");
    const slow = [1, 2, 3].map((id) => client.callTool("wait_for_file", { path }, { id: `slow-${id}` }));
    const waiting = await sidecar.waitFor(
      () => (sidecar.transcript().split(`waiting for ${path}`).length >= 4 ? true : undefined),
      "calls",
    );
    const asking = client.callTool("ask_all", NAME);
    // No more calls are sent to the process meanwhile.
    await writeFile(path, "");
    const reply = await asking;
    expect([waiting, Object.keys(inputRequired(reply).inputRequests)]).toEqual([true, ["name"]]);
    expect((await Promise.all(slow)).map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(answersOf(await client.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
  });

  it("of two calls of one client that ask, the question of the newest one is refused after a time", async () => {
    await using sidecar = await HttpBench.start();
    const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
    const askAt = sidecar.directory.file("ask");
    const args = [1, 2].map((id) => ({ questions: [elicitation(`name-${id}`, {}, { askAt })] }));
    const calls = args.map((each) => client.callTool("ask_all", each));
    while (!/(tools\/call.*){3}/.test(await client.toolText("seen")));
    await writeFile(askAt, "");
    const [first, second] = await Promise.all(calls);
    const replies = [first, second].filter((reply) => reply !== undefined);
    const asked = replies.filter(({ result }) => result?.["resultType"] === "input_required");
    const refused = replies.filter((reply) => !asked.includes(reply));
    expect([asked.length, refused.map(answersOf)]).toEqual([1, [{ [`name-${refused[0] === second ? 2 : 1}`]: AMBIGUOUS }]]);
    const [only] = asked;
    const index = only === first ? 0 : 1;
    expect(only && answersOf(await client.callTool("ask_all", args[index], answering(only)))).toEqual({ [`name-${index + 1}`]: ACCEPTED });
    expect((await readStatus(sidecar)).stateless?.asks?.unattributed).toBe(1);
  });

  it("a client whose call was cancelled does not get the question of a later call of another client", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true });
    const [first, second] = tokenClients(sidecar, FORM_ELICITATION);
    const { pid } = await readWhere(first);
    const stop = new AbortController();
    const questions = [elicitation("name", {}, { askAt: sidecar.directory.file("ask") })];
    const abandoned = first.callTool("ask_all", { questions }, { signal: stop.signal });
    await readWhere(first);
    stop.abort();
    await expect(abandoned).rejects.toThrow("aborted");
    while (!(await first.toolText("seen")).includes("notifications/cancelled"));
    expect((await readWhere(second)).pid).not.toBe(pid);
    const reply = await second.callTool("ask_all", NAME);
    await writeFile(sidecar.directory.file("ask"), "");
    expect(answersOf(await second.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
  });

  it("a question without a call, or after the end of its call, is refused", async () => {
    await using sidecar = await HttpBench.start();
    const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
    const [early, askAt] = [sidecar.directory.file("early"), sidecar.directory.file("ask")];
    await writeFile(early, "");
    const reply = await client.callTool("ask_all", { questions: [elicitation("late", {}, { askAt })], early });
    expect(reply.result).toMatchObject({ content: [{ text: "early" }] });
    await writeFile(askAt, "");
    while ((await readStatus(sidecar)).stateless?.asks?.unattributed !== 1);
    await client.callTool("noise", { line: JSON.stringify({ jsonrpc: "2.0", ...elicitation("of noise") }) });
    const answers = JSON.parse(await client.toolText("answers")) as string[];
    expect(answers.map((line) => JSON.parse(line) as object)).toEqual([
      expect.objectContaining({ id: "late", error: { code: -32000, message: "The question belongs to no call in flight" } }),
      expect.objectContaining({ id: "of noise", error: expect.objectContaining({ code: -32600 }) as unknown }),
    ]);
  });

  it("a call that has asked is not sent again after a crash", async () => {
    await using sidecar = await HttpBench.start({ env: { FIXTURE_READ_ONLY: "ask_all" }, flags: ["--retry", "read-only"] });
    const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
    const { pid } = await readWhere(client);
    const args = { questions: [elicitation("a"), elicitation("never", {}, { askAt: "/nonexistent/never" })] };
    const reply = await client.callTool("ask_all", args);
    const next = client.callTool("ask_all", args, answering(reply));
    while (!(await client.toolText("answers")).includes("Ann"));
    signalServer(pid, "SIGKILL");
    expect((await next).error?.data).toMatchObject({ code: "UPSTREAM_EXITED", sent: true });
  });
});

const [FIRST, SECOND] = TOKENS;

async function waitForStatus(sidecar: RunningSidecar, accepts: (status: Status) => boolean, token?: string): Promise<void> {
  const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  while (!accepts(await readStatus(sidecar, headers)));
}

function clientOf(sidecar: RunningSidecar, token?: string): ModernClient {
  return sidecar.modernClient({ capabilities: ALL_QUESTIONS, token });
}

/** Waits until the process of a client is ready, which may take longer than the limits of a test. */
async function startProcess(client: ModernClient): Promise<void> {
  while ((await client.request("tools/list")).result === undefined);
}

describe("a call whose client was asked", () => {
  it("takes no slot and no request time, and is shown in /status", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--request-timeout-ms", "1000"] });
    const client = clientOf(sidecar);
    await startProcess(client);
    const reply = await client.callTool("ask_all", NAME);
    const { lanes, stateless } = await readStatus(sidecar);
    expect(lanes.asking).toEqual({
      "elicitation.form+elicitation.url+sampling+sampling.tools": { servers: 1, requestsInFlight: 0, waiting: 0, queuedBytes: 0 },
    });
    expect(stateless?.asks).toEqual({ servers: 1, parked: { now: 1, expired: 0, refused: 0 }, unattributed: 0 });
    // Longer than the timeout: another call of the same client times out meanwhile.
    expect(failureOf(await client.callTool("hang"))).toEqual([200, -32603, "REQUEST_TIMEOUT"]);
    expect(answersOf(await client.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
    expect((await readStatus(sidecar)).stateless?.asks?.parked.now).toBe(0);
  });

  it("other calls use another process meanwhile, and the first one again afterwards", async () => {
    await using sidecar = await HttpBench.start();
    const client = clientOf(sidecar);
    const { pid } = await readWhere(client);
    const reply = await client.callTool("ask_all", NAME);
    const others = await Promise.all(Array.from({ length: 3 }, () => readWhere(client)));
    expect(new Set(others.map((other) => other.pid)).size).toBe(1);
    expect(others[0]?.pid).not.toBe(pid);
    await client.callTool("ask_all", NAME, answering(reply));
    expect((await readStatus(sidecar)).stateless?.asks?.servers).toBe(2);
  });

  it("other calls wait if there is no other process, and are sent afterwards", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1"] });
    const client = clientOf(sidecar);
    const reply = await client.callTool("ask_all", NAME);
    const waiting = client.callTool("echo", { text: "later" });
    await waitForStatus(sidecar, ({ lanes }) => Object.values(lanes.asking).some((lane) => lane.waiting === 1));
    await client.callTool("ask_all", NAME, answering(reply));
    expect((await waiting).result).toMatchObject({ content: [{ text: "later" }] });
  });

  it("a discovery does not wait, and MAX_IN_FLIGHT holds for the calls that have waited", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1", "--max-in-flight", "1"] });
    const client = clientOf(sidecar);
    const reply = await client.callTool("ask_all", NAME);
    const calls = [1, 2, 3, 4].map((id) => client.callTool("hang", {}, { id: `held-${id}` }));
    await waitForStatus(sidecar, ({ lanes }) => Object.values(lanes.asking).some((lane) => lane.waiting === 4));
    expect((await client.request("server/discover")).status).toBe(200);
    await client.callTool("ask_all", NAME, answering(reply));
    await waitForStatus(sidecar, ({ lanes }) =>
      Object.values(lanes.asking).some((lane) => lane.requestsInFlight === 4 && lane.waiting === 3),
    );
    await sidecar.stop();
    expect((await Promise.all(calls)).map(({ error }) => error?.data?.["sent"]).filter((sent) => sent === true)).toHaveLength(1);
  });

  it("the log level of the request that answers reaches the server", async () => {
    const env = { FIXTURE_INITIALIZE_RESULT: offer({ tools: {}, logging: {} }) };
    await using sidecar = await HttpBench.start({ mode: "keeps-state", env });
    const client = clientOf(sidecar);
    const reply = await client.callTool("ask_all", NAME);
    const last = await client.callTool("ask_all", NAME, { ...answering(reply), meta: { [META.logLevel]: "debug" } });
    expect(answersOf(last)).toEqual({ name: ACCEPTED });
    while (!(await client.toolText("lines")).includes('\\"level\\":\\"debug\\"'));
  });

  it("a call that waits for another process too long is refused unsent", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1", "--hold-timeout-ms", "300"] });
    const client = clientOf(sidecar);
    await startProcess(client);
    await client.callTool("ask_all", NAME);
    const refused = await client.callTool("echo", { text: "never" });
    expect([failureOf(refused), refused.error?.data?.["sent"]]).toEqual([[503, -32603, "OVERLOADED"], false]);
    expect(refused.error?.message).toContain("its processes wait for answers of clients");
  });

  it("its result is kept if the server answers before the client", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1"] });
    const client = clientOf(sidecar);
    const args = { ...NAME, early: sidecar.directory.file("early") };
    const reply = await client.callTool("ask_all", args);
    await writeFile(sidecar.directory.file("early"), "");
    // The only process is free after its result.
    await client.toolText("echo", { text: "free" });
    const next = await client.callTool("ask_all", args, { id: "late", ...answering(reply) });
    expect(next).toMatchObject({ id: "late", result: { resultType: "complete", content: [{ text: "early" }] } });
    expect(failureOf(await client.callTool("ask_all", args, answering(reply)))).toEqual(UNKNOWN_STATE);
  });

  it("its result is kept if the server withdraws the question", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1"] });
    const client = clientOf(sidecar);
    const args = { questions: [elicitation("name", {}, { withdrawAt: sidecar.directory.file("withdraw") })] };
    const reply = await client.callTool("ask_all", args);
    await writeFile(sidecar.directory.file("withdraw"), "");
    await client.toolText("echo", { text: "free" });
    expect(answersOf(await client.callTool("ask_all", args, answering(reply)))).toEqual({ name: "withdrawn" });
  });

  it("an answer is not sent to a later question with the same key", async () => {
    await using sidecar = await HttpBench.start();
    const client = clientOf(sidecar);
    const [withdrawAt, askAt] = [sidecar.directory.file("withdraw"), sidecar.directory.file("ask")];
    const questions = [
      elicitation("old one", { message: "Read?" }, { withdrawAt }),
      elicitation("new one", { message: "Delete?" }, { askAt }),
    ];
    const first = await client.callTool("ask_all", { questions });
    await writeFile(withdrawAt, "");
    await writeFile(askAt, "");
    const second = await client.callTool("ask_all", { questions }, answering(first));
    expect(Object.values(inputRequired(second).inputRequests).map(({ params }) => params["message"])).toEqual(["Delete?"]);
    const last = await client.callTool("ask_all", { questions }, answering(second, { action: "decline" }));
    expect(answersOf(last)).toMatchObject({ "new one": { action: "decline" } });
  });

  it("a question that comes later is asked with the next request", async () => {
    await using sidecar = await HttpBench.start();
    const client = clientOf(sidecar);
    const args = { questions: [elicitation("a"), sampling("late", {}, { askAt: sidecar.directory.file("ask") })] };
    const first = await client.callTool("ask_all", args);
    const second = client.callTool("ask_all", args, answering(first));
    await writeFile(sidecar.directory.file("ask"), "");
    expect(Object.keys(inputRequired(await second).inputRequests)).toEqual(["late"]);
    expect(answersOf(await client.callTool("ask_all", args, answering(await second, SAMPLED)))).toEqual({ a: ACCEPTED, late: SAMPLED });
  });

  it("is cancelled if the connection of the next request closes", async () => {
    await using sidecar = await HttpBench.start();
    const client = clientOf(sidecar);
    const args = { questions: [elicitation("a"), elicitation("never", {}, { askAt: "/nonexistent/never" })] };
    const first = await client.callTool("ask_all", args);
    const stop = new AbortController();
    const second = client.callTool("ask_all", args, { ...answering(first), signal: stop.signal });
    while (!(await client.toolText("answers")).includes("Ann"));
    stop.abort();
    await expect(second).rejects.toThrow("aborted");
    await waitForStatus(sidecar, ({ lanes }) => Object.values(lanes.asking).every((lane) => lane.requestsInFlight === 0));
    while (!(await client.toolText("seen")).includes("notifications/cancelled"));
  });

  it("is bound to its client, and ends when the token of that one is removed", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true });
    const reply = await clientOf(sidecar, FIRST).callTool("ask_all", NAME);
    const other = clientOf(sidecar, SECOND);
    expect(failureOf(await other.callTool("ask_all", NAME, answering(reply)))).toEqual(UNKNOWN_STATE);
    await writeFile(sidecar.directory.file("tokens"), SECOND);
    await waitForStatus(sidecar, ({ stateless }) => stateless?.asks?.parked.now === 0, SECOND);
    await sidecar.waitForLog("request given up", ({ reason }) => reason === "its token was removed");
  });
});

describe("a process that may ask", () => {
  /** A client has a process for each of these. */
  const SETS = [FORM_ELICITATION, { elicitation: { url: {} } }, { sampling: {} }];

  it("there is one for each set of capabilities of a client", async () => {
    await using sidecar = await HttpBench.start();
    const sets = [FORM_ELICITATION, { elicitation: { url: {} } }, { sampling: {} }, { elicitation: {}, sampling: {} }];
    const pids = await Promise.all(sets.map(async (capabilities) => (await readWhere(sidecar.modernClient({ capabilities }))).pid));
    const shared = await readWhere(sidecar.modernClient());
    expect(new Set([...pids, shared.pid]).size).toBe(5);
    const { lanes } = await readStatus(sidecar);
    expect(Object.keys(lanes.asking).toSorted((a, b) => a.localeCompare(b))).toEqual([
      "elicitation.form",
      "elicitation.form+sampling",
      "elicitation.url",
      "sampling",
    ]);
  });

  it("one that is not used for SESSION_IDLE_TIMEOUT_MS ends, and its set starts another one", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--session-idle-timeout-ms", "300"] });
    const client = sidecar.modernClient({ capabilities: ALL_QUESTIONS });
    const { pid } = await readWhere(client);
    await processEnd(pid);
    expect(await sidecar.waitForLog("lane ended")).toMatchObject({ lane: "asking-1", reason: "idle" });
    expect((await readWhere(client)).pid).not.toBe(pid);
  });

  it("one whose client is asked does not end, however long the answer takes", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--session-idle-timeout-ms", "300"] });
    const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
    const reply = await client.callTool("ask_all", NAME);
    // A later one ends by the same clock.
    await readWhere(sidecar.modernClient({ capabilities: { sampling: {} } }));
    expect(await sidecar.waitForLog("lane ended")).toMatchObject({ lane: "asking-2", reason: "idle" });
    expect(answersOf(await client.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
  });

  it("a client without a place gets TOO_MANY_SERVERS until an idle process of another one makes room", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--max-private-servers", "5"] });
    const [, second] = tokenClients(sidecar, FORM_ELICITATION);
    const clientsOf = (token: string): ModernClient[] => SETS.map((capabilities) => sidecar.modernClient({ capabilities, token }));
    const [few, many] = [clientsOf(TOKENS[0]).slice(0, 2), clientsOf(TOKENS[2])];
    const pids = await Promise.all(few.map(readWhere));
    await Promise.all(many.map(readWhere));
    const refused = await second.callTool("where");
    expect([refused.status, refused.error?.data]).toMatchObject([503, { code: "TOO_MANY_SERVERS", sent: false }]);
    expect(refused.error?.data?.["retryAfterSeconds"]).toBeLessThanOrEqual(5);
    // After some seconds without use, one ends of the client with the most processes. Those of the other client were used before them.
    while ((await second.callTool("where")).status === 503);
    expect(await sidecar.waitForLog("lane ended")).toMatchObject({
      reason: "room for another one",
      lane: expect.stringMatching(/-[345]$/) as unknown,
    });
    expect(await Promise.all(few.map(readWhere))).toEqual(pids);
  });

  it("a client gets at most half of the processes, so others get theirs", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--max-private-servers", "4"] });
    const own = SETS.map((capabilities) => sidecar.modernClient({ capabilities, token: TOKENS[0] }));
    const paths = ["one", "two"].map((name) => sidecar.directory.file(name));
    const slow = Promise.all(paths.map(async (path, index) => own[index]?.callTool("wait_for_file", { path })));
    for (const path of paths) {
      await sidecar.waitFor(() => (sidecar.transcript().includes(`waiting for ${path}`) ? true : undefined), "the call");
    }
    const refused = await own[2]?.callTool("where");
    expect([refused?.status, refused?.error?.data]).toMatchObject([503, { code: "TOO_MANY_SERVERS", sent: false }]);
    expect(refused?.error?.message).toContain("the 2 of 4 that it may have are in use");
    const [, second, third] = tokenClients(sidecar, FORM_ELICITATION);
    for (const other of [second, third]) expect((await other.callTool("where")).status).toBe(200);
    for (const path of paths) await writeFile(path, "");
    for (const reply of await slow) expect(reply?.status).toBe(200);
  });

  it("a private server has a place of theirs", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-private-servers", "1"] });
    await LaneClient.connect(sidecar);
    const refused = await sidecar.modernClient({ capabilities: FORM_ELICITATION }).callTool("where");
    expect([refused.status, refused.error?.data]).toMatchObject([503, { code: "TOO_MANY_SERVERS", sent: false }]);
  });

  it("the processes of a token end when it is removed", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true });
    const [first, second] = tokenClients(sidecar, FORM_ELICITATION);
    const [{ pid }, other] = [await readWhere(first), await readWhere(second)];
    await writeFile(sidecar.directory.file("tokens"), TOKENS.slice(1).join("\n"));
    await processEnd(pid);
    expect(await readWhere(second)).toEqual(other);
  });

  it("a subscription ends gracefully with its process", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--restart-limit", "1", "--restart-max-ms", "100"] });
    const client = sidecar.modernClient({ capabilities: FORM_ELICITATION });
    const listen = await client.listen({ toolsListChanged: true }, { id: "mine" });
    for (const generation of [1, 2]) {
      const isOfAsking = (line: Readonly<Record<string, unknown>>): boolean =>
        line["lane"] === "asking-1" && line["generation"] === generation;
      const { childPid } = await sidecar.waitForLog("mcp server ready", isOfAsking);
      signalServer(Number(childPid), "SIGKILL");
    }
    expect((await listen.rest()).at(-1)).toMatchObject({ id: "mine", result: { resultType: "complete" } });
    await sidecar.waitForLog("lane ended");
    expect(await client.toolText("echo", { text: "again" })).toBe("again");
  });

  it("a client whose call waits for answers is not forgotten for others", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--max-sessions", "2"] });
    const [first, ...others] = tokenClients(sidecar, FORM_ELICITATION);
    const reply = await first.callTool("ask_all", NAME);
    for (const other of others) await other.toolText("echo", { text: "x" });
    expect(answersOf(await first.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
  });

  it("cancelled calls of a client start no more processes, and keep no other one from being asked", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true });
    const [first, second] = tokenClients(sidecar, FORM_ELICITATION);
    for (let round = 0; round < 4; round++) {
      const stop = new AbortController();
      const path = sidecar.directory.file(`never-${round}`);
      const abandoned = first.callTool("wait_for_file", { path }, { signal: stop.signal });
      await sidecar.waitFor(() => (sidecar.transcript().includes(`waiting for ${path}`) ? true : undefined), "the call");
      stop.abort();
      await expect(abandoned).rejects.toThrow("aborted");
      const reply = await second.callTool("ask_all", NAME);
      expect(answersOf(await second.callTool("ask_all", NAME, answering(reply)))).toEqual({ name: ACCEPTED });
    }
    const status = await readStatus(sidecar, { Authorization: `Bearer ${TOKENS[0]}` });
    expect(status.lanes.asking["elicitation.form"]?.servers).toBe(2);
  });
});
