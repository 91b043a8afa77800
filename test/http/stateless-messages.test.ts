import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, failureOf } from "../support/error-reply.ts";
import { send } from "../support/http-client.ts";
import { readSeen } from "../support/fixture-server.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { META, MODERN_VERSION } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const ENVELOPE = { [META.protocolVersion]: MODERN_VERSION, [META.clientCapabilities]: {} };
const MODERN_TEXT = `"${META.protocolVersion}":"${MODERN_VERSION}","${META.clientCapabilities}":{}`;

function echo(id: number, meta?: object): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name: "echo", arguments: { text: "x-batch" }, _meta: meta } };
}

describe("messages of 2026-07-28", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();
  const control = await sidecar.client();

  describe("methods that do not exist", () => {
    it.each([
      ["initialize", { protocolVersion: MODERN_VERSION, capabilities: {}, clientInfo: { name: "x", version: "1" } }],
      ["ping", {}],
      ["logging/setLevel", { level: "debug" }],
      ["resources/subscribe", { uri: "x:y" }],
      ["resources/unsubscribe", { uri: "x:y" }],
      ["tasks/list", {}],
      ["tasks/result", { taskId: "1" }],
      // The extension, which a server of sessions does not have.
      ["tasks/get", { taskId: "1" }],
      ["tasks/update", { taskId: "1" }],
      ["tasks/cancel", { taskId: "1" }],
    ])("%s gets 404, and is not sent", async (method, params) => {
      const before = (await readSeen(control)).filter((each) => each === method).length;
      const reply = await client.request(method, params, { id: "gone" });
      expect([...failureOf(reply), reply.id]).toEqual([...METHOD_NOT_FOUND, "gone"]);
      expect(reply.headers["mcp-session-id"]).toBeUndefined();
      expect((await readSeen(control)).filter((each) => each === method)).toHaveLength(before);
    });
  });

  describe("messages other than requests", () => {
    it.each([
      ["a result", { jsonrpc: "2.0", id: 1, result: {} }],
      ["an error", { jsonrpc: "2.0", id: 1, error: { code: 1, message: "x" } }],
    ])("%s of a client is rejected", async (_what, body) => {
      const reply = await client.post(body);
      expect(failureOf(reply)).toEqual(INVALID_REQUEST);
      expect(JSON.parse(reply.body)).not.toHaveProperty("id");
      expect(await control.toolText("answers")).toBe("[]");
    });

    it("a notification is accepted, and has no effect", async () => {
      for (const call of [{}, { meta: null }, { headers: { "Mcp-Method": undefined } }]) {
        const reply = await client.notify("notifications/x-vendor", {}, call);
        expect([reply.status, reply.body, reply.headers["mcp-session-id"]]).toEqual([202, "", undefined]);
      }
      expect(await readSeen(control)).not.toContain("notifications/x-vendor");
    });
  });

  describe("subscriptions/listen", () => {
    it.each([
      ["no filter", {}],
      ["a filter that is a list", { notifications: [] }],
      ["URIs that are no list", { notifications: { resourceSubscriptions: "x" } }],
      ["a URI that is a number", { notifications: { resourceSubscriptions: [1] } }],
    ])("a subscription with %s is rejected", async (_what, params) => {
      expect(failureOf(await client.request("subscriptions/listen", params))).toEqual(INVALID_PARAMS);
    });

    it("a subscription of a client that accepts JSON only is rejected", async () => {
      const reply = await client.request("subscriptions/listen", { notifications: {} }, { headers: { Accept: "application/json" } });
      expect(failureOf(reply)).toEqual([406, -32603, "NOT_ACCEPTABLE"]);
    });
  });

  describe("batches", () => {
    it.each([
      ["a batch of requests", [echo(1, ENVELOPE), echo(2, ENVELOPE)]],
      ["a batch of one", [echo(1, ENVELOPE)]],
      ["a batch of notifications", [{ jsonrpc: "2.0", method: "notifications/x-batch" }]],
      ["an empty batch", []],
    ])("%s is rejected", async (_what, batch) => {
      expect(failureOf(await client.post(batch))).toEqual(INVALID_REQUEST);
      expect(await control.toolText("lines")).not.toContain("x-batch");
    });
  });
});

describe("a batch in a session of 2025-03-26", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const session = await sidecar.client({ protocolVersion: "2025-03-26" });

  /** Returns the error for a batch, and the methods of it that have reached the server. */
  async function refusal(body: string): Promise<readonly unknown[]> {
    const failure = failureOf(await session.post(body));
    return [...failure, (await readSeen(session)).filter((method) => method.startsWith("x-batch"))];
  }

  it("a batch of this session is served", async () => {
    expect((await session.post([echo(1), echo(2)])).status).toBe(200);
  });

  it("an element of 2026-07-28 makes the whole batch invalid", async () => {
    const element = { jsonrpc: "2.0", id: 2, method: "x-batch/two", params: { _meta: ENVELOPE } };
    expect(await refusal(JSON.stringify([{ jsonrpc: "2.0", id: 1, method: "x-batch/one" }, element]))).toEqual([...INVALID_REQUEST, []]);
  });

  it.each([
    ["an escaped _meta", `"\\u005fmeta":{${MODERN_TEXT}}`],
    ["an escaped version key", `"_meta":{"io.modelcontextprotocol\\/protocolVersion":"${MODERN_VERSION}"}`],
    ["a repeated _meta", `"_meta":{},"_meta":{${MODERN_TEXT}}`],
    ["a repeated _meta, once escaped", `"_meta":{${MODERN_TEXT}},"\\u005Fmeta":{}`],
    ["a repeated version key", `"_meta":{"${META.protocolVersion}":"2025-03-26",${MODERN_TEXT}}`],
    ["a repeated version key, the last one escaped", `"_meta":{${MODERN_TEXT},"io.modelcontextprotocol\\/protocolVersion":"2025-03-26"}`],
    ["a _meta in another case", `"_META":{${MODERN_TEXT}}`],
  ])("an element with %s makes the whole batch invalid", async (_what, member) => {
    expect(
      await refusal(
        `[{"jsonrpc":"2.0","id":1,"method":"x-batch/one"},{"jsonrpc":"2.0","id":2,"method":"x-batch/two","params":{${member}}}]`,
      ),
    ).toEqual([...INVALID_REQUEST, []]);
  });

  it.each([
    ["_meta", `"_meta":{${MODERN_TEXT}},"_meta":{${MODERN_TEXT}}`],
    ["protocolVersion", `"_meta":{"${META.protocolVersion}":"2025-11-25",${MODERN_TEXT}}`],
    ["clientCapabilities", `"_meta":{${MODERN_TEXT},"${META.clientCapabilities}":{"sampling":{}}}`],
    ["logLevel", `"_meta":{${MODERN_TEXT},"${META.logLevel}":"debug","${META.logLevel}":"error"}`],
    ["name", `"name":"echo","_meta":{${MODERN_TEXT}}`],
    ["name in another case", `"Name":"echo","_meta":{${MODERN_TEXT}}`],
  ])("a single request with a repeated %s is ambiguous, and rejected", async (_what, members) => {
    const headers = { ...JSON_HEADERS, "MCP-Protocol-Version": MODERN_VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "seen" };
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{${members},"name":"seen","arguments":{}}}`;
    const reply = await send(sidecar.url, { headers, body });
    expect([reply.status, JSON.parse(reply.body)]).toMatchObject([
      400,
      {
        error: {
          message: expect.stringMatching(/"(?:_meta|name|Name|io\..*)" (?:occurs twice|is ambiguous|differs only in case)/) as string,
        },
      },
    ]);
  });
});
