import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { SidecarError } from "../../../src/errors.ts";
import type { OpenStream } from "../../../src/http/endpoint/event-streams.ts";
import { PostExchange } from "../../../src/http/endpoint/post-exchange.ts";
import { type Front, SESSION_FRONT } from "../../../src/http/front.ts";
import { EventStream } from "../../../src/sessions/event-stream.ts";
import { RecordedSink } from "../support/recorded-sink.ts";

/** An era that marks its responses, has a status of its own, and does not resume. */
const OTHER_FRONT: Front = {
  errorStatus: () => 404,
  errorBody: ({ code }, idText) => `{"id":${idText},"code":"${code}"}`,
  responseBody: (body) => body.replace(/\}$/, ',"marked":true}'),
  cancelsOnDisconnect: () => true,
};

/** A server whose requests are answered by `handle`. */
async function listen(handle: (response: ServerResponse) => void): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((_request, response) => handle(response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      await promisify(server.close.bind(server))();
    },
  };
}

function exchangeOf(front: Front, response: ServerResponse, openStream?: () => OpenStream): PostExchange {
  return new PostExchange({ front, response, defects: { recover: fail }, idText: '"a"', acceptedAtMs: 0, openStream });
}

function fail(_event: string, error: unknown): never {
  throw error;
}

/** Answers a POST with a resumable stream, and disconnects its client. @returns true if that cancelled the request. */
async function isCancelled(front: Front): Promise<boolean> {
  const closed = Promise.withResolvers<boolean>();
  await using server = await listen((response) => {
    const exchange = exchangeOf(front, response, () => {
      response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
      const stream = new EventStream(1, false, undefined, () => undefined);
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
  it("decides the status and the text of errors", async () => {
    const error = new SidecarError("OVERLOADED", "full", { retryAfterSeconds: 3 });
    await using server = await listen((response) => exchangeOf(OTHER_FRONT, response).fail(error));
    const response = await fetch(server.url, { method: "POST" });
    expect([response.status, response.headers.get("Retry-After"), await response.text()]).toEqual([
      404,
      "3",
      '{"id":"a","code":"OVERLOADED"}',
    ]);
  });

  it("shapes the server's response", async () => {
    await using server = await listen((response) => exchangeOf(OTHER_FRONT, response).respond('{"id":"a","result":{}}'));
    const response = await fetch(server.url, { method: "POST" });
    expect(await response.text()).toBe('{"id":"a","result":{},"marked":true}');
  });

  it("decides if a disconnect cancels a request whose client could reconnect", async () => {
    expect([await isCancelled(SESSION_FRONT), await isCancelled(OTHER_FRONT)]).toEqual([false, true]);
  });
});
