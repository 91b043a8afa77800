import { writeFile } from "node:fs/promises";
import { Agent } from "node:http";
import { describe, expect, it } from "vitest";
import { failureOf } from "../support/failure.ts";
import { waitForHanging } from "../support/in-flight.ts";
import { LaneClient } from "../support/lane-client.ts";
import { META, type ModernClient, type ModernReply } from "../support/modern-client.ts";
import type { ModernListen } from "../support/modern-listen.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";
import { flagsForTokens, tokenClients } from "../support/token-clients.ts";

const [FIRST, SECOND] = ["first-token-0123456789", "second-token-0123456789"];

/** Writes a file of two tokens. @returns the flags for it. */
async function tokenFlags(directory: TempDir): Promise<string[]> {
  await writeFile(directory.file("tokens"), `${FIRST}\n${SECOND}\n`);
  return ["--auth-token-file", directory.file("tokens")];
}

/** Makes this number of calls. @returns their statuses. */
async function statuses(client: ModernClient, count: number): Promise<number[]> {
  const found: number[] = [];
  for (let call = 0; call < count; call++) found.push((await client.callTool("echo", { text: "x" })).status);
  return found;
}

/** Returns the error, and the seconds after which its client may try again. */
function busy(reply: ModernReply): readonly unknown[] {
  return [...failureOf(reply), reply.headers["retry-after"], reply.error?.data?.["sent"]];
}

describe("SESSION_CALLS_PER_MINUTE for clients without a session", () => {
  const FLAGS = ["--session-calls-per-minute", "3"];

  it("each token has a rate of its own, whatever its connections and names", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await HttpBench.start({ flags: [...FLAGS, ...(await tokenFlags(directory))] });
    using agent = closing(new Agent({ keepAlive: true, localAddress: "127.0.0.2" }));
    const first = sidecar.modernClient({ token: FIRST });
    const startedAtMs = performance.now();
    expect(await statuses(first, 3)).toEqual([200, 200, 200]);
    const refused = await first.callTool("echo", {}, { id: "over" });
    const [status, code, dataCode, seconds, sent] = busy(refused);
    expect([status, code, dataCode, sent, refused.id]).toEqual([429, -32603, "RATE_LIMITED", false, "over"]);
    // A third of a minute from the first call on.
    expect(Number(seconds)).toBeLessThanOrEqual(20);
    expect(Number(seconds)).toBeGreaterThanOrEqual(20 - Math.ceil((performance.now() - startedAtMs) / 1000));
    expect(await statuses(sidecar.modernClient({ token: FIRST, agent: agent.value }), 1)).toEqual([429]);
    const renamed = await first.callTool("echo", {}, { meta: { [META.clientInfo]: { name: "another", version: "2" } } });
    expect(renamed.status).toBe(429);
    expect(await statuses(sidecar.modernClient({ token: SECOND }), 4)).toEqual([200, 200, 200, 429]);
  });

  it("without tokens, each address has a rate of its own", async () => {
    await using sidecar = await HttpBench.start({ flags: FLAGS });
    using agent = closing(new Agent({ keepAlive: true, localAddress: "127.0.0.2" }));
    expect(await statuses(sidecar.modernClient(), 4)).toEqual([200, 200, 200, 429]);
    expect(await statuses(sidecar.modernClient({ agent: agent.value }), 4)).toEqual([200, 200, 200, 429]);
  });

  it("a session has its own rate besides", async () => {
    await using sidecar = await HttpBench.start({ flags: FLAGS });
    expect(await statuses(sidecar.modernClient(), 4)).toEqual([200, 200, 200, 429]);
    expect((await (await sidecar.client()).callTool("echo")).status).toBe(200);
  });

  it("a discovery and lists are served above the rate", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--session-calls-per-minute", "1", "--sessions-per-minute", "1"] });
    const client = sidecar.modernClient();
    expect(await statuses(client, 2)).toEqual([200, 429]);
    for (let round = 0; round < 3; round++) {
      expect((await client.request("server/discover")).status).toBe(200);
      expect((await client.request("tools/list")).status).toBe(200);
    }
  });
});

describe("TOOL_CALLS_PER_MINUTE for clients without a session", () => {
  it("the rate of a tool covers sessions and clients without one", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--tool-calls-per-minute", "echo=2"] });
    const session = await sidecar.client();
    expect((await session.callTool("echo")).status).toBe(200);
    expect(await statuses(sidecar.modernClient(), 2)).toEqual([200, 429]);
    expect((await session.callTool("echo")).status).toBe(429);
  });
});

describe("MAX_SESSION_REQUESTS for clients without a session", () => {
  it("each token has a limit of its own, and a discovery has none", async () => {
    await using directory = await TempDir.create();
    const flags = ["--max-session-requests", "2", ...(await tokenFlags(directory))];
    await using sidecar = await HttpBench.start({ flags });
    const control = await new LaneClient(sidecar.url, { token: SECOND, accept: "application/json" }).open();
    const client = sidecar.modernClient({ token: FIRST });
    const held = [client.callTool("hang"), client.callTool("hang")];
    await waitForHanging(control, 2);
    expect(busy(await client.callTool("echo"))).toEqual([429, -32603, "SESSION_OVERLOADED", "1", false]);
    expect((await client.request("server/discover")).status).toBe(200);
    expect(await statuses(sidecar.modernClient({ token: SECOND }), 1)).toEqual([200]);
    await control.toolText("release");
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200]);
    expect(await statuses(client, 1)).toEqual([200]);
  });
});

describe("the slots of a server", () => {
  it("clients without a session take turns, by token", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await HttpBench.start({ flags: ["--max-in-flight", "1", ...(await tokenFlags(directory))] });
    const [busyClient, other] = [sidecar.modernClient({ token: FIRST }), sidecar.modernClient({ token: SECOND })];
    await statuses(other, 1);
    const order: string[] = [];
    const call = async (client: ModernClient, name: string): Promise<void> => {
      await client.callTool("echo", { text: name });
      order.push(name);
    };
    const gate = directory.file("gate");
    const first = busyClient.callTool("wait_for_file", { path: gate });
    await sidecar.waitForLog(`waiting for ${gate}`);
    const flood = Array.from({ length: 6 }, (_, index) => call(busyClient, `flood ${index}`));
    await waitForWaiting(sidecar, 6);
    const single = call(other, "single");
    await waitForWaiting(sidecar, 7);
    await writeFile(gate, "");
    await Promise.all([first, single, ...flood]);
    expect(order.indexOf("single")).toBeLessThanOrEqual(1);
  });
});

describe("the removal of a token", () => {
  it("the calls of its client without a session end, and others go on", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await HttpBench.start({ flags: await tokenFlags(directory) });
    const control = await new LaneClient(sidecar.url, { token: SECOND, accept: "application/json" }).open();
    const client = sidecar.modernClient({ token: FIRST });
    const held = [client.callTool("hang"), sidecar.modernClient({ token: SECOND }).callTool("hang")] as const;
    await waitForHanging(control, 2);
    await writeFile(directory.file("tokens"), `${SECOND}\n`);
    expect(failureOf(await held[0])).toEqual([200, -32603, "REQUEST_CANCELLED"]);
    expect((await client.callTool("echo")).status).toBe(401);
    await control.toolText("release");
    expect((await held[1]).status).toBe(200);
  });
});

function closing(agent: Agent): { readonly value: Agent } & Disposable {
  return { value: agent, [Symbol.dispose]: () => agent.destroy() };
}

async function waitForWaiting(sidecar: RunningSidecar, count: number): Promise<void> {
  while ((await readStatus(sidecar, { Authorization: `Bearer ${SECOND}` })).lanes.shared.waiting !== count);
}

describe("the resources of subscriptions", () => {
  const capabilities = { tools: {}, resources: { subscribe: true } };
  const result = JSON.stringify({ protocolVersion: "2025-11-25", capabilities, serverInfo: { name: "fixture", version: "1" } });

  it.each([
    { what: "with sessions", mode: "keeps-state", env: { FIXTURE_INITIALIZE_RESULT: result } },
    { what: "without sessions", mode: "modern-only", env: {} },
  ])("a client watches at most 10,000 in all its subscriptions, server $what", async ({ mode, env }) => {
    await using directory = await TempDir.create();
    await using sidecar = await HttpBench.start({ mode, env, flags: await flagsForTokens(directory) });
    const [client, other] = tokenClients(sidecar, {});
    const filter = { resourceSubscriptions: Array.from({ length: 1000 }, (_, index) => `x://${index}`) };
    const [first, ...more] = await Promise.all(Array.from({ length: 10 }, () => client.listen(filter)));
    const refused = await client.request("subscriptions/listen", { notifications: { resourceSubscriptions: ["x://1"] } });
    expect([refused.status, refused.error?.data]).toMatchObject([429, { code: "SESSION_OVERLOADED", sent: false, retryAfterSeconds: 1 }]);
    await using ofOther = await other.listen(filter);
    expect(ofOther.accepted).toEqual(filter);
    await first?.close();
    // The sidecar notices the end of the connection.
    const again = async (): Promise<ModernListen> => client.listen(filter).catch(again);
    for (const listen of [await again(), ...more]) await listen.close();
  });
});
