import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { HttpBench } from "../support/http-bench.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import type { StartOptions } from "../support/running-sidecar.ts";

const TOKEN = "s3cret-Token.0123456789";
const AUTHORIZED = { Authorization: `Bearer ${TOKEN}` };
const UNAUTHORIZED = errorReply(401, -32000, "UNAUTHORIZED");
const PING = '{"jsonrpc":"2.0","id":7,"method":"ping"}';

const sidecar = disposeAfterAll(await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN }, flags: ["--max-body-bytes", "2048"] }));
const client = await sidecar.client({ headers: AUTHORIZED });

function ping(authorization: string | undefined): Promise<HttpReply> {
  const credentials: Record<string, string> = authorization === undefined ? {} : { Authorization: authorization };
  return send(sidecar.url, { headers: { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId, ...credentials }, body: PING });
}

it.each(["bearer", "BEARER", "BeArEr", "Bearer  "])("the Bearer scheme is case-insensitive: %s", async (scheme) => {
  expect((await ping(`${scheme} ${TOKEN}`)).body).toBe('{"jsonrpc":"2.0","id":7,"result":{}}');
});

it.each([
  ["no credentials", undefined],
  ["a wrong token of the same length", `Bearer ${"x".repeat(TOKEN.length)}`],
  ["a token that differs at the end", `Bearer ${TOKEN.slice(0, -1)}x`],
  ["a token that differs in case", `Bearer ${TOKEN.toLowerCase()}`],
  ["a shorter token", `Bearer ${TOKEN.slice(0, -1)}`],
  ["a longer token", `Bearer ${TOKEN}x`],
  ["the token twice", `Bearer ${TOKEN} ${TOKEN}`],
  ["the token in quotes", `Bearer "${TOKEN}"`],
  ["the scheme without a token", "Bearer"],
  ["the token without a space before it", `Bearer${TOKEN}`, true],
  ["the token under another scheme", `Token ${TOKEN}`, true],
  ["the bare token", TOKEN, true],
  ["an empty header", "", true],
])("%s gets 401, and an error that names a missing scheme", async (_what, authorization, isSchemeMissing = false) => {
  const reply = await ping(authorization);
  expect(readError(reply)).toStrictEqual(UNAUTHORIZED);
  expect(reply.headers["www-authenticate"]).toBe(`Bearer realm="mcp"${authorization === undefined ? "" : ', error="invalid_token"'}`);
  expect(reply.body.includes("does not begin with `Bearer `")).toBe(isSchemeMissing);
  expect(reply.body).not.toContain(TOKEN);
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

it.each([
  ["the path", {}, PING, "/mcp/"],
  ["the query", {}, PING, `/mcp?access_token=${TOKEN}`],
  ["the session", { "Mcp-Session-Id": "unknown" }, PING],
  ["the media type", { "Content-Type": "text/plain" }, PING],
  ["Accept", { Accept: "text/html" }, PING],
  ["the body's size", {}, " ".repeat(4096)],
  ["the body's text", {}, "{"],
  ["the message", {}, "[]"],
  ["the protocol version", { "MCP-Protocol-Version": "2026-01-01" }, PING],
])("the token is checked before %s", async (_what, headers, body, path = "/mcp") => {
  const all = { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId, ...headers };
  expect(readError(await send(`${sidecar.origin}${path}`, { headers: all, body }))).toStrictEqual(UNAUTHORIZED);
});

it("a sidecar without a token serves every client and logs a warning", async () => {
  await using open = await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: "" } });
  expect(await (await open.client({ token: "anything" })).request("ping")).toMatchObject({ status: 200 });
  await open.waitForLog("no auth token is set: every client that reaches the address may call");
  expect(sidecar.transcript()).not.toContain("no auth token is set");
});

const OPEN = "no auth token is set: every client that reaches the address may call";

async function openLines(options: StartOptions): Promise<unknown[]> {
  await using stopped = await HttpBench.start(options);
  await stopped.stop();
  return stopped.logLines.filter(({ msg }) => msg === OPEN).map(({ level, reason }) => ({ level, reason }));
}

/** The flags here override those of `HttpBench.start`, because the last of several flags counts. */
describe("a sidecar without a token", () => {
  it.each(["0.0.0.0:0", ":0", "[::]:0"])("the address %s causes one warning with advice", async (address) => {
    const reason = "set CLAW_MCP_STDIO_AUTH_TOKEN, or, outside a container, use --addr 127.0.0.1:0";
    expect(await openLines({ flags: ["--addr", address] })).toEqual([{ level: "warn", reason }]);
  });

  it.each(["127.0.0.1:0", "localhost:0", "127.1.2.3:0"])("the address %s causes no warning", async (address) => {
    expect(await openLines({ flags: ["--addr", address] })).toEqual([{ level: "info" }]);
  });

  it("the flag --require-auth=off overrides the variable", async () => {
    expect(await openLines({ flags: ["--require-auth=off"], env: { CLAW_MCP_STDIO_REQUIRE_AUTH: "on" } })).toEqual([{ level: "info" }]);
  });
});

describe("a sidecar with a token", () => {
  it("the sidecar starts without a warning, even with REQUIRE_AUTH", async () => {
    const env = { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN, CLAW_MCP_STDIO_REQUIRE_AUTH: "on" };
    expect(await openLines({ flags: ["--addr", "0.0.0.0:0"], env })).toEqual([]);
  });
});
