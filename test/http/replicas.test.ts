import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { TempDir } from "../support/temp-dir.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { offer, readWhere } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { ASKABLE, type ClientOptions, McpClient } from "../support/mcp-client.ts";
import type { ModernClient } from "../support/modern-client.ts";
import { ACCEPTED, ALL_QUESTIONS, answering, answersOf, elicitation, inputRequired } from "../support/questions.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar, StartOptions } from "../support/running-sidecar.ts";
import { eventIdAt, readStatus } from "../support/status.ts";

const KEY = "0123456789abcdef".repeat(3);
const TOKEN = "a-token-of-at-least-32-characters-";
const NOT_FOUND = errorReply(404, -32001, "SESSION_NOT_FOUND", { id: 2 });
const PING = { jsonrpc: "2.0", id: 2, method: "ping" };
/** Declares changes of all lists. */
const LISTS = {
  FIXTURE_INITIALIZE_RESULT: offer({ tools: { listChanged: true }, prompts: { listChanged: true }, resources: {} }),
};

function start({ env = {}, ...options }: StartOptions = {}): Promise<RunningSidecar> {
  return HttpBench.start({ ...options, env: { CLAW_MCP_STDIO_SESSION_KEY: KEY, ...env } });
}

function at(replica: RunningSidecar, { sessionId }: McpClient, options: ClientOptions = {}): McpClient {
  return new McpClient(replica.url, { ...options, sessionId });
}

describe("a session of another replica", async () => {
  const [one, other] = [disposeAfterAll(await start({ env: LISTS })), disposeAfterAll(await start({ env: LISTS }))];

  it("requests, notifications and streams work without another initialize", async () => {
    const client = at(other, await one.client());
    expect(await client.toolText("echo", { text: "here" })).toBe("here");
    expect((await client.notify("notifications/x-here")).status).toBe(202);
    expect(JSON.parse(await client.toolText("seen"))).toContain("notifications/x-here");
    using stream = await client.openStream();
    await client.notify("notifications/x-write", { line: '{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}' });
    expect((await stream.messages(3)).at(-1)).toMatchObject({ method: "notifications/prompts/list_changed" });
  });

  it("nothing is stored before its first request", async () => {
    const before = (await readStatus(other)).sessions;
    const client = await one.client();
    expect((await readStatus(other)).sessions).toBe(before);
    await at(other, client).request("ping");
    await at(other, client).request("ping");
    expect((await readStatus(other)).sessions).toBe(before + 1);
  });

  it("the first GET stream says that lists may have changed, once", async () => {
    const client = at(other, await one.client());
    await client.request("ping");
    using stream = await client.openStream();
    const changed = ["tools", "prompts"].map((list) => ({ jsonrpc: "2.0", method: `notifications/${list}/list_changed` }));
    expect(await stream.messages(2)).toEqual(changed);
    using again = await client.openStream();
    await client.notify("notifications/x-write", { line: '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}' });
    expect(await again.messages(1)).toEqual(changed.slice(0, 1));
  });

  it("a GET stream of the other replica is replaced by a new one", async () => {
    const owner = await one.client();
    const client = at(other, owner);
    using stream = await client.openStream({ lastEventId: await eventIdAt(one, "s1-3") });
    expect(await stream.messages(2)).toHaveLength(2);
    expect(stream.lastEventId).toContain((await readStatus(other)).replica);
  });

  it.each(["7", '"seven"', '"\\u00e9\\n"'])("the request %s, whose stream is at the other replica, gets an error, once", async (idText) => {
    const client = at(other, await one.client());
    const request = Buffer.from(idText).toString("base64url");
    using stream = await client.openStream({ lastEventId: `${await eventIdAt(one, "r1-0")}-${request}` });
    const events = await stream.rest();
    expect(events).toEqual([
      {
        jsonrpc: "2.0",
        id: JSON.parse(idText) as unknown,
        error: expect.objectContaining({ data: expect.anything() as object }) as object,
      },
    ]);
    expect(events[0]?.error?.data).toMatchObject({ code: "OTHER_REPLICA", sent: true, retrySafe: false });
    // A client that reconnects again has missed nothing.
    expect((await client.get({ lastEventId: stream.lastEventId })).status).toBe(204);
  });

  it("a stream of a batch at the other replica cannot be resumed", async () => {
    const client = at(other, await one.client());
    const reply = await client.get({ lastEventId: await eventIdAt(one, "r1-0") });
    expect(readError(reply)).toStrictEqual(errorReply(400, -32000, "EVENT_NOT_FOUND"));
  });

  it("a session that has ended stays ended there, and only there", async () => {
    const client = await one.client();
    const elsewhere = at(other, client);
    expect((await elsewhere.end()).status).toBe(204);
    expect(readError(await elsewhere.post(PING))).toStrictEqual(NOT_FOUND);
    expect((await elsewhere.end()).status).toBe(404);
    expect((await client.request("ping")).status).toBe(200);
    expect((await client.end()).status).toBe(204);
    expect(readError(await client.post(PING))).toStrictEqual(NOT_FOUND);
  });

  it("a request with an unsupported revision does not take the session up", async () => {
    const client = at(other, await one.client(), { headers: { "MCP-Protocol-Version": "1.0" } });
    const before = (await readStatus(other)).sessions;
    expect((await client.post(PING)).status).toBe(400);
    expect((await readStatus(other)).sessions).toBe(before);
  });

  it("a batch is answered in a session of a revision with batches", async () => {
    const client = at(other, await one.client({ protocolVersion: "2025-03-26" }));
    const { status, body } = await client.post([PING, { ...PING, id: 3 }]);
    expect([status, JSON.parse(body)]).toEqual([200, [2, 3].map((id) => ({ jsonrpc: "2.0", id, result: {} }))]);
    expect((await at(other, await one.client()).post([PING])).status).toBe(400);
  });

  it("a long body is read for a session of another replica, and for no other", async () => {
    const text = "x".repeat(200_000);
    const client = await one.client();
    expect(await at(other, client).toolText("echo", { text })).toBe(text);
    const altered = new McpClient(other.url, { sessionId: `${client.sessionId.slice(0, -1)}=` });
    expect((await altered.callTool("echo", { text })).status).toBe(404);
  });
});

describe("a client with a private server at another replica", async () => {
  const flags = ["--isolation", "session"];
  const [one, other] = [disposeAfterAll(await start({ flags })), disposeAfterAll(await start({ flags }))];

  it.each([
    ["session", { name: "raw", version: "1" }],
    ["auto", { name: "claw-mcp-stdio", version: "0.0.0-bench" }],
  ])("with ISOLATION=%s, the client gets a server there, told the same capabilities and the name %j", async (isolation, clientInfo) => {
    const options = { flags: ["--isolation", isolation] };
    await using first = await start(options);
    await using second = await start(options);
    const [owner, sharedPid] = [await LaneClient.connect(first), second.childPid];
    const client = new LaneClient(second.url, { accept: "application/json", sessionId: owner.sessionId });
    expect(await readWhere(client)).not.toMatchObject({ pid: sharedPid });
    const [initialize, initialized] = await client.lines();
    const { params } = JSON.parse(initialize ?? "") as { params: object };
    expect(params).toEqual({ protocolVersion: "2025-11-25", capabilities: ASKABLE, clientInfo });
    expect(JSON.parse(initialized ?? "")).toEqual({ jsonrpc: "2.0", method: "notifications/initialized" });
    // The first server is as before.
    expect(await readWhere(owner)).toMatchObject({ pid: owner.childPid });
  });

  it("a strict server is initialized at each replica, whichever gets the notification of its client", async () => {
    await using first = await start({ mode: "strict" });
    await using second = await start({ mode: "strict" });
    const client = await LaneClient.connectUninitialized(first);
    await at(second, client).notify("notifications/initialized");
    for (const replica of [first, second, first]) expect(await at(replica, client).toolText("echo", { text: "ready" })).toBe("ready");
  });

  it("its new server can ask it", async () => {
    const client = at(other, await LaneClient.connect(one));
    using call = await client.begin("ask", { method: "roots/list" });
    const asked = await call.next();
    expect((await client.answer(asked, { roots: [] })).status).toBe(202);
    expect(JSON.parse((await call.toolText()) ?? "")).toEqual({ jsonrpc: "2.0", id: "ask", result: { roots: [] } });
  });

  it("an answer to a server elsewhere is refused, whether or not a server runs here", async () => {
    const before = (await readStatus(other)).lanes.private.servers;
    const owner = await LaneClient.connect(one);
    const client = at(other, owner);
    using call = await owner.begin("ask", { method: "roots/list" });
    const asked = await call.next();
    const refused = errorReply(409, -32000, "OTHER_REPLICA", { data: { retrySafe: false } });
    expect(readError(await client.answer(asked))).toStrictEqual(refused);
    expect((await readStatus(other)).lanes.private.servers).toBe(before);
    await client.request("ping");
    expect(readError(await client.answer(asked))).toStrictEqual(refused);
    expect((await owner.answer(asked, { roots: [] })).status).toBe(202);
    expect(await call.toolText()).toContain('"roots"');
  });

  it("an answer for a server without sessions is refused elsewhere, and accepted where it asked", async () => {
    await using first = await start({ mode: "modern-only" });
    await using second = await start({ mode: "modern-only" });
    const client = await first.client({ capabilities: ASKABLE });
    using call = await client.begin("ask_input", { inputRequests: { roots: { method: "roots/list" } } });
    const asked = await call.next();
    expect(readError(await at(second, client).answer(asked))).toStrictEqual(
      errorReply(409, -32000, "OTHER_REPLICA", { data: { retrySafe: false } }),
    );
    expect((await client.answer(asked, { roots: [] })).status).toBe(202);
    expect(await call.toolText()).toContain('"roots"');
  });

  it("a notification alone does not start a server", async () => {
    const before = (await readStatus(other)).lanes.private.servers;
    const client = at(other, await LaneClient.connect(one));
    expect((await client.notify("notifications/initialized")).status).toBe(202);
    expect((await client.notify("notifications/roots/list_changed")).status).toBe(202);
    expect((await readStatus(other)).lanes.private.servers).toBe(before);
  });

  it("MAX_PRIVATE_SERVERS holds for clients of other replicas", async () => {
    await using small = await start({ flags: ["--max-private-servers", "1"] });
    const [first, second] = [await LaneClient.connect(one), await LaneClient.connect(one)];
    using call = await at(small, first).begin("ask", { method: "roots/list" });
    await call.next();
    const reply = await at(small, second).post(PING);
    expect([reply.status, reply.headers["retry-after"]]).toEqual([503, expect.stringMatching(/^\d+$/)]);
    expect(JSON.parse(reply.body)).toMatchObject({ id: 2, error: { data: { code: "TOO_MANY_SERVERS" } } });
  });

  it("two requests at once get one server", async () => {
    const client = at(other, await LaneClient.connect(one));
    const pids = await Promise.all([readWhere(client), readWhere(client), readWhere(client)]);
    expect(new Set(pids.map(({ pid }) => pid)).size).toBe(1);
  });
});

describe("the key of a session", () => {
  const withToken = { CLAW_MCP_STDIO_SESSION_KEY: "", CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN };

  it.each<[string, object, number]>([
    ["another key", { CLAW_MCP_STDIO_SESSION_KEY: `${KEY}x` }, 404],
    ["the same key behind a newer one", { CLAW_MCP_STDIO_SESSION_KEY: `${KEY}x,${KEY}` }, 200],
    ["another SERVER_NAME", { CLAW_MCP_STDIO_SERVER_NAME: "weather" }, 404],
    ["no key and no token", { CLAW_MCP_STDIO_SESSION_KEY: "" }, 404],
  ])("a replica with %s answers %j with %i", async (_what, env, status) => {
    await using one = await start();
    await using other = await start({ env: env as Record<string, string> });
    expect((await at(other, await one.client()).request("ping")).status).toBe(status);
  });

  it.each([
    ["a short token", ["short-token-of-20-ch"], true],
    ["a short and a long token", [TOKEN, "short-token-of-20-ch"], true],
    ["a long token", [TOKEN], false],
  ])("with %s, the log says if keys are random", async (_what, tokens, isRandom) => {
    await using directory = await TempDir.create();
    await writeFile(directory.file("tokens"), tokens.join("\n"));
    const env = { CLAW_MCP_STDIO_SESSION_KEY: "", CLAW_MCP_STDIO_AUTH_TOKEN_FILE: directory.file("tokens") };
    await using sidecar = await start({ env });
    await sidecar.waitForLog("listening");
    const messages = sidecar.logLines.map(({ msg }) => msg);
    expect(messages.includes("session keys are random: sessions end with the sidecar")).toBe(isRandom);
  });

  it("sessions with keys that their clients do not know do not count for SESSIONS_PER_MINUTE", async () => {
    const env = { ...withToken, CLAW_MCP_STDIO_SESSION_KEY: KEY };
    await using one = await start({ env });
    await using other = await start({ env, flags: ["--sessions-per-minute", "1"] });
    for (let times = 0; times < 2; times++) {
      const client = await one.client({ token: TOKEN });
      expect((await at(other, client, { token: TOKEN }).post(PING)).status).toBe(200);
    }
  });

  it("the log names the keys, with the same names at each replica of a server", async () => {
    const names = async (env: Record<string, string>): Promise<unknown> => {
      await using sidecar = await start({ env });
      return (await sidecar.waitForLog("session keys loaded"))["keys"];
    };
    const keys = { CLAW_MCP_STDIO_SESSION_KEY: `${KEY}x,${KEY}` };
    const [both, one, other] = [await names(keys), await names({}), await names({ CLAW_MCP_STDIO_SERVER_NAME: "weather" })];
    expect(both).toEqual([expect.stringMatching(/^[0-9a-f]{8}$/), (one as string[])[0]]);
    expect(other).not.toEqual(one);
  });
});

describe("a stateless call that waits at another replica", () => {
  it("its state names its replica, and another one refuses it at once", async () => {
    await using one = await start();
    await using other = await start();
    const [asking, elsewhere] = [one, other].map((replica) => replica.modernClient({ capabilities: ALL_QUESTIONS })) as [
      ModernClient,
      ModernClient,
    ];
    const question = { questions: [elicitation("name")] };
    const reply = await asking.callTool("ask_all", question);
    const { replica } = await readStatus(one);
    expect(inputRequired(reply).requestState).toMatch(new RegExp(`^${replica}\\.`));
    const { error } = await elsewhere.callTool("ask_all", question, answering(reply));
    expect(error).toMatchObject({
      message: expect.stringContaining(`Another replica has it (${replica}`) as string,
      data: { code: "REQUEST_STATE_INVALID" },
    });
    expect(answersOf(await asking.callTool("ask_all", question, answering(reply)))).toEqual({ name: ACCEPTED });
  });
});
