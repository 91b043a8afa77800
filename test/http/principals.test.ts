import { writeFile } from "node:fs/promises";
import { Agent } from "node:http";
import { describe, expect, it } from "vitest";
import { crash, offer, readWhere, waitForHanging } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { META, type ModernClient } from "../support/modern-client.ts";
import { elicitation, FORM_ELICITATION } from "../support/questions.ts";
import { readStatus, waitForGeneration } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { TOKENS, tokenClients } from "../support/token-clients.ts";

/** Nothing of one principal reaches another by a guess. A principal is a token here. */

const LOGGING = { FIXTURE_INITIALIZE_RESULT: offer({ tools: {}, logging: {}, resources: { subscribe: true } }) };
const DEBUG = { meta: { [META.logLevel]: "debug" } };

async function sessions(sidecar: RunningSidecar, [ofFirst, ofSecond]: readonly string[] = TOKENS): Promise<[McpClient, McpClient]> {
  const [first, second] = [new McpClient(sidecar.url, { token: ofFirst }), new McpClient(sidecar.url, { token: ofSecond })];
  for (const session of [first, second]) {
    await session.initialize();
    await session.request("logging/setLevel", { level: "debug" });
  }
  return [first, second];
}

async function loggedInSession(session: McpClient, data: string): Promise<unknown[]> {
  using call = await session.begin("log", { level: "error", data });
  return (await call.rest()).flatMap(({ method, params }) => (method === "notifications/message" ? [params?.["data"]] : []));
}

async function logged(client: ModernClient, data: string): Promise<unknown[]> {
  const { notifications } = await client.callTool("log", { level: "error", data }, DEBUG);
  return notifications.map(({ params }) => params?.["data"]);
}

describe("a question of a server with sessions", () => {
  it("a question after the end of a call is not shown to the client of another token", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true });
    const [first, second] = tokenClients(sidecar, FORM_ELICITATION);
    const [early, askAt, go] = ["early", "ask", "go"].map((name) => sidecar.directory.file(name));
    if (early === undefined || askAt === undefined || go === undefined) throw new Error("no file");
    await writeFile(early, "");
    const questions = [elicitation("late", { message: "secret of the first" }, { askAt })];
    expect(await first.toolText("ask_all", { questions, early })).toBe("early");
    const call = second.callTool("wait_for_file", { path: go });
    await sidecar.waitFor(() => (sidecar.transcript().includes(`waiting for ${go}`) ? true : undefined), "the call");
    await writeFile(askAt, "");
    const asked = async (): Promise<number | undefined> =>
      (await readStatus(sidecar, { Authorization: `Bearer ${TOKENS[0]}` })).stateless?.asks?.unattributed;
    const ended = new AbortController();
    void call.then(() => ended.abort());
    while (!ended.signal.aborted && (await asked()) !== 1);
    await writeFile(go, "");
    expect(await call).toMatchObject({ result: { resultType: "complete" } });
    expect(await first.toolText("answers")).toContain("belongs to no call in flight");
  });

  it("a process that may ask serves one address if there are no tokens", async () => {
    await using open = await HttpBench.start();
    const agent = new Agent({ localAddress: "127.0.0.2" });
    const clients = [{}, {}, { agent }].map((options) => open.modernClient({ capabilities: FORM_ELICITATION, ...options }));
    const [mine, same, other] = await Promise.all(clients.map(async (client) => (await readWhere(client)).pid));
    expect(mine).toBe(same);
    expect(mine).not.toBe(other);
  });
});

describe("a log message of a shared server", () => {
  it.each([
    { what: "with sessions", mode: "keeps-state", env: LOGGING },
    { what: "without sessions", mode: "modern-only", env: {} },
  ])("a message reaches nobody when two tokens have used the server $what", async ({ mode, env }) => {
    await using sidecar = await HttpBench.start({ hasTokens: true, mode, env });
    const [first, second] = tokenClients(sidecar, {});
    expect(await logged(first, "of the first")).toEqual(["of the first"]);
    const { counters: before } = await readStatus(sidecar, { Authorization: `Bearer ${TOKENS[0]}` });
    expect([await logged(second, "of the second"), await logged(first, "later")]).toEqual([[], []]);
    const { counters } = await readStatus(sidecar, { Authorization: `Bearer ${TOKENS[0]}` });
    expect([before.dropped, counters.dropped]).toMatchObject([{ notifications: 0 }, { notifications: 2 }]);
  });

  it("a message reaches the session of a token after a cancelled call of its other one", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true, mode: "keeps-state", env: LOGGING });
    const [one, other] = await sessions(sidecar, [TOKENS[0], TOKENS[0]]);
    const hanging = one.callTool("hang", {}, 7).catch(() => undefined);
    await waitForHanging(other, 1);
    await one.notify("notifications/cancelled", { requestId: 7 });
    await hanging;
    expect([await loggedInSession(other, "a"), await loggedInSession(one, "b")]).toEqual([["a"], ["b"]]);
  });

  it("a restarted server delivers messages again, until it gets something of another token", async () => {
    const flags = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];
    await using sidecar = await HttpBench.start({ hasTokens: true, mode: "keeps-state", env: LOGGING, flags });
    const [first, second] = await sessions(sidecar);
    await second.callTool("echo", { text: "x" });
    expect(await loggedInSession(first, "dropped")).toEqual([]);
    await crash(sidecar);
    await waitForGeneration(sidecar, 2);
    expect(await loggedInSession(first, "delivered")).toEqual(["delivered"]);
    // The next generation gets this subscription before any request.
    await second.request("resources/subscribe", { uri: "fixture://second" });
    await crash(sidecar);
    await waitForGeneration(sidecar, 3);
    expect(await loggedInSession(first, "dropped again")).toEqual([]);
  });
});

describe("a task of a shared server", () => {
  async function clients(sidecar: RunningSidecar): Promise<[LaneClient, LaneClient]> {
    const [first, second] = TOKENS.map((token) => new LaneClient(sidecar.url, { accept: "application/json", capabilities: {}, token }));
    if (first === undefined || second === undefined) throw new Error("no token");
    for (const session of [first, second]) await session.initialize();
    return [first, second];
  }

  function create(client: LaneClient, taskId: string): Promise<unknown> {
    const line = `{"jsonrpc":"2.0","id":$ID,"result":{"task":{"taskId":"${taskId}","status":"working"}}}`;
    return client.request("tools/call", { name: "raw_line", arguments: { line }, task: {} });
  }

  it("a request with the task of another token, or without a clear id, does not reach the server", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true });
    const [first, second] = await clients(sidecar);
    await create(first, "task-1");
    for (const [params, message] of [
      [{ taskId: "task-1" }, "This task does not exist. The request was not sent."],
      [{ taskId: "own", TASKID: "task-1" }, '"taskId" is ambiguous in the params. The request was not sent.'],
      [{ taskId: ["task-1"] }, '"taskId" must be a string. The request was not sent.'],
    ] as const) {
      expect((await second.request("tasks/update", params)).error).toEqual({ code: -32602, message });
    }
    await first.request("tasks/update", { taskId: "task-1" });
    expect(await first.received("tasks/update")).toEqual([{ taskId: "task-1" }]);
  });

  it("the last 1000 tasks of a token are remembered", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true });
    const [first, second] = await clients(sidecar);
    const get = async (taskId: string): Promise<unknown> => (await second.request("tasks/get", { taskId })).error;
    for (const taskId of ["first", "second"]) await create(first, taskId);
    for (let tens = 0; tens < 100; tens++) {
      const ids = Array.from({ length: 10 }, (_, ones) => String(10 * tens + ones)).filter((id) => id !== "0");
      await Promise.all(ids.map((id) => create(first, id)));
    }
    // Those are 1001 tasks.
    expect(await get("first")).toBeUndefined();
    for (const taskId of ["second", "1", "999"])
      expect(await get(taskId)).toMatchObject({ message: expect.stringContaining("does not exist") as unknown });
  });
});
