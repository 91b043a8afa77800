import { describe, expect } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { answerOf, HeldCall, progressOf } from "../support/held-call.ts";
import { readSeen, readWhere, waitForHanging, waitForSeen } from "../support/fixture-server.ts";
import { type JsonRpcMessage, resultText } from "../support/json-rpc.ts";
import { ASKABLE, McpClient } from "../support/mcp-client.ts";
import { ACCEPTED, answering, answersOf, elicitation, FORM_ELICITATION, SAMPLED } from "../support/questions.ts";
import { Sidecar } from "../support/sidecar.ts";
import { proves } from "./proves.ts";

const QUESTIONS = { questions: [elicitation("name")] };

describe("messages between clients and a server of sessions", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ flags: ["--tool-timeouts-ms", "wait_for_file=100"] }));
  const client = await sidecar.client();

  proves("messages arrive unchanged", async () => {
    const json = String.raw`{"b":1,"a":9007199254740993,"x-unknown":[1.0,1e400,-0],"caf\u00e9":"\ud800 😀","":{"id":1,"method":"x"}}`;
    const request = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"received","x-unknown":null,"arguments":${json}}}`;
    const line = resultText(JSON.parse((await client.post(request)).body) as JsonRpcMessage);
    // The names have no escapes, so that no two readers differ about them.
    const expected = request.replace(String.raw`caf\u00e9`, "café");
    expect(line.replace(/"id":\d+,"method":"tools/, '"id":2,"method":"tools')).toBe(expected);

    const params = { name: "raw_line", arguments: { line: `{ "result":${json} ,"id":$ID,"jsonrpc":"2.0"}` } };
    const { body } = await client.post({ jsonrpc: "2.0", id: "my id", method: "tools/call", params });
    expect(body).toBe(`{ "result":${json} ,"id":"my id","jsonrpc":"2.0"}`);
  });

  proves("clients never get messages of each other", async () => {
    const clients = await Promise.all(Array.from({ length: 5 }, () => sidecar.client()));
    const [one, other] = [await HeldCall.start(clients[0] ?? client, client), await HeldCall.start(clients[1] ?? client, client)];
    for (const step of [1, 2]) {
      await other.progress(step + 10);
      await one.progress(step);
    }
    await other.answer("of the other");
    await one.answer("of the one");
    expect(await (await one.stream).rest()).toEqual([progressOf(1), progressOf(2), answerOf("of the one")]);
    expect(await (await other.stream).rest()).toEqual([progressOf(11), progressOf(12), answerOf("of the other")]);
    await client.toolText("release");

    const calls: Promise<JsonRpcMessage>[] = [];
    const wireIds: number[] = [];
    for (const each of clients) {
      calls.push(each.callTool("hang", {}, 7));
      wireIds.push((await waitForHanging(client, calls.length)).at(-1) ?? -1);
    }
    // The id of another client's request, spelled so that a careless reader does not see it.
    const stolen = await client.post(String.raw`{"jsonrpc":"2.0","method":"ping","params":{},"i\u0064":${wireIds[0]}}`);
    expect(JSON.parse(stolen.body)).toEqual({ jsonrpc: "2.0", id: wireIds[0], result: {} });
    await client.toolText("release");
    expect((await Promise.all(calls)).map(resultText)).toEqual(wireIds.map((id) => `released ${id}`));
  });

  proves("a request that takes too long is cancelled", async () => {
    const { status, error } = await client.callTool("wait_for_file", { path: "/never" });
    expect([status, error?.code]).toEqual([200, -32001]);
    expect(error?.message).toContain("within 0.1 s (CLAW_MCP_STDIO_TOOL_TIMEOUTS_MS).");
    expect(await sidecar.waitForLog("request given up")).toMatchObject({ tool: "wait_for_file", setting: "TOOL_TIMEOUTS_MS" });
    expect(error?.data).toMatchObject({ code: "REQUEST_TIMEOUT", sent: true, retrySafe: false, timeoutMs: 100 });
    while (!(await readSeen(client)).at(-2)?.startsWith("notifications/cancelled"));
    expect(await client.toolText("echo", { text: "goes on" })).toBe("goes on");
  });

  proves("a stream that breaks is resumed", async () => {
    const call = await HeldCall.start(client, client);
    await call.progress(1);
    const broken = await call.stream;
    expect(await broken.messages(1)).toEqual([progressOf(1)]);
    broken.close();
    await call.progress(2);
    const other = await sidecar.client();
    const foreign = await other.get({ lastEventId: broken.lastEventId });
    expect([foreign.status, JSON.parse(foreign.body)]).toMatchObject([400, { error: { data: { code: "EVENT_NOT_FOUND" } } }]);
    await call.answer();
    using resumed = await client.openStream({ lastEventId: broken.lastEventId });
    expect(await resumed.rest()).toEqual([progressOf(2), answerOf()]);
  });

  proves("clients without a session use a server of sessions", async () => {
    const stateless = sidecar.modernClient();
    const { result } = await stateless.request("server/discover");
    expect(result).toMatchObject({ supportedVersions: expect.arrayContaining(["2026-07-28"]) as string[] });
    const reply = await stateless.callTool("progress", { steps: 2 }, { meta: { progressToken: "mine" } });
    expect(reply.notifications.map(({ params }) => params)).toEqual([1, 2].map((progress) => ({ progressToken: "mine", progress })));
    expect(reply).toMatchObject({ status: 200, result: { resultType: "complete", content: [{ text: "done" }] } });
    expect((await readWhere(stateless)).pid).toBe((await readWhere(client)).pid);
  });

  proves("clients without a session may use the same ids", async () => {
    await client.toolText("release");
    const [staying, leaving] = [sidecar.modernClient(), sidecar.modernClient()];
    const kept = staying.callTool("hang", {}, { id: 7 });
    const [keptId] = await waitForHanging(client, 1);
    const end = new AbortController();
    const left = leaving.callTool("hang", {}, { id: 7, signal: end.signal }).catch(String);
    const leftId = (await waitForHanging(client, 2)).find((id) => id !== keptId);
    expect((await leaving.notify("notifications/cancelled", { requestId: 7 })).status).toBe(202);
    expect(await readSeen(client)).not.toContain(`notifications/cancelled ${leftId}`);
    end.abort();
    await left;
    await waitForSeen(client, `notifications/cancelled ${leftId}`);
    expect(await readSeen(client)).not.toContain(`notifications/cancelled ${keptId}`);
    await client.toolText("release");
    expect(resultText(await kept)).toBe(`released ${keptId}`);
  });

  proves("questions of a server reach its client", async () => {
    const asked = await new McpClient(sidecar.url, { capabilities: ASKABLE }).open();
    using call = await asked.begin("ask", { method: "sampling/createMessage", params: { messages: [], maxTokens: 1 } });
    const question = await call.next();
    expect(question).toMatchObject({ method: "sampling/createMessage" });
    expect((await asked.answer(question, SAMPLED)).status).toBe(202);
    expect(JSON.parse(await call.toolText())).toMatchObject({ result: SAMPLED });

    const stateless = sidecar.modernClient({ capabilities: FORM_ELICITATION });
    const reply = await stateless.callTool("ask_all", QUESTIONS);
    expect(answersOf(await stateless.callTool("ask_all", QUESTIONS, answering(reply)))).toEqual({ name: ACCEPTED });
  });
});

describe("ISOLATION", async () => {
  const flags = ["--isolation", "session", "--max-private-servers", "2"];
  const sidecar = disposeAfterAll(await Sidecar.start({ flags }));

  proves("ISOLATION=session gives each client its own process", async () => {
    const clients = [await sidecar.client(), await sidecar.client()];
    const pids = await Promise.all(clients.map(async (client) => (await readWhere(client)).pid));
    expect(new Set(pids).size).toBe(2);
    await expect(sidecar.client()).rejects.toThrow("TOO_MANY_SERVERS");
    expect((await clients[0]?.end())?.status).toBe(204);
    await sidecar.waitForLog("mcp server ended", ({ childPid }) => childPid === pids[0]);
    expect(pids).not.toContain((await readWhere(await sidecar.client())).pid);
  });
});
