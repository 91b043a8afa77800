import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { ERROR_CATALOG } from "../../../src/error-catalog/error-catalog.ts";
import { SidecarError, type SidecarErrorCode } from "../../../src/errors.ts";
import type { OpenStream } from "../../../src/http/endpoint/event-streams.ts";
import { PostExchange } from "../../../src/http/endpoint/post-exchange.ts";
import { type Front, MODERN_FRONT, SESSION_FRONT } from "../../../src/http/front.ts";
import { EventStream } from "../../../src/sessions/streams/event-stream.ts";
import { listen } from "../support/http-server.ts";
import { RecordedSink } from "../../server/support/recorded-sink.ts";
import { ACCOUNT, UNCOUNTED } from "../../server/support/memory.ts";

/** An era that has statuses of its own, and does not resume. */
const OTHER_FRONT: Front = {
  errorStatus: () => 404,
  errorBody: ({ code }, idText) => `{"id":${idText},"code":"${code}"}`,
  responseStatus: () => 418,
  cancelsOnDisconnect: () => true,
};

function exchangeOf(front: Front, response: ServerResponse, openStream?: () => OpenStream): PostExchange {
  return new PostExchange({
    front,
    response,
    memory: ACCOUNT,
    unread: UNCOUNTED,
    defects: { recover: fail },
    idText: '"a"',
    acceptedAtMs: 0,
    openStream,
  });
}

function fail(_event: string, error: unknown): never {
  throw error;
}

/** Answers a POST with a resumable stream, and disconnects its client. @returns true if that cancelled the request. */
async function isCancelled(front: Front): Promise<boolean> {
  const closed = Promise.withResolvers<boolean>();
  await using server = await listen((_request, response) => {
    const exchange = exchangeOf(front, response, () => {
      response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
      const stream = new EventStream({ isStandalone: false, streamId: 1, replica: "" }, undefined, () => undefined);
      const connection = new RecordedSink();
      stream.attach(connection, 0);
      return { stream, connection, isPrimed: true };
    });
    let wasCancelled = false;
    exchange.onDisconnect(() => (wasCancelled = true));
    exchange.keepAlive();
    // The listener of the exchange was added before this one.
    response.once("close", () => closed.resolve(wasCancelled));
  });
  const client = new AbortController();
  await fetch(server.url, { method: "POST", signal: client.signal });
  client.abort();
  return await closed.promise;
}

describe("the front of a client", () => {
  it("the front decides the status and the text of errors", async () => {
    const error = new SidecarError("OVERLOADED", "full", { retryAfterSeconds: 3 });
    await using server = await listen((_request, response) => exchangeOf(OTHER_FRONT, response).fail(error));
    const response = await fetch(server.url, { method: "POST" });
    expect([response.status, response.headers.get("Retry-After"), await response.text()]).toEqual([
      404,
      "3",
      '{"id":"a","code":"OVERLOADED"}',
    ]);
  });

  it("the front decides the status of the server's response", async () => {
    await using server = await listen((_request, response) => exchangeOf(OTHER_FRONT, response).respond('{"id":"a","result":{}}'));
    const response = await fetch(server.url, { method: "POST" });
    expect([response.status, await response.text()]).toEqual([418, '{"id":"a","result":{}}']);
  });

  it("the front decides if a disconnect cancels a request that is resumable", async () => {
    expect([await isCancelled(SESSION_FRONT), await isCancelled(OTHER_FRONT)]).toEqual([false, true]);
  });
});

describe("the front of clients without a session", () => {
  it.each([
    [String.raw`{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[{"type":"text","text":"\"error\""}]}}`, 200],
    ['{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}', 404],
    ['{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"no"}}', 400],
    ['{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"no"}}', 400],
    ['{"jsonrpc":"2.0","id":1,"error":{"message":"no","code":-32022}}', 400],
    ['{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}', 200],
    ['{"jsonrpc":"2.0","id":1,"error":{}}', 200],
  ])("the response %s has HTTP status %i", (body, status) => {
    expect(MODERN_FRONT.responseStatus(body)).toBe(status);
  });

  it("the error for a capability that the client lacks is 400, since the revision demands it, and 200 in a session", () => {
    const error = new SidecarError("MISSING_CAPABILITY", "why", { sent: true });
    expect([MODERN_FRONT.errorStatus(error), SESSION_FRONT.errorStatus(error)]).toEqual([400, 200]);
  });

  it("errors have no code that is reserved for earlier revisions", () => {
    for (const code of Object.keys(ERROR_CATALOG) as SidecarErrorCode[]) {
      const { error } = JSON.parse(MODERN_FRONT.errorBody(new SidecarError(code, "no"), "7")) as { error: { code: number; data: object } };
      expect(error.code <= -32_000 && error.code >= -32_019).toBe(false);
      expect(error.data).toMatchObject({ code });
    }
  });
});
