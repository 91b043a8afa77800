import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { initializeRequest, JSON_HEADERS } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const UNSUPPORTED = errorReply(415, -32000, "UNSUPPORTED_MEDIA_TYPE");

const sidecar = disposeAfterAll(await HttpBench.start());
const sessionId = (await sidecar.client()).sessionId;

function ping(headers: Readonly<Record<string, string>>): Promise<HttpReply> {
  const body = '{"jsonrpc":"2.0","id":7,"method":"ping"}';
  return send(sidecar.url, { headers: { "Mcp-Session-Id": sessionId, ...headers }, body });
}

const pong = { status: 200, contentType: "application/json", body: { jsonrpc: "2.0", id: 7, result: {} } };

describe("the request body", () => {
  it.each([
    "application/json",
    "application/json; charset=utf-8",
    'application/json;charset="UTF-8"',
    "Application/JSON ; Charset=Utf-8",
    "application/json; profile=x",
  ])("Content-Type: %s is accepted", async (contentType) => {
    expect(readError(await ping({ ...JSON_HEADERS, "Content-Type": contentType }))).toStrictEqual(pong);
  });

  it.each([
    "text/plain",
    "application/json-rpc",
    "multipart/form-data; boundary=x",
    "application/json; charset=iso-8859-1",
    "application/json, text/plain",
    "*/*",
    ";",
    undefined,
  ])("Content-Type: %s gets 415", async (contentType) => {
    const headers = contentType === undefined ? {} : { "Content-Type": contentType };
    expect(readError(await ping({ Accept: JSON_HEADERS.Accept, ...headers }))).toStrictEqual(UNSUPPORTED);
  });

  it.each(["gzip", "GZIP", "gzip, identity", "x-unknown"])("Content-Encoding: %s gets 415", async (encoding) => {
    expect(readError(await ping({ ...JSON_HEADERS, "Content-Encoding": encoding }))).toStrictEqual(UNSUPPORTED);
  });

  it("Content-Encoding: Identity is accepted", async () => {
    expect(readError(await ping({ ...JSON_HEADERS, "Content-Encoding": "Identity" }))).toStrictEqual(pong);
  });
});

describe("the response", () => {
  it.each([
    undefined,
    "*/*",
    "application/*",
    "APPLICATION/JSON",
    "text/event-stream, application/json",
    "text/event-stream, */*;q=0.1",
    "application/json; charset=utf-8;q=0.001, text/event-stream",
  ])("a client with Accept: %s gets JSON", async (accept) => {
    const headers = accept === undefined ? {} : { Accept: accept };
    expect(readError(await ping({ "Content-Type": "application/json", ...headers }))).toStrictEqual(pong);
  });

  it.each([
    "text/event-stream",
    "text/html",
    "text/*",
    "application/json;q=0",
    "application/json;q=0, */*",
    "application/*;q=0, text/event-stream",
  ])("a client with Accept: %s gets 406", async (accept) => {
    const reply = await ping({ "Content-Type": "application/json", Accept: accept });
    expect(readError(reply)).toStrictEqual(errorReply(406, -32000, "NOT_ACCEPTABLE"));
  });

  it("an initialize request that is rejected with 406 does not open a session", async () => {
    const body = JSON.stringify(initializeRequest());
    const reply = await send(sidecar.url, { headers: { "Content-Type": "application/json", Accept: "text/event-stream" }, body });
    expect(readError(reply)).toStrictEqual(errorReply(406, -32000, "NOT_ACCEPTABLE"));
    expect(reply.headers).not.toHaveProperty("mcp-session-id");
  });
});

it("a rejected request does not reach the server", async () => {
  const client = await sidecar.client();
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "x-test/refused" });
  const session = { "Mcp-Session-Id": client.sessionId };
  const mediaType = await send(sidecar.url, { headers: { ...JSON_HEADERS, ...session, "Content-Type": "text/plain" }, body });
  const encoding = await send(sidecar.url, { headers: { ...JSON_HEADERS, ...session, "Content-Encoding": "gzip" }, body });
  const accept = await send(sidecar.url, { headers: { ...JSON_HEADERS, ...session, Accept: "text/html" }, body });
  expect([mediaType.status, encoding.status, accept.status]).toEqual([415, 415, 406]);
  expect(JSON.parse(await client.toolText("seen"))).not.toContain("x-test/refused");
});
