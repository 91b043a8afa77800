import { writeFile } from "node:fs/promises";
import { Agent } from "node:http";
import { describe, expect, it } from "vitest";
import { waitForHanging, waitForSeen, readSeen } from "../support/in-flight.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { META, type ModernCall, type ModernClient, type ModernClientOptions, type ModernReply } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { StartOptions, RunningSidecar } from "../support/running-sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const FIRST = "first-token-0123456789";
const SECOND = "second-token-0123456789";

/** Starts a sidecar with two tokens. */
async function startWithTokens(directory: TempDir, options: StartOptions = {}): Promise<RunningSidecar> {
  const file = directory.file("tokens");
  await writeFile(file, `${FIRST}\n${SECOND}\n`);
  return HttpBench.start({ ...options, flags: ["--auth-token-file", file, ...(options.flags ?? [])] });
}

/** Options of a call by a client that gives itself this name. */
function named(name: string): ModernCall {
  return { meta: { [META.clientInfo]: { name, version: "1" } } };
}

function codeOf({ status, error }: ModernReply): readonly unknown[] {
  return [status, error?.data?.["code"]];
}

/**
 * Uses up the limit of the first client, under several names.
 *
 * @returns the outcome of one more call of each client. The second one uses a name of the first.
 */
async function callAboveLimit(sidecar: RunningSidecar, first: ModernClientOptions, second: ModernClientOptions): Promise<unknown[]> {
  const [client, other] = [sidecar.modernClient(first), sidecar.modernClient(second)];
  const control = await sidecar.client(first.token === undefined ? {} : { token: first.token });
  const leaving = new AbortController();
  const held = ["a", "b"].map((name) => client.callTool("hang", {}, { ...named(name), signal: leaving.signal }).catch(String));
  await waitForHanging(control, 2);
  const outcomes = [await client.callTool("echo", {}, named("c")), await other.callTool("echo", {}, named("a"))].map(codeOf);
  leaving.abort();
  await Promise.all(held);
  return outcomes;
}

const OWN_LIMITS = [
  [429, "SESSION_OVERLOADED"],
  [200, undefined],
];

describe("the limits of clients without a session", () => {
  it("each token has its own limit, whatever name its clients have", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await startWithTokens(directory, { flags: ["--max-session-requests", "2"] });
    expect(await callAboveLimit(sidecar, { token: FIRST }, { token: SECOND })).toEqual(OWN_LIMITS);
  });

  it("without tokens, each network address has its own limit", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-session-requests", "2"] });
    const agent = new Agent({ localAddress: "127.0.0.2" });
    expect(await callAboveLimit(sidecar, {}, { agent })).toEqual(OWN_LIMITS);
    agent.destroy();
  });

  it("the rate of calls is that of the token", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await startWithTokens(directory, { flags: ["--session-calls-per-minute", "1"] });
    const [client, other] = [sidecar.modernClient({ token: FIRST }), sidecar.modernClient({ token: SECOND })];
    expect(codeOf(await client.callTool("echo", {}, named("a")))).toEqual([200, undefined]);
    expect(codeOf(await client.callTool("echo", {}, named("b")))).toEqual([429, "RATE_LIMITED"]);
    expect(codeOf(await other.callTool("echo", {}, named("a")))).toEqual([200, undefined]);
  });
});

describe("two clients without a session that use the same id", () => {
  it("neither a cancellation nor the end of one client ends the other's call", async () => {
    await using sidecar = await HttpBench.start();
    const [client, other] = [sidecar.modernClient(), sidecar.modernClient()];
    const control = await sidecar.client();
    const kept = client.callTool("hang", {}, { id: 7 });
    const [wireId] = await waitForHanging(control, 1);
    const leaving = new AbortController();
    const left = other.callTool("hang", {}, { id: 7, signal: leaving.signal }).catch(String);
    const wireIds = await waitForHanging(control, 2);
    expect((await other.notify("notifications/cancelled", { requestId: 7 })).status).toBe(202);
    leaving.abort();
    await left;
    const leftId = wireIds.find((each) => each !== wireId);
    await waitForSeen(control, `notifications/cancelled ${leftId}`);
    expect(await readSeen(control)).not.toContain(`notifications/cancelled ${wireId}`);
    await control.toolText("release");
    expect(await kept).toMatchObject({ status: 200, id: 7, result: { content: [{ text: `released ${wireId}` }] } });
  });
});

describe("the state of a server's question", () => {
  it("a state of another token, another request or an attacker does not reach the server", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await startWithTokens(directory, { mode: "modern-only" });
    const [client, other] = [FIRST, SECOND].map((token) => sidecar.modernClient({ token, capabilities: { elicitation: {} } })) as [
      ModernClient,
      ModernClient,
    ];
    const asked = await client.callTool("ask_input", {});
    const { requestState } = asked.result as { requestState: string };
    const call: ModernCall = { requestState, inputResponses: { name: { action: "cancel" } } };
    for (const refused of [
      await other.callTool("ask_input", {}, call),
      await client.callTool("received", {}, call),
      await client.request("prompts/get", { name: "ask_input" }, call),
      await client.callTool("ask_input", {}, { ...call, requestState: requestState.slice(0, -4) }),
      await client.callTool("ask_input", {}, { ...call, requestState: "forged" }),
    ]) {
      expect(codeOf(refused)).toEqual([200, "REQUEST_STATE_INVALID"]);
    }
    expect((await client.callTool("ask_input", {}, call)).result).toMatchObject({ resultType: "complete" });
    const calls = JSON.parse(await client.toolText("seen")) as string[];
    expect(calls.filter((method) => method === "tools/call")).toHaveLength(3);
    expect(calls).not.toContain("prompts/get");
  });
});

describe("the removal of a token", () => {
  it("its subscriptions end, and those of another token go on", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await startWithTokens(directory, { mode: "modern-only" });
    const [client, other] = [sidecar.modernClient({ token: FIRST }), sidecar.modernClient({ token: SECOND })];
    await using ending = await client.listen({ toolsListChanged: true }, { id: "ending" });
    await using going = await other.listen({ toolsListChanged: true });
    await writeFile(directory.file("tokens"), `${SECOND}\n`);
    const messages: readonly JsonRpcMessage[] = await ending.rest();
    expect(messages).toEqual([
      { jsonrpc: "2.0", id: "ending", result: { resultType: "complete", _meta: { [META.subscriptionId]: "ending" } } },
    ]);
    await other.toolText("change_list", { list: "tools" });
    expect((await going.next()).method).toBe("notifications/tools/list_changed");
  });
});
