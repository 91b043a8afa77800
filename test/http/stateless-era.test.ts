import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { HEADER_MISMATCH, INVALID_PARAMS, SESSION_REQUIRED, UNSUPPORTED_VERSION, failureOf } from "../support/error-reply.ts";
import { type Headers, type HttpReply, send } from "../support/http-client.ts";
import { readResponse, resultText } from "../support/json-rpc.ts";
import { initializeRequest, JSON_HEADERS } from "../support/mcp-client.ts";
import { META, MODERN_VERSION } from "../support/modern-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const LEGACY = "2025-11-25";
const ECHO_HEADERS = { "Mcp-Method": "tools/call", "Mcp-Name": "echo" };

/** Returns an echo call with these members of `_meta`; undefined for none. */
function echo(meta: object | undefined): string {
  return JSON.stringify({ jsonrpc: "2.0", id: 5, method: "tools/call", params: { name: "echo", arguments: { text: "hi" }, _meta: meta } });
}

function envelope(version: string): object {
  return { [META.protocolVersion]: version, [META.clientCapabilities]: {} };
}

function versionHeader(version: string | undefined): Headers {
  return version === undefined ? {} : { "MCP-Protocol-Version": version };
}

describe("the era of a request", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());

  /** Posts without a session, so that a request of the legacy era is rejected. */
  function post(body: string, version: string | undefined, headers: Headers = ECHO_HEADERS): Promise<HttpReply> {
    return send(sidecar.url, { headers: { ...JSON_HEADERS, ...headers, ...versionHeader(version) }, body });
  }

  it.each<[header: string | undefined, body: string | undefined, failure: readonly unknown[]]>([
    [undefined, undefined, SESSION_REQUIRED],
    [LEGACY, undefined, SESSION_REQUIRED],
    [LEGACY, LEGACY, SESSION_REQUIRED],
    ["2024-11-05", "2024-11-05", SESSION_REQUIRED],
    ["draft", undefined, SESSION_REQUIRED],
    [undefined, MODERN_VERSION, HEADER_MISMATCH],
    [undefined, LEGACY, HEADER_MISMATCH],
    [LEGACY, MODERN_VERSION, HEADER_MISMATCH],
    [LEGACY, "2025-06-18", HEADER_MISMATCH],
    [MODERN_VERSION, LEGACY, HEADER_MISMATCH],
    [MODERN_VERSION, undefined, INVALID_PARAMS],
    ["2027-01-01", undefined, INVALID_PARAMS],
    ["2027-01-01", "2027-01-01", UNSUPPORTED_VERSION],
    ["1999-01-01", "1999-01-01", UNSUPPORTED_VERSION],
    ["draft", "draft", UNSUPPORTED_VERSION],
  ])("header %s with body %s is rejected", async (header, body, failure) => {
    expect(failureOf(await post(echo(body === undefined ? undefined : envelope(body)), header))).toEqual(failure);
  });

  it("a version that is not a string claims the era, and is invalid", async () => {
    const body = echo({ [META.protocolVersion]: 20_260_728, [META.clientCapabilities]: {} });
    const reply = await post(body, LEGACY);
    expect(failureOf(reply)).toEqual(INVALID_PARAMS);
    expect(reply.body).toContain(META.protocolVersion);
  });

  it.each([
    ["other reserved keys", { [META.clientCapabilities]: {}, [META.clientInfo]: { name: "x", version: "1" } }, ECHO_HEADERS],
    ["Mcp-Method and Mcp-Name", undefined, ECHO_HEADERS],
  ])("%s are no evidence of the era without a version", async (_what, meta, headers) => {
    expect(failureOf(await post(echo(meta), undefined, headers))).toEqual(SESSION_REQUIRED);
  });

  it.each(["initialize", "tools/list", "server/discover"])("%s without an envelope names the missing key", async (method) => {
    const body = method === "initialize" ? initializeRequest() : { jsonrpc: "2.0", id: 1, method };
    const reply = await post(JSON.stringify(body), MODERN_VERSION, { "Mcp-Method": method });
    expect(failureOf(reply)).toEqual(INVALID_PARAMS);
    expect(reply.body).toContain("_meta");
  });

  it.each([undefined, "00000000-0000-4000-8000-000000000000", "?"])(
    "a request needs no session, and the session id %s is ignored",
    async (id) => {
      for (const text of ["short", "x".repeat(200_000)]) {
        const params = { name: "echo", arguments: { text }, _meta: envelope(MODERN_VERSION) };
        const body = JSON.stringify({ jsonrpc: "2.0", id: 5, method: "tools/call", params });
        const reply = await post(body, MODERN_VERSION, { ...ECHO_HEADERS, ...(id === undefined ? {} : { "Mcp-Session-Id": id }) });
        expect([reply.status, resultText(readResponse(reply))]).toEqual([200, text]);
      }
    },
  );

  it.each([
    ["GET", 405, "METHOD_NOT_ALLOWED"],
    ["DELETE", 400, "SESSION_REQUIRED"],
  ])("%s stays a method of sessions", async (method, status, code) => {
    const headers = { Accept: "text/event-stream", "MCP-Protocol-Version": MODERN_VERSION };
    const reply = await send(sidecar.url, { method, headers });
    expect([reply.status, reply.body]).toEqual([status, expect.stringContaining(code)]);
  });

  it("a session's requests keep all bytes, whatever headers repeat their method", async () => {
    const client = await sidecar.client({ sendsVersion: true });
    const meta = { [META.protocolVersion]: LEGACY, [META.clientCapabilities]: {}, traceparent: "00-1" };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 5, method: "tools/call", params: { name: "received", arguments: {}, _meta: meta } });
    const lines: string[] = [];
    for (const headers of [{}, { "Mcp-Method": "tools/call", "Mcp-Name": "other", "Mcp-Param-Region": "?" }]) {
      const reply = await client.post(body, { headers });
      expect(reply.status).toBe(200);
      lines.push(resultText(readResponse(reply)).replace(/"id":\d+/, '"id":5'));
    }
    expect(lines).toEqual([body, body]);
  });

  it("initialize with a legacy version header and Mcp-Method opens a session", async () => {
    const reply = await post(JSON.stringify(initializeRequest()), LEGACY, { "Mcp-Method": "initialize" });
    expect(reply.status).toBe(200);
    expect(reply.headers["mcp-session-id"]).toMatch(/^[\x21-\x7e]+$/);
    expect(readResponse(reply).result).toMatchObject({ protocolVersion: LEGACY });
    expect(reply.body).not.toContain("resultType");
  });
});

describe.each([
  { off: "MODERN=off", flags: ["--modern", "off"] },
  { off: "ISOLATION=session", flags: ["--isolation", "session"] },
])("a sidecar with $off", async ({ flags }) => {
  const sidecar = disposeAfterAll(await HttpBench.start({ flags }));

  it.each(["server/discover", "tools/list"])("%s of the next era gets the answer of a server of sessions", async (method) => {
    const reply = await send(sidecar.url, sidecar.modernClient().compose(method));
    expect([failureOf(reply), reply.body]).toEqual([SESSION_REQUIRED, expect.stringContaining("CLAW_MCP_STDIO_MODERN")]);
    expect(sidecar.logLines.filter(({ msg }) => msg === "server era found")).toEqual([]);
  });

  it("initialize opens a session, despite an envelope of the next era", async () => {
    const reply = await send(sidecar.url, sidecar.modernClient().compose("initialize", { protocolVersion: LEGACY, capabilities: {} }));
    expect([reply.status, readResponse(reply).result?.["protocolVersion"]]).toEqual([200, LEGACY]);
  });

  it("a version header of the next era in a session is rejected without a code of that era", async () => {
    const client = await sidecar.client();
    const reply = await client.post(echo(undefined), { headers: versionHeader(MODERN_VERSION) });
    expect(failureOf(reply)).toEqual([400, -32000, "UNSUPPORTED_PROTOCOL_VERSION"]);
    expect(reply.body).not.toContain(`"${MODERN_VERSION}"]`);
  });
});
