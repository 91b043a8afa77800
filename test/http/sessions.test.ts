import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { initializeRequest, McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { readStatus } from "../support/status.ts";

const SESSION_REQUIRED = { status: 400, code: -32000, dataCode: "SESSION_REQUIRED" } as const;
const SESSION_NOT_FOUND = { status: 404, code: -32001, dataCode: "SESSION_NOT_FOUND" } as const;

const sidecar = disposeAfterAll(await HttpBench.start());

function clientWith(sessionId: string): McpClient {
  return new McpClient(sidecar.url, { sessionId });
}

function refusal({ status, code, dataCode }: typeof SESSION_REQUIRED | typeof SESSION_NOT_FOUND, id?: string | number): object {
  return errorReply(status, code, dataCode, id === undefined ? {} : { id });
}

describe("session ids", () => {
  it("session ids are visible ASCII, unique and unpredictable", async () => {
    const clients = await Promise.all(Array.from({ length: 200 }, () => sidecar.client()));
    const ids = clients.map((client) => client.sessionId).toSorted();
    for (const id of ids) expect(id).toMatch(/^[\x21-\x7e]{32,}$/);
    const nonces = new Set(ids.map((id) => id.slice(12, 28)));
    const signatures = new Set(ids.map((id) => id.slice(-43)));
    expect([nonces.size, signatures.size]).toEqual([200, 200]);
  });

  it("an initialize with an unknown id gets a new one, not the client's choice", async () => {
    const client = clientWith("chosen-by-the-client");
    const reply = await client.post(initializeRequest());
    expect(reply.status).toBe(200);
    expect(reply.headers["mcp-session-id"]).toMatch(/^[\x21-\x7e]{32,}$/);
    expect(readError(await client.post({ jsonrpc: "2.0", id: 2, method: "ping" }))).toStrictEqual(refusal(SESSION_NOT_FOUND, 2));
  });

  it("an initialize with an open session's id is rejected, and the session stays unchanged", async () => {
    const client = await sidecar.client();
    const reply = await client.post(initializeRequest());
    expect(readError(reply)).toStrictEqual(errorReply(400, -32600, "INVALID_REQUEST", { id: 1 }));
    expect(reply.headers).not.toHaveProperty("mcp-session-id");
    expect(await client.request("ping")).toMatchObject({ status: 200, result: {} });
  });

  it.each(["constructor", "__proto__", "toString", "hasOwnProperty", "0", "null", "undefined", "%00", "../mcp"])(
    "a session id is looked up literally: %s is unknown",
    async (sessionId) => {
      const client = clientWith(sessionId);
      expect(readError(await client.post({ jsonrpc: "2.0", id: "x", method: "ping" }))).toStrictEqual(refusal(SESSION_NOT_FOUND, "x"));
      expect(readError(await client.end())).toStrictEqual(refusal(SESSION_NOT_FOUND));
    },
  );
});

it.each([
  ["a request", { jsonrpc: "2.0", id: "a b", method: "tools/list" }, "a b"],
  ["a request with id 0", { jsonrpc: "2.0", id: 0, method: "ping" }, 0],
  ["a notification", { jsonrpc: "2.0", method: "notifications/initialized" }, undefined],
  ["a response", { jsonrpc: "2.0", id: 3, result: {} }, undefined],
])("%s is rejected with 400 without a session id, and with 404 with an unknown one", async (_what, message, id) => {
  expect(readError(await clientWith("").post(message))).toStrictEqual(refusal(SESSION_REQUIRED, id));
  expect(readError(await clientWith("unknown").post(message))).toStrictEqual(refusal(SESSION_NOT_FOUND, id));
});

it("DELETE without a session id is rejected with 400", async () => {
  expect(readError(await clientWith("").end())).toStrictEqual(refusal(SESSION_REQUIRED));
});

describe("the end of a session", () => {
  it("DELETE gets 204, and requests of the session get 404 from then on", async () => {
    const client = await sidecar.client();
    const reply = await client.end();
    expect(reply).toMatchObject({ status: 204, body: "" });
    expect(reply.headers).not.toHaveProperty("content-type");
    expect(readError(await client.post({ jsonrpc: "2.0", id: 2, method: "ping" }))).toStrictEqual(refusal(SESSION_NOT_FOUND, 2));
    expect(readError(await client.end())).toStrictEqual(refusal(SESSION_NOT_FOUND));
  });

  it("an evicted session goes on with its next request, unless it had subscriptions", async () => {
    await using small = await HttpBench.start({ mode: "keeps-state", flags: ["--max-sessions", "2"] });
    const [plain, subscribed] = [await small.client(), await small.client()];
    expect(await subscribed.request("resources/subscribe", { uri: "file:///watched" })).toMatchObject({ status: 200, result: {} });
    for (let count = 0; count < 2; count++) await small.client();
    expect(await plain.request("ping")).toMatchObject({ status: 200, result: {} });
    expect(readError(await subscribed.post({ jsonrpc: "2.0", id: 2, method: "ping" }))).toStrictEqual(refusal(SESSION_NOT_FOUND, 2));
    expect((await readStatus(small)).sessions).toBe(2);
  });

  it("a flood of new sessions does not flood the log", async () => {
    await using small = await HttpBench.start({ flags: ["--max-sessions", "2", "--session-max-age-ms", "1"] });
    const client = await small.client();
    for (let count = 0; count < 30; count++) await small.client();
    expect((await client.request("ping")).status).toBe(404);
    // Ten lines are logged in ten seconds.
    expect(small.logLines.filter(({ msg }) => msg === "session ended").length).toBeLessThanOrEqual(20);
  });
});
