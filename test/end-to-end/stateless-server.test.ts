import { expect } from "vitest";
import { crash, readSeen } from "../support/fixture-server.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { TempDir } from "../support/temp-dir.ts";
import { failureOf } from "../support/error-reply.ts";
import { resultText } from "../support/json-rpc.ts";
import { McpClient } from "../support/mcp-client.ts";
import { META, type ModernCall } from "../support/modern-client.ts";
import { ACCEPTED, FORM_ELICITATION, UNKNOWN_STATE } from "../support/questions.ts";
import { waitForGeneration } from "../support/status.ts";
import { Sidecar } from "../support/sidecar.ts";
import { flagsForTokens, TOKENS, tokenClients } from "../support/token-clients.ts";
import { proves } from "./proves.ts";

const [FIRST] = TOKENS;
const FORM = { method: "elicitation/create", params: { message: "Your name?", requestedSchema: { type: "object", properties: {} } } };
const LIST = { toolsListChanged: true };

const directory = disposeAfterAll(await TempDir.create());
const flags = [...(await flagsForTokens(directory)), "--restart-backoff-ms", "1", "--restart-max-ms", "20"];
const sidecar = disposeAfterAll(await Sidecar.start({ mode: "modern-only", flags }));
const [client, other] = tokenClients(sidecar, FORM_ELICITATION);

proves("clients of sessions use a server without sessions", async () => {
  const session = new McpClient(sidecar.url, { token: FIRST, protocolVersion: "2025-06-18" });
  expect((await session.initialize()).result).toMatchObject({ protocolVersion: "2025-06-18", capabilities: { tools: {} } });
  expect((await session.request("ping")).result).toEqual({});
  const { result } = await session.request("tools/call", { name: "meta", arguments: {}, _meta: { "example.com/own": 1 } });
  expect(result).not.toHaveProperty("resultType");
  expect(JSON.parse(result?.content?.[0]?.text ?? "")).toEqual({
    "example.com/own": 1,
    [META.protocolVersion]: "2026-07-28",
    [META.clientInfo]: { name: "raw", version: "1" },
    [META.clientCapabilities]: {},
  });
  const asked = await sidecar.client({ token: FIRST, capabilities: { elicitation: {} } });
  using call = await asked.begin("ask_input", { inputRequests: { name: FORM } });
  const question = await call.next();
  expect(question).toMatchObject(FORM);
  await asked.answer(question, ACCEPTED);
  expect(JSON.parse(await call.toolText())).toMatchObject({ inputResponses: { name: ACCEPTED } });
});

proves("a question reaches only a client that has declared it", async () => {
  const undeclared = sidecar.modernClient({ token: FIRST });
  expect(failureOf(await undeclared.callTool("ask_input", { inputRequests: { name: FORM } }))).toEqual([400, -32021, "MISSING_CAPABILITY"]);
  const session = await sidecar.client({ token: FIRST });
  const { error } = await session.callTool("ask_input", { inputRequests: { name: FORM } });
  expect([error?.code, error?.data?.["code"]]).toEqual([-32021, "MISSING_CAPABILITY"]);
});

proves("the state of a server is sealed for one token", async () => {
  const { result } = await client.callTool("ask_input");
  const { requestState } = result as unknown as { readonly requestState: string };
  const call: ModernCall = { requestState, inputResponses: { name: ACCEPTED } };
  const before = (await readSeen(client)).length;
  const misuses = [
    await other.callTool("ask_input", {}, call),
    await client.callTool("received", {}, call),
    await client.request("prompts/get", { name: "ask_input" }, call),
    await client.callTool("ask_input", {}, { ...call, requestState: requestState.slice(0, -4) }),
    await client.callTool("ask_input", {}, { ...call, requestState: "forged" }),
  ];
  expect(misuses.map(failureOf)).toEqual(misuses.map(() => UNKNOWN_STATE));
  expect(await readSeen(client)).toHaveLength(before + 1);
  const answered = resultText(await client.callTool("ask_input", {}, call));
  expect(JSON.parse(answered)).toMatchObject({ inputResponses: { name: ACCEPTED } });
  expect(answered).not.toContain(requestState);
});

proves("a subscription without a session survives a restart", async () => {
  await using listen = await client.listen(LIST, { id: "mine" });
  await crash(sidecar);
  await waitForGeneration(sidecar, 2);
  expect(await listen.next()).toMatchObject({ method: "notifications/tools/list_changed" });
  await client.toolText("change_list", { list: "tools" });
  expect(await listen.next()).toMatchObject({ method: "notifications/tools/list_changed" });
  expect(await sidecar.stop()).toBe(0);
  expect(await listen.rest()).toMatchObject([{ id: "mine", result: { _meta: { [META.subscriptionId]: "mine" } } }]);
});
