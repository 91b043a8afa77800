import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { ArrivingBodies } from "../../../src/http/endpoint/arriving-bodies.ts";
import { PostExchange } from "../../../src/http/endpoint/post-exchange.ts";
import { SessionLookup } from "../../../src/http/endpoint/session-lookup.ts";
import { PostRoute } from "../../../src/http/endpoint/post-route.ts";
import { SESSION_FRONT } from "../../../src/http/front.ts";
import { SseConnections } from "../../../src/http/output/sse-connection.ts";
import { internalError } from "../../../src/lane/failures.ts";
import { Counters } from "../../../src/observability/counters.ts";
import { Defects } from "../../../src/observability/defects.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { Session } from "../../../src/sessions/session.ts";
import { SessionStore } from "../../../src/sessions/session-store.ts";
import { SessionStreams } from "../../../src/sessions/streams/session-streams.ts";
import { RecordedLog } from "../../support/recorded-log.ts";
import { UNGUARDED } from "../../support/defects.ts";
import { listen } from "../support/http-server.ts";
import { messageOfClient } from "../../server/support/lane-bench.ts";
import { ACCOUNT, UNCOUNTED } from "../../server/support/memory.ts";

const CALL = messageOfClient({ id: 1, method: "tools/call", params: { name: "echo" } });
const NOTIFICATION = messageOfClient({ method: "notifications/cancelled", params: { requestId: 1 } });
const INITIALIZE = messageOfClient({ id: 1, method: "initialize", params: {} });

/** No session can be taken up. */
const NO_RETURN = { recognize: () => undefined, takeUp: () => undefined, forget: () => undefined };

/** A route with one session. Records the methods of the messages that it passes on. */
class RecordedRoute {
  readonly forwarded: string[] = [];
  readonly session: Session;
  readonly #route: PostRoute;

  constructor(protocolVersion: string) {
    const record = ({ method }: { readonly method: string }): undefined => void this.forwarded.push(method);
    const lane = {
      request: (_caller: unknown, _exchange: unknown, request: { readonly method: string }) => record(request),
      notify: (_session: unknown, notification: { readonly method: string }) => record(notification),
      refuse: () => undefined,
      answer: () => undefined,
      announceLists: () => undefined,
      endCaller: () => undefined,
    };
    const sessions = new SessionStore(1);
    this.session = new Session({
      id: randomUUID(),
      protocolVersion,
      lane,
      streams: new SessionStreams(undefined),
      memory: ACCOUNT,
      nowMs: 0,
    });
    sessions.add(this.session);
    this.#route = new PostRoute({
      opener: { initialize: (_exchange, request) => record(request) },
      lookup: new SessionLookup({ opener: NO_RETURN, sessions, nowMs: () => 0 }),
      connections: new SseConnections(60_000, UNCOUNTED, UNGUARDED),
      unread: UNCOUNTED,
      stateless: undefined,
      observe: undefined,
      maxBodyBytes: 1000,
      bodies: new ArrivingBodies(),
      counters: new Counters(),
      defects: new Defects(new RecordedLog(), new Counters()),
      nowMs: () => 0,
    });
  }

  /** Passes messages of a client that has disconnected. */
  async receiveFromGone(messages: Message | Message[]): Promise<void> {
    const arrived = Promise.withResolvers<readonly [IncomingMessage, ServerResponse]>();
    await using server = await listen((...post) => arrived.resolve(post));
    const client = new AbortController();
    const headers = { "Mcp-Session-Id": this.session.id };
    const failed = fetch(server.url, { method: "POST", headers, signal: client.signal }).catch(() => undefined);
    const [request, response] = await arrived.promise;
    client.abort();
    await Promise.all([failed, once(response, "close")]);
    this.#route.onMessages({ request, response, principal: undefined, acceptedAtMs: 0, memory: ACCOUNT, session: undefined }, messages);
  }
}

describe("a client that leaves while its long body is read", () => {
  it.each<[string, Message | Message[]]>([
    ["a request", CALL],
    ["an initialize request", INITIALIZE],
    ["a batch", [CALL, CALL]],
  ])("%s of it is not forwarded", async (_name, messages) => {
    const route = new RecordedRoute("2025-03-26");
    await route.receiveFromGone(messages);
    expect(route.forwarded).toEqual([]);
  });

  it("a notification of it is forwarded", async () => {
    const route = new RecordedRoute("2025-11-25");
    await route.receiveFromGone(NOTIFICATION);
    expect(route.forwarded).toEqual(["notifications/cancelled"]);
  });
});

describe("a batch as a whole", () => {
  it("its error is valid JSON, without an id", async () => {
    await using server = await listen((_request, response) => {
      const defects = new Defects(new RecordedLog(), new Counters());
      new PostExchange({
        front: SESSION_FRONT,
        response,
        memory: ACCOUNT,
        unread: UNCOUNTED,
        defects,
        idText: undefined,
        acceptedAtMs: 0,
      }).fail(internalError(true));
    });
    const response = await fetch(server.url, { method: "POST" });
    const body = (await response.json()) as object;
    expect(body).toMatchObject({ jsonrpc: "2.0", error: { data: { code: "INTERNAL_ERROR" } } });
    expect(body).not.toHaveProperty("id");
  });
});
