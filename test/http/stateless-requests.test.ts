import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { waitForHanging, Gate, readSeen } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import { send, type HttpCall } from "../support/http-client.ts";
import { type JsonRpcMessage, progressTokenOf, readResponse, resultText } from "../support/json-rpc.ts";
import { LaneClient } from "../support/lane-client.ts";
import { META, MODERN_VERSION, type ModernReply, type ModernClient } from "../support/modern-client.ts";
import { listedTool, type ListedTool, ListedTools } from "../support/listed-tools.ts";
import { failureOf } from "../support/error-reply.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { readStatus } from "../support/status.ts";

const RESERVED = Object.values(META)
  .map((key) => `"${key}":${key === META.protocolVersion ? '"2026-07-28"' : key === META.logLevel ? '"info"' : "{}"}`)
  .join(",");

describe("a request to a server of sessions", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();

  /** Sends a call of `received` with these members of its params. @returns the line that the server has received, with the id 5. */
  async function received(members: string): Promise<string> {
    const { headers } = client.compose("tools/call", { name: "received" });
    const body = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"received","arguments":{},${members}}}`;
    const reply = await send(sidecar.url, { headers, body });
    return resultText(readResponse(reply)).replace(/"id":\d+/, '"id":5');
  }

  function line(members: string): string {
    return `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"received","arguments":{},${members}}}`;
  }

  it("trace keys and unknown keys of _meta arrive byte for byte", async () => {
    const kept = [
      '"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"',
      '"tracestate" : "a=1,b=2"',
      '"baggage":"k=\\u0076;p"',
      '"com.example/x":{"a":1.0,"big":12345678901234567890,"a":[ ]}',
      '"io.modelcontextprotocolx/y":null',
    ].join(",");
    expect(await received(`"_meta":{${kept},${RESERVED}}`)).toBe(line(`"_meta":{${kept}}`));
    expect(await received(`"_meta":{${RESERVED},${kept}}`)).toBe(line(`"_meta":{${kept}}`));
  });

  it("no reserved key of _meta reaches the server, not even an unknown or escaped one", async () => {
    const others = '"io.modelcontextprotocol/unknown":{"deep":[1,{}]},"io.modelcontextprotocol\\/escaped":1';
    expect(await received(`"_meta":{${RESERVED},${others}}`)).toBe(line('"_meta":{}'));
    expect(await received(`"_meta":{"own":1,${others},${RESERVED},"last":2}`)).toBe(line('"_meta":{"own":1,"last":2}'));
  });

  it("answers without a state do not reach the server: it has asked nothing", async () => {
    const answers = '"input\\u0052esponses":{"k":{"action":"accept"}}';
    expect(await received(`${answers},"_meta":{${RESERVED}}`)).toBe(line('"_meta":{}'));
    expect(await received(`"_meta":{${RESERVED}},${answers}`)).toBe(line('"_meta":{}'));
  });

  it("arguments with the names of removed members stay", async () => {
    const args = { inputResponses: 1, requestState: "x", _meta: { [META.clientInfo]: 1 } };
    const text = await client.toolText("received", args);
    expect((JSON.parse(text) as JsonRpcMessage).params?.["arguments"]).toEqual(args);
  });

  it.each(["mine", 7, "7"])("the progress token %j is replaced for the server, and restored with its type", async (progressToken) => {
    const reply = await client.callTool("progress", { steps: 2 }, { id: "p", meta: { progressToken } });
    expect(reply.notifications).toEqual(
      [1, 2].map((progress) => ({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken, progress } })),
    );
    const seen = JSON.parse(await client.toolText("received", {}, { meta: { progressToken } })) as JsonRpcMessage;
    expect([typeof progressTokenOf(seen), progressTokenOf(seen)]).toEqual(["number", seen.id]);
  });

  it.each<string | number>(["a", "1", 1, 0, -1, 1.5, ""])("the id %j is restored with its type", async (id) => {
    expect((await client.callTool("echo", { text: "x" }, { id })).id).toBe(id);
  });

  it("the notifications of the server that belong to no request are dropped", async () => {
    const control = await LaneClient.connectShared(sidecar);
    const changed = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
    const foreign = { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: 999_999, progress: 1 } };
    const call = client.begin("tools/call", { name: "hang", arguments: {} }, { meta: { progressToken: "t" } });
    for (const message of [changed, foreign]) await control.write(message);
    while ((JSON.parse(await control.toolText("hanging")) as unknown[]).length === 0);
    await control.toolText("release");
    const stream = await call;
    expect([stream.isStream, (await stream.answer()).result?.["resultType"]]).toEqual([false, "complete"]);
  });
});

describe("the form of a response", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();

  it("progress is left out for a client that accepts JSON only", async () => {
    const call = { headers: { Accept: "application/json" }, meta: { progressToken: 1 } };
    const reply = await client.callTool("progress", { steps: 2 }, call);
    expect([reply.headers["content-type"], reply.notifications, reply.result?.["resultType"]]).toEqual([
      "application/json",
      [],
      "complete",
    ]);
  });

  it("a session id is neither read nor created, also that of another client", async () => {
    const session = await sidecar.client();
    for (const id of ["gone", session.sessionId]) {
      const replies = [
        await client.callTool("echo", { text: "x" }, { headers: { "Mcp-Session-Id": id } }),
        await client.request("server/discover", {}, { headers: { "Mcp-Session-Id": id } }),
        await client.request("ping", {}, { headers: { "Mcp-Session-Id": id } }),
        await client.callTool("progress", {}, { headers: { "Mcp-Session-Id": id }, meta: { progressToken: 1 } }),
      ];
      expect(replies.map(({ status }) => status)).toEqual([200, 200, 404, 200]);
      expect(replies.map(({ headers }) => headers["mcp-session-id"])).toEqual([undefined, undefined, undefined, undefined]);
    }
    expect((await session.request("ping")).status).toBe(200);
  });
});

describe("a slow call", () => {
  it("the response becomes an event stream with comments, without event ids", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--stream-after-ms", "1", "--keep-alive-ms", "20"] });
    const control = await sidecar.client({ accept: "application/json" });
    using stream = await sidecar.modernClient().beginTool("hang", {}, { id: "slow", headers: { "Last-Event-ID": "1.1" } });
    expect([stream.status, stream.headers["content-type"], stream.headers["x-accel-buffering"]]).toEqual([200, "text/event-stream", "no"]);
    expect(stream.headers["mcp-session-id"]).toBeUndefined();
    const comments = [await stream.block(), await stream.block()];
    expect(comments.map((block) => [typeof block?.comment, block?.data, block?.id])).toEqual([
      ["string", undefined, undefined],
      ["string", undefined, undefined],
    ]);
    await control.callTool("release");
    expect(await stream.next()).toMatchObject({ id: "slow", result: { resultType: "complete" } });
    expect(stream.lastEventId).toBe("");
  });

  it("a client that accepts JSON only waits for its result", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--stream-after-ms", "1"] });
    const control = await sidecar.client({ accept: "application/json" });
    const reply = sidecar.modernClient().callTool("hang", {}, { headers: { Accept: "application/json" } });
    await waitForHanging(control, 1);
    await control.callTool("release");
    expect([(await reply).status, (await reply).headers["content-type"]]).toEqual([200, "application/json"]);
  });
});

const SERVER = { name: "fixture", version: "1.0.0" };
const IDENTITY = { [META.serverInfo]: SERVER };
const HINTS = { ttlMs: 0, cacheScope: "private" };
const URL_ELICITATION = { elicitation: { url: {} } };

function errorLine(error: object): string {
  return `{"jsonrpc":"2.0","id":$ID,"error":${JSON.stringify(error)}}`;
}

describe("the results of a server of sessions", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();

  async function rawResult(result: string): Promise<string> {
    const { texts } = await client.callTool("raw_result", { result }, { id: "r" });
    return texts.at(-1) ?? "";
  }

  it.each(["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"])(
    "the result of %s gets cache hints",
    async (method) => {
      const { result } = await client.request(method, { uri: "x:y" });
      expect(result).toMatchObject({ resultType: "complete", _meta: IDENTITY, ...HINTS });
    },
  );

  it.each(["prompts/get", "completion/complete", "x-vendor/thing"])("the result of %s has no cache hints", async (method) => {
    const { result } = await client.request(method, { name: "p" });
    expect(result).toMatchObject({ resultType: "complete", _meta: IDENTITY });
    expect(Object.keys(result ?? {})).not.toEqual(expect.arrayContaining(["ttlMs"]));
  });

  it("all other bytes of a result stay", async () => {
    const members = '"content":[],"x":1.0,"big":12345678901234567890,"s":"\\u0041\\/" , "y" :{"a":1,"a":2}';
    const text = await rawResult(`{${members}}`);
    expect(text).toContain(members);
    expect(JSON.parse(text)).toMatchObject({ id: "r", result: { resultType: "complete", _meta: IDENTITY } });
  });

  it.each([
    ["an empty result", "{}", {}],
    ["a result with _meta", '{"_meta":{"own":1}}', { _meta: { own: 1, ...IDENTITY } }],
    ["a server's own name", `{"_meta":{"${META.serverInfo}":{"name":"other","version":"2"}}}`, {}],
    ["a server's own type", '{"resultType":"input_required","inputRequests":{}}', { inputRequests: {} }],
    ["a server's escaped type", '{"result\\u0054ype":"task"}', {}],
  ])("%s becomes a complete result of this server", async (_what, result, others) => {
    const text = await rawResult(result);
    expect((JSON.parse(text) as JsonRpcMessage).result).toEqual({ resultType: "complete", _meta: IDENTITY, ...others });
    expect(text).not.toMatch(/task|input_required|other/);
  });
});

describe("the errors of a server of sessions", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();

  async function errorOf(error: object): Promise<object> {
    const reply = await client.callTool("raw_line", { line: errorLine(error) });
    return { status: reply.status, error: reply.error };
  }

  it.each([-32602, -32603, -32000, -32010, -32100, -1, 7])("the code %i is unchanged", async (code) => {
    const error = { code, message: "own", data: { own: [1] } };
    expect(await errorOf(error)).toEqual({ status: 200, error });
  });

  it.each([-32020, -32021, -32022, -32043, -32099])("the reserved code %i becomes -32603, with the original", async (code) => {
    const original = { code, message: "own", data: { own: 1 } };
    expect(await errorOf(original)).toEqual({ status: 200, error: { code: -32603, message: "own", data: { original } } });
  });

  describe("-32042, which asks for a visit to a URL", () => {
    const elicitation = { mode: "url", elicitationId: "e1", url: "https://example.com/a?b=c", message: "Log in" };
    const line = errorLine({
      code: -32042,
      message: "log in first",
      data: { elicitations: [elicitation, { ...elicitation, message: "2" }] },
    });

    it("a client that can visit URLs is asked to", async () => {
      const visitor = sidecar.modernClient({ capabilities: URL_ELICITATION });
      const reply = await visitor.callTool("raw_line", { line }, { id: "u" });
      expect([reply.status, reply.id]).toEqual([200, "u"]);
      const { inputRequests, ...result } = reply.result ?? {};
      expect(result).toEqual({ resultType: "input_required", _meta: IDENTITY });
      const { elicitationId: _1, ...params } = elicitation;
      expect(Object.values(inputRequests as object)).toEqual([
        { method: "elicitation/create", params },
        { method: "elicitation/create", params: { ...params, message: "2" } },
      ]);
    });

    it("the client's retry with its answers is a new call, without them", async () => {
      const visitor = sidecar.modernClient({ capabilities: URL_ELICITATION });
      const received = await visitor.toolText("received", {}, { inputResponses: { "url-1": { action: "accept" } } });
      expect(JSON.parse(received)).toMatchObject({ method: "tools/call", params: { name: "received" } });
      expect(received).not.toContain("inputResponses");
    });

    it.each([{}, { elicitation: {} }, { elicitation: { form: {} } }])(
      "a client with %j gets the missing capability",
      async (capabilities) => {
        const reply = await sidecar.modernClient({ capabilities }).callTool("raw_line", { line });
        expect([reply.status, reply.error]).toEqual([
          400,
          { code: -32021, message: "log in first", data: { requiredCapabilities: URL_ELICITATION } },
        ]);
      },
    );

    it.each([{ elicitations: [] }, { elicitations: "x" }, {}])("malformed data %j does not become a question", async (data) => {
      const visitor = sidecar.modernClient({ capabilities: URL_ELICITATION });
      const { error, result } = await visitor.callTool("raw_line", { line: errorLine({ code: -32042, message: "x", data }) });
      expect([error?.code, result]).toEqual([-32603, undefined]);
    });
  });
});

describe("server/discover in front of a server of sessions", () => {
  const CAPABILITIES = {
    tools: { listChanged: true },
    resources: { subscribe: true },
    logging: {},
    tasks: { list: {} },
    extensions: { "com.example/x": { a: 1 } },
  };

  function initializeResult(members: object): Readonly<Record<string, string>> {
    return { FIXTURE_INITIALIZE_RESULT: JSON.stringify({ protocolVersion: "2025-11-25", ...members }) };
  }

  it("the result has the server's capabilities, except tasks, its instructions and name", async () => {
    const serverInfo = { name: "own", version: "9", title: "Own" };
    const env = initializeResult({ capabilities: CAPABILITIES, serverInfo, instructions: 'Say "hi".' });
    await using sidecar = await HttpBench.start({ env });
    const reply = await sidecar.modernClient().request("server/discover", {}, { id: "d" });
    const { tasks: _tasks, ...capabilities } = CAPABILITIES;
    expect([reply.status, reply.id]).toEqual([200, "d"]);
    expect(reply.result).toEqual({
      resultType: "complete",
      supportedVersions: ["2026-07-28"],
      capabilities,
      instructions: 'Say "hi".',
      ...HINTS,
      _meta: { [META.serverInfo]: serverInfo },
    });
  });

  it("the result has no instructions if the server has none", async () => {
    await using sidecar = await HttpBench.start({ env: initializeResult({ capabilities: {}, serverInfo: SERVER }) });
    const { result } = await sidecar.modernClient().request("server/discover");
    expect(result).toEqual({ resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: {}, ...HINTS, _meta: IDENTITY });
  });
});

describe("tools that can run as tasks of a session", () => {
  const task = (name: string, taskSupport: string): ListedTool => ({ ...listedTool(name), execution: { taskSupport } });

  it("tools that need a task are hidden, and others are listed without tasks", async () => {
    const plain = { ...listedTool("plain"), title: "\u00e9" };
    await using tools = await ListedTools.create([task("first", "required"), task("free", "optional"), plain, task("last", "required")]);
    await using sidecar = await HttpBench.start({ env: tools.env });
    const { result } = await sidecar.modernClient().request("tools/list");
    expect(result).toEqual({ tools: [listedTool("free"), plain], resultType: "complete", ...HINTS, _meta: IDENTITY });
    const session = await sidecar.client();
    expect((await session.request("tools/list")).result?.["tools"]).toHaveLength(4);
  });

  it("a list of such tools alone becomes empty", async () => {
    await using tools = await ListedTools.create([task("first", "required"), task("last", "required")]);
    await using sidecar = await HttpBench.start({ env: tools.env });
    expect((await sidecar.modernClient().request("tools/list")).result?.["tools"]).toEqual([]);
  });
});

const TOKEN = "s3cret-Token.0123456789";
const MODERN_HEADERS = { ...JSON_HEADERS, "MCP-Protocol-Version": MODERN_VERSION, Authorization: `Bearer ${TOKEN}` };
/** The search for the server's era is part of the time of the first request. */
const NO_SEARCH = ["--child-era", "legacy"];

/** Returns the error, and the seconds after which its client may try again. */
function busy(reply: ModernReply): readonly unknown[] {
  return [...failureOf(reply), reply.headers["retry-after"], reply.error?.data?.["retryAfterSeconds"], reply.error?.data?.["sent"]];
}

describe("the sidecar's own errors before a request is read", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } }));

  it.each<[dataCode: string, status: number, code: number, call: HttpCall]>([
    ["HOST_NOT_ALLOWED", 403, -32603, { headers: { Host: "evil.com" } }],
    ["METHOD_NOT_ALLOWED", 405, -32603, { method: "PATCH" }],
    ["NOT_ACCEPTABLE", 406, -32603, { headers: { Accept: "text/html" } }],
    ["INVALID_REQUEST", 400, -32600, { body: '{"jsonrpc":"2.0"}' }],
    ["INVALID_REQUEST", 400, -32600, { body: '{"jsonrpc":"2.0","id":null,"method":"tools/list"}' }],
  ])("%s has the status %i and no code of earlier revisions", async (dataCode, status, code, call) => {
    const reply = await send(sidecar.url, { body: "{}", ...call, headers: { ...MODERN_HEADERS, ...call.headers } });
    expect(failureOf(reply)).toEqual([status, code, dataCode]);
    expect(JSON.parse(reply.body)).not.toHaveProperty("id");
  });

  it("the same errors keep their codes for clients with sessions", async () => {
    const { Authorization: _1, "MCP-Protocol-Version": _2, ...headers } = MODERN_HEADERS;
    expect(failureOf(await send(sidecar.url, { headers, body: "{}" }))).toEqual([401, -32000, "UNAUTHORIZED"]);
  });
});

describe("a server that is not ready", () => {
  it("requests that wait too long get 503, and so does a discovery", async () => {
    await using gate = await Gate.create();
    await using sidecar = await HttpBench.start({
      mode: "gated",
      env: gate.env,
      flags: [...NO_SEARCH, "--hold-timeout-ms", "50"],
      untilReady: false,
    });
    const client = sidecar.modernClient();
    for (const method of ["server/discover", "tools/list", "subscriptions/listen"]) {
      const reply = await client.request(method, { notifications: {} });
      expect(busy(reply)).toEqual([503, -32603, "UPSTREAM_NOT_READY", "1", 1, false]);
    }
    expect((await readStatus(sidecar)).counters).toMatchObject({ requests: { refused: { UPSTREAM_NOT_READY: 3 } } });
    expect((await client.request("ping")).status).toBe(404);
    await gate.open();
    await sidecar.waitForLog("mcp server ready");
    expect((await client.request("server/discover")).status).toBe(200);
  });

  it("a crash loop gives 503 at once", async () => {
    await using sidecar = await HttpBench.start({ mode: "exit-at-initialize", flags: ["--restart-backoff-ms", "1"], untilReady: false });
    await sidecar.waitForLog("mcp server failed: crash loop");
    for (const method of ["server/discover", "tools/list"]) {
      const reply = await sidecar.modernClient().request(method);
      expect(failureOf(reply)).toEqual([503, -32603, "UPSTREAM_FAILED"]);
      expect(reply.headers["retry-after"]).toMatch(/^\d+$/);
    }
  });
});

const TOOL_NOT_FOUND = [200, -32602, "TOOL_NOT_FOUND"];

async function listedNames(client: ModernClient): Promise<unknown[]> {
  const { result } = await client.request("tools/list");
  return ((result?.["tools"] ?? []) as readonly ListedTool[]).map(({ name }) => name);
}

describe("hidden tools for clients without a session", () => {
  it("a hidden tool is neither listed nor called, as an unknown one", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--allow-tools", "echo,seen,lines"] });
    const client = sidecar.modernClient();
    expect(await listedNames(client)).toEqual(["lines", "echo", "seen"]);
    const [hidden, unknown] = [await client.callTool("where", { text: "x-hidden" }), await client.callTool("there", { text: "x-hidden" })];
    expect([failureOf(hidden), failureOf(unknown)]).toEqual([TOOL_NOT_FOUND, TOOL_NOT_FOUND]);
    expect(hidden.error?.message.replace("where", "there")).toBe(unknown.error?.message);
    expect(await client.toolText("lines")).not.toContain("x-hidden");
    expect(await client.toolText("echo", { text: "hi" })).toBe("hi");
  });

  it("the headers of a hidden tool's arguments are not checked", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--deny-tools", "with_headers"] });
    const reply = await sidecar.modernClient().callTool("with_headers", { region: "eu" });
    expect(failureOf(reply)).toEqual(TOOL_NOT_FOUND);
  });
});

describe("the argument check for clients without a session", () => {
  it("a call with invalid arguments gets a complete result with the problem", async () => {
    const schema = { type: "object", properties: { query: { type: "string" } }, required: ["query"] };
    await using tools = await ListedTools.create([{ name: "search", inputSchema: schema }, listedTool("lines")]);
    await using sidecar = await HttpBench.start({ env: tools.env, flags: ["--argument-check", "enforce"] });
    const client = sidecar.modernClient();
    const { status, result } = await client.callTool("search", { query: 7, mark: "x-invalid" });
    expect([status, result]).toMatchObject([200, { isError: true, resultType: "complete" }]);
    expect(result?.["_meta"]).toEqual({ [META.serverInfo]: { name: "fixture", version: "1.0.0" } });
    expect(result?.content?.[0]?.text).toContain("query");
    expect(await client.toolText("lines")).not.toContain("x-invalid");
    expect(await client.toolText("search", { query: "ok" })).toBe('{"query":"ok"}');
  });
});

describe("MAX_RESULT_BYTES for clients without a session", () => {
  it("a long result is truncated, and gets the members of its revision", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-result-bytes", "16384", "--stream-after-ms", "1"] });
    const { headers, body } = sidecar.modernClient().compose("tools/call", { name: "big", arguments: { length: 50_000 } });
    const reply = await send(sidecar.url, { headers, body });
    expect(Buffer.byteLength(reply.body)).toBeLessThanOrEqual(16_384);
    const response = readResponse(reply);
    expect(resultText(response)).toMatch(/^x{10000,}\n\[truncated: /);
    expect(response.result).toMatchObject({ resultType: "complete", _meta: { [META.serverInfo]: { name: "fixture" } } });
  });
});

describe("the limits of tools for clients without a session", () => {
  it("a tool's concurrency covers sessions and clients without one", async () => {
    await using sidecar = await HttpBench.start({
      flags: ["--child-era", "legacy", "--tool-concurrency", "hang=1", "--hold-timeout-ms", "200"],
    });
    const control = await LaneClient.connectShared(sidecar);
    const held = control.callTool("hang");
    while ((JSON.parse(await control.toolText("hanging")) as unknown[]).length === 0);
    const reply = await sidecar.modernClient().callTool("hang");
    expect([...failureOf(reply), reply.headers["retry-after"]]).toEqual([503, -32603, "OVERLOADED", "1"]);
    await control.toolText("release");
    expect((await held).status).toBe(200);
    expect((await readSeen(control)).filter((method) => method.startsWith("notifications/cancelled"))).toEqual([]);
  });
});
