import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { listedTool, type ListedTool, ListedTools } from "../support/listed-tools.ts";
import { META } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";

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
