import { describe, expect, it } from "vitest";
import { ASKABLE } from "../support/mcp-client.ts";
import { ModernSdkClient, NEGOTIATIONS } from "../support/modern-sdk-client.ts";
import { offer } from "../support/offers.ts";
import { RestartableSidecar } from "../support/restartable-sidecar.ts";
import type { Answer } from "../support/sdk-client-questions.ts";
import { CLIENTS, InteropClient } from "../support/sdk-clients.ts";
import { receivedInitializes } from "../support/server-record.ts";
import { KEYED } from "../support/session-keys.ts";
import type { StartOptions } from "../support/sidecar.ts";

const PERSISTENT: StartOptions = { flags: ["--request-log", "all"], env: KEYED };
const TOKEN = "a-token-of-more-than-32-characters-0123456789";
const OFFER = offer({ tools: { listChanged: true }, prompts: { listChanged: true } });
const RESOURCES_CHANGED = JSON.stringify({ jsonrpc: "2.0", method: "notifications/resources/list_changed" });
const MODEL_ANSWER = { role: "assistant", model: "none", content: { type: "text", text: "asked again" } };
const QUESTION = { method: "sampling/createMessage", params: { messages: [], maxTokens: 1 } };
const ELICITATION = {
  method: "elicitation/create",
  params: { message: "Your name?", requestedSchema: { type: "object", properties: {} } },
};
const NEVER = "/never";
/** The SDK waits for a minute before it gives up a request by itself. */
const MAX_ERROR_MS = 20_000;

const answer: Answer = ({ method }) => (method === "roots/list" ? { roots: [] } : MODEL_ANSWER);

function timesInitialized({ sent }: InteropClient): number {
  return sent.filter(({ method }) => method === "initialize").length;
}

describe.each(CLIENTS)("a client of the SDK $sdk with a $lane server, after a kill of the sidecar", ({ sdk, lane }) => {
  it("its calls go on in the same session without initialize", async () => {
    await using sidecar = await RestartableSidecar.start(PERSISTENT);
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane, answer });
    const { sessionId } = client;
    const told = await receivedInitializes(client);
    for (let kills = 0; kills < 2; kills++) {
      await sidecar.killAndRestart();
      expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
      expect((await client.listTools()).length).toBeGreaterThan(0);
      // The next server is told the same as the first one.
      expect(await receivedInitializes(client)).toEqual(told);
      expect([client.sessionId, timesInitialized(client)]).toEqual([sessionId, 1]);
      await sidecar.current.waitForLog("request ended", (line) => line["tool"] === "lines");
      expect(sidecar.requests("initialize")).toEqual([]);
    }
    const own = { capabilities: ASKABLE, clientInfo: { name: "interop", version: "1.0.0" } };
    expect(told).toMatchObject([lane === "private" ? own : { clientInfo: { name: "claw-mcp-stdio" } }]);
  });

  it("the token is a key of sessions, too", async () => {
    await using sidecar = await RestartableSidecar.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } });
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane, answer, headers: { Authorization: `Bearer ${TOKEN}` } });
    await sidecar.killAndRestart();
    expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
    expect(timesInitialized(client)).toBe(1);
  });

  it.each([0, 2])("its stream with %d events opens again and announces that lists may have changed", async (events) => {
    await using sidecar = await RestartableSidecar.start({ env: { ...KEYED, FIXTURE_INITIALIZE_RESULT: OFFER } });
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane, answer, isPatient: true });
    expect(await client.streamStatus).toBe(200);
    await client.toolText("noise", { line: RESOURCES_CHANGED, count: events });
    for (let index = 0; index < events; index++) {
      await client.waitToHear("notifications/resources/list_changed");
      client.heard.shift();
    }
    await sidecar.killAndRestart();
    await client.waitToHear("notifications/tools/list_changed");
    await client.waitToHear("notifications/prompts/list_changed");
    expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
    expect(client.heard).toHaveLength(2);
  });

  it("its call with a stream ends with an error", async () => {
    await using sidecar = await RestartableSidecar.start({ env: KEYED });
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane, answer, isPatient: true });
    const progress = Promise.withResolvers<void>();
    const outcome = client
      .callTool("wait_for_file", { path: NEVER }, { onprogress: () => progress.resolve() })
      .then(() => "answered", String);
    await progress.promise;
    await sidecar.killAndRestart();
    const startMs = performance.now();
    expect(await outcome).toMatch(/^(McpError|ProtocolError): .*The response is lost here/);
    expect(performance.now() - startMs).toBeLessThan(MAX_ERROR_MS);
    expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
  });

  it("its call without a response yet ends with an error", async () => {
    await using sidecar = await RestartableSidecar.start({ env: KEYED });
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane, answer });
    const outcome = client.callTool("wait_for_file", { path: NEVER }).then(() => "answered", String);
    await sidecar.current.waitForLog(`waiting for ${NEVER}`);
    await sidecar.killAndRestart();
    expect(await outcome).toBe("TypeError: fetch failed");
    expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
  });
});

describe.each(CLIENTS.filter(({ lane }) => lane === "private"))("a client of the SDK $sdk that can be asked", ({ sdk, lane }) => {
  it("its next server asks it as the first one did, after a kill of the sidecar", async () => {
    await using sidecar = await RestartableSidecar.start(PERSISTENT);
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane, answer });
    expect(JSON.parse(await client.toolText("ask", QUESTION))).toMatchObject({ result: MODEL_ANSWER });
    await sidecar.killAndRestart();
    expect(JSON.parse(await client.toolText("ask", QUESTION))).toMatchObject({ result: MODEL_ANSWER });
    expect(JSON.parse(await client.toolText("ask", { method: "roots/list" }))).toMatchObject({ result: { roots: [] } });
    expect(client.asked.map(({ method }) => method)).toEqual(["sampling/createMessage", "sampling/createMessage", "roots/list"]);
  });
});

describe.each(NEGOTIATIONS)("a client of 2026-07-28 (%s), after a kill of the sidecar", (negotiation) => {
  it("its calls go on without another discovery", async () => {
    await using sidecar = await RestartableSidecar.start({});
    await using client = await ModernSdkClient.connect(sidecar.url, negotiation);
    expect(await client.toolText("echo", { text: "first" })).toBe("first");
    client.sent.length = 0;
    await sidecar.killAndRestart();
    expect(await client.toolText("echo", { text: "second" })).toBe("second");
    expect(client.sent).toEqual(["POST tools/call"]);
  });

  it("servers can ask it again", async () => {
    await using sidecar = await RestartableSidecar.start({});
    await using client = await ModernSdkClient.connect(sidecar.url, negotiation, { elicitation: { form: {} } });
    client.setRequestHandler("elicitation/create", () => ({ action: "decline" }));
    for (let kills = 0; kills < 2; kills++) {
      expect(JSON.parse(await client.toolText("ask", ELICITATION))).toMatchObject({ result: { action: "decline" } });
      await sidecar.killAndRestart();
    }
    expect(JSON.parse(await client.toolText("ask", ELICITATION))).toMatchObject({ result: { action: "decline" } });
  });
});
