import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { Pod } from "../support/pod.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";

const TOKEN = "s3cret-Token.0123456789";
const AUTHORIZED = { Authorization: `Bearer ${TOKEN}` };
const ORIGIN_NOT_ALLOWED = errorReply(403, -32000, "ORIGIN_NOT_ALLOWED", { data: { sent: false } });
const HOST_NOT_ALLOWED = errorReply(403, -32000, "HOST_NOT_ALLOWED", { data: { sent: false } });
const PING = '{"jsonrpc":"2.0","id":7,"method":"ping"}';
const PONG = { status: 200, contentType: "application/json", body: { jsonrpc: "2.0", id: 7, result: {} } };

function ping(client: McpClient, headers: Readonly<Record<string, string>>): Promise<HttpReply> {
  return client.post(PING, { headers });
}

const sidecar = disposeAfterAll(await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } }));
const client = await sidecar.client({ headers: AUTHORIZED });

/** Sends a ping with this request line and these fields, which an HTTP client would not send. */
async function pingRaw(requestLine: string, ...fields: readonly string[]): Promise<HttpReply> {
  using connection = await RawConnection.open(sidecar.origin);
  const common = [`Authorization: ${AUTHORIZED.Authorization}`, `Mcp-Session-Id: ${client.sessionId}`, "Content-Type: application/json"];
  await connection.write([requestLine, ...fields, ...common, `Content-Length: ${PING.length}`, "", PING].join("\r\n"));
  return await connection.reply();
}

it.each(["POST", "GET", "DELETE", "OPTIONS", "PUT"])("the host of a %s request is checked", async (method) => {
  const headers = { ...AUTHORIZED, "Mcp-Session-Id": client.sessionId, Host: "evil.com" };
  expect(readError(await send(sidecar.url, { method, headers }))).toStrictEqual(HOST_NOT_ALLOWED);
  expect(readError(await ping(client, {}))).toStrictEqual(PONG);
});

it("the error names the host and the setting to change", async () => {
  const { body } = await ping(client, { Host: "evil.com:80" });
  expect((JSON.parse(body) as { error: { message: string } }).error.message).toBe(
    'The host "evil.com:80" is not allowed; to allow it, add it to CLAW_MCP_STDIO_ALLOWED_HOSTS.',
  );
});

it.each([
  ["http://evil.com/mcp", "localhost"],
  ["HTTP://evil.com/mcp", "localhost"],
  ["http://localhost/mcp", "evil.com"],
  ["https://evil.com/mcp?x=/", "evil.com"],
  ["ftp://evil.com/mcp", "localhost"],
  ["http://evil.com/status", "localhost"],
])("the request line %s and the Host header %s are both checked", async (target, host) => {
  expect(readError(await pingRaw(`POST ${target} HTTP/1.1`, `Host: ${host}`))).toStrictEqual(HOST_NOT_ALLOWED);
});

it("an HTTP/1.0 request without a host is accepted", async () => {
  expect(readError(await pingRaw("POST /mcp HTTP/1.0"))).toStrictEqual(PONG);
});

it("a pod on all interfaces accepts any host, but only local pages", async () => {
  await using pod = await Pod.start();
  const podClient = await new McpClient(`${pod.origin}/mcp`).open();
  for (const host of ["search.default.svc.cluster.local:8080", "10.1.2.3:8080", "my_service", "localhost"]) {
    expect(readError(await ping(podClient, { Host: host }))).toStrictEqual(PONG);
  }
  const rebound = { Host: "evil.com", Origin: "http://evil.com" };
  expect(readError(await ping(podClient, rebound))).toStrictEqual(ORIGIN_NOT_ALLOWED);
  expect(readError(await ping(podClient, { Host: "search:8080", Origin: "http://localhost:5173" }))).toStrictEqual(PONG);
});

it("*.host accepts all names below a host, and not the host itself", async () => {
  await using pod = await Pod.start({ env: { CLAW_MCP_STDIO_ALLOWED_HOSTS: "*.mcp.example,*.only.example:8443" } });
  const podClient = await new McpClient(`${pod.origin}/mcp`).open();
  for (const host of ["a.mcp.example", "A.B.MCP.Example.:8080", "a.only.example:8443", "localhost"]) {
    expect(readError(await ping(podClient, { Host: host }))).toStrictEqual(PONG);
  }
  for (const host of ["mcp.example", ".mcp.example", "amcp.example", "a.mcp.example.evil.com", "a.only.example", "a.only.example:80"]) {
    expect(readError(await ping(podClient, { Host: host }))).toMatchObject({ status: 403 });
  }
});

it("* accepts every host on loopback, but gives no details to public names", async () => {
  await using open = await HttpBench.start({ env: { CLAW_MCP_STDIO_ALLOWED_HOSTS: "*" } });
  const openClient = await open.client();
  for (const host of ["mcp.example", "10.1.2.3:8080"]) expect(readError(await ping(openClient, { Host: host }))).toStrictEqual(PONG);
  const statusFor = async (host: string): Promise<number> =>
    (await send(`${open.origin}/status`, { method: "GET", headers: { Host: host } })).status;
  expect([await statusFor("mcp.example"), await statusFor("10.1.2.3:8080")]).toEqual([403, 200]);
});
