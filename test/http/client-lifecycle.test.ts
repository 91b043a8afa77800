import { beforeAll, describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { say } from "../support/held-call.ts";
import { HttpBench } from "../support/http-bench.ts";
import { send } from "../support/http-client.ts";
import { McpClient } from "../support/mcp-client.ts";

const KNOWN_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
const UNSUPPORTED = errorReply(400, -32000, "UNSUPPORTED_PROTOCOL_VERSION", { data: { supported: KNOWN_VERSIONS } });
const SERVER_INFO = { capabilities: { tools: {} }, serverInfo: { name: "fixture", version: "1.0.0" }, instructions: "1.0" };

function initialize(protocolVersion: unknown): object {
  const params = { protocolVersion, capabilities: {}, clientInfo: { name: "raw", version: "1" } };
  return { jsonrpc: "2.0", id: "first", method: "initialize", params };
}

const sidecar = disposeAfterAll(await HttpBench.start());

describe("initialize", () => {
  it.each(KNOWN_VERSIONS)("revision %s is accepted", async (protocolVersion) => {
    const reply = await new McpClient(sidecar.url).post(initialize(protocolVersion));
    expect(readError(reply)).toStrictEqual({
      status: 200,
      contentType: "application/json",
      body: { jsonrpc: "2.0", id: "first", result: { protocolVersion, ...SERVER_INFO } },
    });
  });

  it.each(["2099-01-01", "1.0", "", "2025-11-25 ", 20251125, null])("the newest revision replaces %j", async (protocolVersion) => {
    const reply = await new McpClient(sidecar.url).post(initialize(protocolVersion));
    expect(JSON.parse(reply.body)).toEqual({ jsonrpc: "2.0", id: "first", result: { protocolVersion: "2025-11-25", ...SERVER_INFO } });
  });

  it("each client negotiates its own revision, independently of the server's", async () => {
    await using old = await HttpBench.start({ mode: "old" });
    for (const protocolVersion of ["2025-11-25", "2024-11-05"]) {
      const reply = await new McpClient(old.url).post(initialize(protocolVersion));
      expect(JSON.parse(reply.body)).toEqual({ jsonrpc: "2.0", id: "first", result: { protocolVersion, ...SERVER_INFO } });
    }
  });
});

it("the server gets initialize once, for any number of clients", async () => {
  const clients = await Promise.all([sidecar.client(), sidecar.client(), sidecar.client()]);
  const [client] = clients;
  await client.post(initialize("2025-11-25"));
  await client.notify("notifications/initialized");
  const seen = JSON.parse(await client.toolText("seen")) as string[];
  expect(seen.slice(0, 2)).toEqual(["initialize", "notifications/initialized"]);
  expect(seen.filter((method) => method === "initialize" || method === "notifications/initialized")).toHaveLength(2);
});

it.each([
  ["a result", { jsonrpc: "2.0", id: 1, result: {} }],
  ["an error", { jsonrpc: "2.0", id: "x", error: { code: -1, message: "no" } }],
  ["an error with a null id", { jsonrpc: "2.0", id: null, error: { code: -1, message: "no" } }],
])("%s from a client gets 202 and is not forwarded", async (_what, response) => {
  const client = await sidecar.client();
  expect(await client.post(response)).toMatchObject({ status: 202, body: "" });
  expect(JSON.parse(await client.toolText("answers"))).toEqual([]);
});

describe("MCP-Protocol-Version", () => {
  let client: McpClient;
  beforeAll(async () => {
    client = await sidecar.client({ protocolVersion: "2025-06-18" });
  });

  it("the header may be absent", async () => {
    expect(await client.request("ping")).toMatchObject({ status: 200, result: {} });
  });

  it.each(KNOWN_VERSIONS)("the header may be %s, even if another revision was negotiated", async (version) => {
    expect(await client.request("ping", {}, 2, { headers: { "MCP-Protocol-Version": version } })).toMatchObject({
      status: 200,
      result: {},
    });
  });

  it.each(["2026-01-01", "1.0", "DRAFT-2026", "constructor", "2025-06-18, 2025-11-25"])("%s is rejected with 400", async (version) => {
    const headers = { "MCP-Protocol-Version": version };
    const request = await client.post({ jsonrpc: "2.0", id: 2, method: "ping" }, { headers });
    expect(readError(request)).toStrictEqual({ ...UNSUPPORTED, body: { ...(UNSUPPORTED.body as object), id: 2 } });
    const notification = await client.post({ jsonrpc: "2.0", method: "notifications/initialized" }, { headers });
    expect(readError(notification)).toStrictEqual(UNSUPPORTED);
    const end = await send(client.url, { method: "DELETE", headers: { ...headers, "Mcp-Session-Id": client.sessionId } });
    expect(readError(end)).toStrictEqual(UNSUPPORTED);
    expect(await client.request("ping")).toMatchObject({ status: 200 });
  });
});

const TOOLS_CHANGED = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };

it.each(["2025-11-26", "2024-10-06", "1.0", "latest", "2025-11-25, 2025-06-18"])(
  "a GET, resuming or not, is rejected with the version %s",
  async (version) => {
    const client = await sidecar.client();
    using stream = await client.openStream();
    for (const lastEventId of [undefined, "s1-0", "garbage"]) {
      const resumed = lastEventId === undefined ? {} : { lastEventId };
      const headers = client.getHeaders({ ...resumed, headers: { "MCP-Protocol-Version": version } });
      expect(readError(await send(client.url, { method: "GET", headers }))).toStrictEqual(UNSUPPORTED);
    }
    await say(client, JSON.stringify(TOOLS_CHANGED));
    expect(await stream.messages(1)).toEqual([TOOLS_CHANGED]);
  },
);

it("a batch with an unknown version is rejected as a whole", async () => {
  const client = await sidecar.client({ protocolVersion: "2025-03-26" });
  const batch = [{ jsonrpc: "2.0", method: "notifications/x-refused" }];
  expect(readError(await client.post(batch, { headers: { "MCP-Protocol-Version": "1.0" } }))).toStrictEqual(UNSUPPORTED);
  expect(JSON.parse(await client.toolText("seen"))).not.toContain("notifications/x-refused");
});

it("a session keeps the negotiated revision regardless of the header: batches still work", async () => {
  const batch = [{ jsonrpc: "2.0", id: 1, method: "ping" }];
  const old = await sidecar.client({ protocolVersion: "2025-03-26" });
  const reply = await old.post(batch, { headers: { "MCP-Protocol-Version": "2025-11-25" } });
  expect([reply.status, JSON.parse(reply.body)]).toEqual([200, [{ jsonrpc: "2.0", id: 1, result: {} }]]);
});

it("an initialize is accepted with any version, since it negotiates one", async () => {
  for (const version of [...KNOWN_VERSIONS, "1.0"]) {
    const client = await sidecar.client({ headers: { "MCP-Protocol-Version": version }, protocolVersion: "2025-06-18" }).catch(String);
    // The notification after it is rejected if the version is unknown.
    if (typeof client === "string") throw new Error(client);
    expect(client.protocolVersion).toBe("2025-06-18");
  }
});
