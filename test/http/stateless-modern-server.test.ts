import { beforeAll, describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { readSeen, waitForHanging, waitForSeen } from "../support/fixture-server.ts";
import { type JsonRpcMessage, progressTokenOf, readResponse, resultText } from "../support/json-rpc.ts";
import { META, type ModernCall, type ModernClient } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

let sidecar: RunningSidecar;
let client: ModernClient;
beforeAll(async () => {
  sidecar = disposeAfterAll(await HttpBench.start({ mode: "modern-only" }));
  client = sidecar.modernClient();
});

/** Makes the server log, though its call may not want that. */
function log(level: string, call?: ModernCall): ReturnType<ModernClient["callTool"]> {
  const message = JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params: { level, data: level } });
  return client.callTool(
    "raw_line",
    { line: `${message}\n{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[]}}` },
    call,
  );
}

function levels(messages: readonly JsonRpcMessage[]): unknown[] {
  return messages.map(({ method, params }) => [method, params?.["level"]]);
}

describe("a request to a server without sessions", () => {
  it.each([["7"], ['"seven"'], ['"\\u0073\\"even"']])(
    "the request with the id %s is sent unchanged except for id and token",
    async (idText) => {
      const composed = client.compose(
        "tools/call",
        { name: "received", arguments: { text: "é\u2028", list: [] } },
        { id: "$ID", meta: { progressToken: "$TOKEN", traceparent: "00-1-2-03", "example.com/x": { y: null }, [META.logLevel]: "error" } },
      );
      const sent = composed.body
        .replace('"list":[]', '"list" : [1.50, 1e3,\t-0 ]')
        .replace('"$ID"', idText)
        .replace('"$TOKEN"', idText)
        .replace("é", "\\u00e9");
      const response = readResponse(await client.post(sent, { headers: composed.headers }));
      expect(response.id).toBe(JSON.parse(idText));
      const received = resultText(response);
      const wire = JSON.parse(received) as JsonRpcMessage;
      expect(wire.id).not.toBe(JSON.parse(idText));
      const restored = received
        .replace(`"id":${wire.id}`, `"id":${idText}`)
        .replace(`"progressToken":${JSON.stringify(progressTokenOf(wire))}`, `"progressToken":${idText}`);
      // Some servers would take a line separator for the end of the message.
      expect(restored).toBe(sent.replace("\u2028", "\\u2028"));
    },
  );

  it("results keep the hints, the type and the name of the server", async () => {
    const [listed, read] = [await client.request("tools/list"), await client.request("resources/read", { uri: "fixture://text" })];
    const serverInfo = { [META.serverInfo]: { name: "fixture", version: "1.0.0" } };
    expect(listed.result).toMatchObject({ resultType: "complete", ttlMs: 60_000, cacheScope: "public", _meta: serverInfo });
    expect(read.result).toMatchObject({ resultType: "complete", ttlMs: 1000, cacheScope: "private", _meta: serverInfo });
  });

  it("the discovery is answered from the handshake", async () => {
    for (let count = 0; count < 3; count++) expect((await client.request("server/discover")).result).toMatchObject({ ttlMs: 60_000 });
    expect((await readSeen(client)).filter((method) => method === "server/discover")).toHaveLength(1);
  });

  it("the server's question is refused, and the client never sees it", async () => {
    const asked = await client.callTool("ask", { id: "q", method: "sampling/createMessage" });
    expect(asked.notifications).toEqual([]);
    expect(JSON.parse(resultText(asked))).toMatchObject({ id: "q", error: { code: -32601 } });
  });
});

describe("an error of a server without sessions", () => {
  it("an error after the first message comes in the stream, with status 200", async () => {
    const message = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}';
    const line = `${message}\n{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}`;
    const reply = await client.callTool("raw_line", { line }, { meta: { [META.logLevel]: "debug" } });
    expect({ status: reply.status, error: reply.error, count: reply.notifications.length }).toMatchObject({
      status: 200,
      error: { code: -32601 },
      count: 1,
    });
  });
});

describe("the type of a result", () => {
  it.each(["complete", "input_required", "task"])("a result of the type %s passes", async (resultType) => {
    const { result } = await client.callTool("result_type", { resultType, result: { extra: [1] } });
    expect(result).toMatchObject({ resultType, extra: [1] });
  });

  it.each(["later", "", "Complete", 1, null, {}])("a result of the unknown type %j fails for the client", async (resultType) => {
    const { status, error, result } = await client.callTool("result_type", { resultType });
    expect(result).toBeUndefined();
    expect({ status, error }).toMatchObject({
      status: 200,
      error: { code: -32603, data: { code: "UNKNOWN_RESULT_TYPE", sent: true, retrySafe: false } },
    });
  });

  it("a member of the same name elsewhere is not the type", async () => {
    const { result } = await client.callTool("result_type", { resultType: "complete", result: { structuredContent: { resultType: "x" } } });
    expect(result).toMatchObject({ structuredContent: { resultType: "x" } });
  });
});

describe("log messages of a server without sessions", () => {
  const DEBUG = { meta: { [META.logLevel]: "debug" } };

  it("the only call with a level gets messages from that level on", async () => {
    expect(levels((await log("warning", { meta: { [META.logLevel]: "error" } })).notifications)).toEqual([]);
    expect(levels((await log("error", { meta: { [META.logLevel]: "error" } })).notifications)).toEqual([
      ["notifications/message", "error"],
    ]);
    expect(levels((await log("emergency")).notifications)).toEqual([]);
  });

  it("a call without a level does not take messages from the one with a level", async () => {
    const held = client.callTool("hang", {}, { meta: { [META.logLevel]: "warning" } });
    await waitForHanging(client, 1);
    for (const level of ["info", "warning"]) expect(levels((await log(level)).notifications)).toEqual([]);
    await client.callTool("release");
    expect(levels((await held).notifications)).toEqual([["notifications/message", "warning"]]);
  });

  it("messages are dropped while two calls have a level", async () => {
    const held = client.callTool("hang", {}, DEBUG);
    await waitForHanging(client, 1);
    expect(levels((await log("error", DEBUG)).notifications)).toEqual([]);
    await client.callTool("release");
    expect(levels((await held).notifications)).toEqual([]);
    expect(levels((await log("error", DEBUG)).notifications)).toEqual([["notifications/message", "error"]]);
  });

  it("a call whose client has left no longer counts", async () => {
    const leaving = new AbortController();
    const held = client.callTool("hang", {}, { ...DEBUG, signal: leaving.signal });
    const [wireId] = await waitForHanging(client, 1);
    leaving.abort();
    await expect(held).rejects.toThrow("aborted");
    await waitForSeen(client, `notifications/cancelled ${wireId}`);
    expect(levels((await log("error", DEBUG)).notifications)).toEqual([["notifications/message", "error"]]);
    await client.callTool("release");
  });
});
