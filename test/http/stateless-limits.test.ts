import { Agent } from "node:http";
import { describe, expect, it } from "vitest";
import { failureOf } from "../support/error-reply.ts";
import { META, type ModernClient, type ModernListen, type ModernReply } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { offer } from "../support/fixture-server.ts";
import { TempDir } from "../support/temp-dir.ts";
import { flagsForTokens, TOKENS, tokenClients } from "../support/token-clients.ts";

const [FIRST, SECOND] = TOKENS;

async function statuses(client: ModernClient, count: number): Promise<number[]> {
  const found: number[] = [];
  for (let call = 0; call < count; call++) found.push((await client.callTool("echo", { text: "x" })).status);
  return found;
}

function busy(reply: ModernReply): readonly unknown[] {
  return [...failureOf(reply), reply.headers["retry-after"], reply.error?.data?.["sent"]];
}

describe("SESSION_CALLS_PER_MINUTE for clients without a session", () => {
  const FLAGS = ["--session-calls-per-minute", "3"];

  it("each token has a rate of its own, whatever its connections and names", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await HttpBench.start({ flags: [...FLAGS, ...(await flagsForTokens(directory))] });
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

function closing(agent: Agent): { readonly value: Agent } & Disposable {
  return { value: agent, [Symbol.dispose]: () => agent.destroy() };
}

describe("the resources of subscriptions", () => {
  it.each([
    {
      what: "with sessions",
      mode: "keeps-state",
      env: { FIXTURE_INITIALIZE_RESULT: offer({ tools: {}, resources: { subscribe: true } }) },
    },
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
