import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import { RawConnection, getBytes, postBytes } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";
import { toolCall } from "../support/mcp-client.ts";

const BAD_REQUEST = errorReply(400, -32600, "INVALID_REQUEST", { data: { sent: false } });
const HEADERS_TOO_LARGE = errorReply(431, -32600, "INVALID_REQUEST", { data: { sent: false } });
const JSON_FIELDS = "Content-Type: application/json\r\nAccept: application/json\r\n";

const sidecar = disposeAfterAll(await HttpBench.start());
const client = await sidecar.client();

it.each([
  ["text that is not HTTP", "GARBAGE\r\n\r\n"],
  ["a TLS handshake", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
  ["an unknown method", "BREW /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"],
  ["a header without a colon", "GET /mcp HTTP/1.1\r\nHost: localhost\r\nbroken\r\n\r\n"],
  ["a control character in a header", "GET /mcp HTTP/1.1\r\nHost: localhost\r\nX-Test: a\x01b\r\n\r\n"],
  ["a length that is not a number", `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_FIELDS}Content-Length: x\r\n\r\n`],
  ["two lengths", `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_FIELDS}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`],
  [
    "a length and chunks",
    `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_FIELDS}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    "another coding before the chunks",
    `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_FIELDS}Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  ],
  [
    "two fields of codings",
    `POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    "a chunk size that is not a number",
    `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_FIELDS}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n`,
  ],
])("a request with %s gets 400 in JSON, and the connection is closed", async (_what, bytes) => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(Buffer.from(bytes, "latin1"));
  const reply = await connection.reply();
  expect(readError(reply)).toStrictEqual(BAD_REQUEST);
  expect(reply.headers["connection"]).toBe("close");
  expect(await connection.rest()).toEqual({ text: "", end: "closed" });
});

it.each([
  ["a huge header", "mcp", `X-Test: ${"x".repeat(20_000)}\r\n`],
  ["many headers", "mcp", Array.from({ length: 2000 }, (_, index) => `X-Test-${index}: value\r\n`).join("")],
  ["a huge path", "x".repeat(20_000), ""],
])("a request with %s gets 431 in JSON, and the connection is closed", async (_what, path, fields) => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(`GET /${path} HTTP/1.1\r\nHost: localhost\r\n${fields}\r\n`);
  const reply = await connection.reply();
  expect(readError(reply)).toStrictEqual(HEADERS_TOO_LARGE);
  expect(reply.headers["connection"]).toBe("close");
  expect(await connection.rest()).toEqual({ text: "", end: "closed" });
});

it("a client that keeps sending gets its 400", async () => {
  using connection = await RawConnection.open(sidecar.origin, true);
  await connection.write(`POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_FIELDS}Transfer-Encoding: chunked\r\n\r\nzz\r\n`);
  for (let pieces = 0; pieces < 20; pieces++) await connection.write(Buffer.alloc(1_000_000, "x"));
  expect(readError(await connection.reply())).toStrictEqual(BAD_REQUEST);
});

it.each(["example.com:443", "/mcp", "localhost:80"])("CONNECT %s closes the connection", async (target) => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(`CONNECT ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  expect(await connection.rest()).toEqual({ text: "", end: "closed" });
});

it.each(["http://[::1", "http://", "http:///"])("the target %j, which is not a URL, gets 404 in JSON", async (target) => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n`);
  expect(readError(await connection.reply())).toStrictEqual(errorReply(404, -32000, "NOT_FOUND"));
});

it("a client that expects 100-continue gets it, and then the response", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  const bytes = postBytes({ jsonrpc: "2.0", id: 7, method: "ping" }, client.sessionId).replace(
    "Accept:",
    "Expect: 100-continue\r\nAccept:",
  );
  const bodyStart = bytes.indexOf("\r\n\r\n") + 4;
  await connection.write(bytes.slice(0, bodyStart));
  expect(await connection.reply()).toMatchObject({ status: 100, body: "" });
  await connection.write(bytes.slice(bodyStart));
  expect((await connection.reply()).body).toBe('{"jsonrpc":"2.0","id":7,"result":{}}');
});

it("another expectation is ignored", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  const bytes = postBytes({ jsonrpc: "2.0", id: 7, method: "ping" }, client.sessionId).replace("Accept:", "Expect: tea\r\nAccept:");
  await connection.write(bytes);
  expect((await connection.reply()).body).toBe('{"jsonrpc":"2.0","id":7,"result":{}}');
  await connection.write(getBytes("/livez"));
  expect((await connection.reply()).status).toBe(200);
});

it.each([
  ["websocket", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="],
  ["h2c", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"],
])("an upgrade to %s is ignored, and the connection stays usable", async (_what, fields) => {
  using connection = await RawConnection.open(sidecar.origin);
  const bytes = postBytes({ jsonrpc: "2.0", id: 7, method: "ping" }, client.sessionId);
  await connection.write(bytes.replace("Accept:", `${fields}\r\nAccept:`));
  expect((await connection.reply()).body).toBe('{"jsonrpc":"2.0","id":7,"result":{}}');
  await connection.write(bytes);
  expect((await connection.reply()).body).toBe('{"jsonrpc":"2.0","id":7,"result":{}}');
});

it("HEAD gets 405 without a body, and the next request is answered", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(`HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n${getBytes("/livez")}`);
  const heads = (await connection.reply("HEAD")).status;
  expect([heads, (await connection.reply()).status]).toEqual([405, 200]);
});

it.each([
  ["1.1", "Host: localhost\r\nHost: evil.com"],
  ["1.1", "Host: localhost\r\nhost: localhost"],
  ["1.0", "HOST: localhost\r\nHost:"],
])("an HTTP/%s request with two Host headers gets 400 in JSON: %j", async (version, fields) => {
  for (const path of ["/mcp", "/status", "/livez", "/unknown"]) {
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(`GET ${path} HTTP/${version}\r\n${fields}\r\n\r\n`);
    const reply = await connection.reply();
    expect(readError(reply)).toStrictEqual(BAD_REQUEST);
    expect(reply.body).toContain("several Host headers");
    expect(reply.headers["connection"]).toBe("close");
  }
});

it("a request with two session ids is in no session", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  const other = await sidecar.client();
  const bytes = postBytes({ jsonrpc: "2.0", id: 7, method: "ping" }, client.sessionId);
  await connection.write(bytes.replace("Accept:", `Mcp-Session-Id: ${other.sessionId}\r\nAccept:`));
  expect(readError(await connection.reply())).toMatchObject({ status: 404, body: { error: { data: { code: "SESSION_NOT_FOUND" } } } });
});

it("an HTTP/1.1 request without Host gets 400 in JSON, after the request before it is answered", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  const bytes = postBytes({ jsonrpc: "2.0", id: 7, method: "ping" }, client.sessionId);
  await connection.write(bytes);
  expect((await connection.reply()).body).toBe('{"jsonrpc":"2.0","id":7,"result":{}}');
  await connection.write(bytes.replace("Host: localhost\r\n", ""));
  expect(readError(await connection.reply())).toStrictEqual(BAD_REQUEST);
});

it("the sidecar survives connections that end in every unfinished state", async () => {
  const unfinished = [
    "",
    "POST",
    "POST /mcp HTTP/1.1\r\nHost: loc",
    `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_FIELDS}Content-Length: 100\r\n\r\n`,
    `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_FIELDS}Content-Length: 100\r\n\r\n{"jsonrpc"`,
    `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_FIELDS}Transfer-Encoding: chunked\r\n\r\n5\r\n{"j`,
  ];
  for (const bytes of unfinished) {
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(bytes);
    connection.end();
    await connection.rest();
  }
  expect(await client.request("ping")).toEqual({ status: 200, jsonrpc: "2.0", id: 2, result: {} });
});

it("a request in flight is not answered with the error of a later one", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  const call = toolCall("hang", {}, 7);
  await connection.write(postBytes(call, client.sessionId));
  await waitForHanging(client, 1);
  await connection.write("GARBAGE\r\n\r\n");
  expect((await connection.rest()).text).toBe("");
});
