import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const TOKEN = "s3cret-Token.0123456789";
const AUTHORIZED = { Authorization: `Bearer ${TOKEN}` };
const UNAUTHORIZED = errorReply(401, -32000, "UNAUTHORIZED");
const PING = '{"jsonrpc":"2.0","id":7,"method":"ping"}';

describe("authentication", async () => {
  const sidecar = disposeAfterAll(
    await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN }, flags: ["--max-body-bytes", "2048"] }),
  );
  const client = await sidecar.client({ headers: AUTHORIZED });

  function ping(authorization: string | undefined): Promise<HttpReply> {
    const credentials: Record<string, string> = authorization === undefined ? {} : { Authorization: authorization };
    return send(sidecar.url, { headers: { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId, ...credentials }, body: PING });
  }

  it("a client with the token is served", async () => {
    expect(await client.toolText("echo", { text: "hello" })).toBe("hello");
  });

  it.each(["bearer", "BEARER", "BeArEr", "Bearer  "])("the Bearer scheme is case-insensitive: %s", async (scheme) => {
    expect((await ping(`${scheme} ${TOKEN}`)).body).toBe('{"jsonrpc":"2.0","id":7,"result":{}}');
  });

  it("a request without credentials gets 401 and a challenge", async () => {
    const reply = await ping(undefined);
    expect(readError(reply)).toStrictEqual(UNAUTHORIZED);
    expect(reply.headers["www-authenticate"]).toBe('Bearer realm="mcp"');
  });

  it.each([
    ["a wrong token of the same length", `Bearer ${"x".repeat(TOKEN.length)}`],
    ["a token that differs at the end", `Bearer ${TOKEN.slice(0, -1)}x`],
    ["a token that differs in case", `Bearer ${TOKEN.toLowerCase()}`],
    ["a shorter token", `Bearer ${TOKEN.slice(0, -1)}`],
    ["a longer token", `Bearer ${TOKEN}x`],
    ["the token twice", `Bearer ${TOKEN} ${TOKEN}`],
    ["the token in quotes", `Bearer "${TOKEN}"`],
    ["an empty token", "Bearer "],
    ["the scheme without a token", "Bearer"],
    ["the token without a space before it", `Bearer${TOKEN}`],
    ["the token under another scheme", `Token ${TOKEN}`],
    ["the bare token", TOKEN],
    ["an empty header", ""],
  ])("%s is rejected with 401", async (_what, authorization) => {
    const reply = await ping(authorization);
    expect(readError(reply)).toStrictEqual(UNAUTHORIZED);
    expect(reply.headers["www-authenticate"]).toMatch(/^Bearer realm="mcp"/);
  });

  it.each([
    [TOKEN, true],
    [`Token ${TOKEN}`, true],
    [`Bearer${TOKEN}`, true],
    ["", true],
    ["Bearer wrong", false],
    ["bearer", false],
  ])("the error names a missing Bearer scheme: %j", async (authorization, isNamed) => {
    const { body } = await ping(authorization);
    expect(body.includes("does not begin with `Bearer `")).toBe(isNamed);
    expect(body).not.toContain(TOKEN);
  });

  it("the challenge says that a presented token is invalid", async () => {
    expect((await ping("Bearer wrong")).headers["www-authenticate"]).toBe('Bearer realm="mcp", error="invalid_token"');
  });

  it.each(["POST", "DELETE", "GET", "PUT", "PATCH"])("%s requires the token", async (method) => {
    const reply = await send(sidecar.url, { method, headers: { "Mcp-Session-Id": client.sessionId } });
    expect(readError(reply)).toStrictEqual(UNAUTHORIZED);
    expect(reply.headers).not.toHaveProperty("allow");
  });

  it("HEAD requires the token", async () => {
    expect(await send(sidecar.url, { method: "HEAD" })).toMatchObject({
      status: 401,
      headers: { "www-authenticate": 'Bearer realm="mcp"' },
    });
  });

  it.each(["/mcp/", "/mcp?x", `/mcp?access_token=${TOKEN}`])("the path %s requires the token", async (path) => {
    const headers = { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId };
    expect(readError(await send(`${sidecar.origin}${path}`, { headers, body: PING }))).toStrictEqual(UNAUTHORIZED);
  });

  it.each([
    ["the session", { "Mcp-Session-Id": "unknown" }, PING],
    ["the media type", { "Content-Type": "text/plain" }, PING],
    ["Accept", { Accept: "text/html" }, PING],
    ["the body's size", {}, " ".repeat(4096)],
    ["the body's text", {}, "{"],
    ["the message", {}, "[]"],
    ["the protocol version", { "MCP-Protocol-Version": "2026-01-01" }, PING],
  ])("the token is checked before %s", async (_what, headers, body) => {
    const reply = await send(sidecar.url, { headers: { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId, ...headers }, body });
    expect(readError(reply)).toStrictEqual(UNAUTHORIZED);
  });

  it("a rejected request reaches neither the server nor a session", async () => {
    const initialize = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}';
    const opened = await send(sidecar.url, { headers: JSON_HEADERS, body: initialize });
    expect(opened.status).toBe(401);
    expect(opened.headers).not.toHaveProperty("mcp-session-id");
    const session = { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId };
    const carried = await send(sidecar.url, { headers: session, body: '{"jsonrpc":"2.0","id":1,"method":"x-test/refused"}' });
    const ended = await send(sidecar.url, { method: "DELETE", headers: session });
    expect([carried.status, ended.status]).toEqual([401, 401]);
    expect(JSON.parse(await client.toolText("seen"))).not.toContain("x-test/refused");
  });

  it.each(["/livez", "/readyz", "/healthz"])("%s does not require a token", async (path) => {
    expect((await send(`${sidecar.origin}${path}`, { method: "GET" })).status).toBe(200);
  });

  it("a sidecar without a token serves every client and logs a warning", async () => {
    await using open = await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: "" } });
    expect(await (await open.client()).request("ping")).toMatchObject({ status: 200 });
    expect(await (await open.client({ token: "anything" })).request("ping")).toMatchObject({ status: 200 });
    await open.waitForLog("no auth token is set: every client that reaches the address may call");
    expect(sidecar.transcript()).not.toContain("no auth token is set");
  });
});
