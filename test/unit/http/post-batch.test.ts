import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { PostBatch } from "../../../src/http/endpoint/post-batch.ts";
import { PostExchange } from "../../../src/http/endpoint/post-exchange.ts";
import { openStatelessStream } from "../../../src/http/endpoint/event-streams.ts";
import { SESSION_FRONT } from "../../../src/http/front.ts";
import { SseConnections } from "../../../src/http/output/sse-connection.ts";
import { MemoryBudget } from "../../../src/memory/memory-budget.ts";
import { Counters } from "../../../src/observability/counters.ts";
import { Defects } from "../../../src/observability/defects.ts";
import type { Exchange } from "../../../src/sessions/exchange.ts";
import { RecordedLog } from "../../support/recorded-log.ts";
import { UNGUARDED } from "../../support/defects.ts";
import { listen } from "../support/http-server.ts";
import { requestOfClient } from "../../server/support/lane-bench.ts";
import { UNCOUNTED } from "../../server/support/memory.ts";

const KIB = 1024;
const DEFECTS = new Defects(new RecordedLog(), new Counters());
const METHODS = ["ping", "tools/call", "tools/list"];

interface Bench {
  readonly memory: MemoryBudget;
  readonly exchanges: readonly Exchange[];
  readonly response: ServerResponse;
}

/** Returns a response of this length to the request with this number. */
function responseOf(number: number, length: number): string {
  return `{"jsonrpc":"2.0","id":${number},"result":${JSON.stringify("x".repeat(length))}}`;
}

/** Answers a POST as a batch of three requests. @returns the text that its client has read. */
async function answer(limitBytes: number, readsStreams: boolean, run: (bench: Bench) => void | Promise<void>): Promise<string> {
  const memory = new MemoryBudget(limitBytes);
  const account = memory.account("client");
  const ran = Promise.withResolvers<void>();
  await using server = await listen((_request, response) => {
    const connections = new SseConnections(60_000, UNCOUNTED, UNGUARDED);
    const openStream = readsStreams ? () => openStatelessStream(connections, response, account) : undefined;
    const options = { front: SESSION_FRONT, response, memory: account, unread: UNCOUNTED, defects: DEFECTS, idText: undefined };
    const batch = new PostBatch(SESSION_FRONT, new PostExchange({ ...options, acceptedAtMs: 0, openStream }), account);
    const exchanges = METHODS.map((method, id) => batch.add(requestOfClient({ id, method })));
    Promise.resolve(run({ memory, exchanges, response })).then(ran.resolve, ran.reject);
  });
  const text = await fetch(server.url, { method: "POST" })
    .then((response) => response.text())
    .catch(() => "");
  await ran.promise;
  expect(memory.usedBytes).toBe(0);
  return text;
}

describe("the responses of a batch", () => {
  it("responses that wait for others count until they are sent", async () => {
    const text = await answer(1024 * KIB, false, ({ memory, exchanges }) => {
      for (const [id, exchange] of exchanges.entries()) {
        expect(memory.status.unread).toBeGreaterThanOrEqual(id * 200 * KIB);
        exchange.respond(responseOf(id, 100 * KIB));
      }
    });
    expect(text).toBe(`[${METHODS.map((_method, id) => responseOf(id, 100 * KIB)).join(",")}]`);
  });

  it("a response without room becomes an error, and small ones are kept", async () => {
    const text = await answer(512 * KIB, false, ({ exchanges }) => {
      for (const [id, exchange] of exchanges.entries()) exchange.respond(responseOf(id, id === 2 ? 1 : 150 * KIB));
    });
    const sent = { code: "OUT_OF_MEMORY", sent: true, retrySafe: false };
    expect(JSON.parse(text)).toMatchObject([
      { id: 0, result: {} },
      { id: 1, error: { data: sent } },
      { id: 2, result: "x" },
    ]);
  });

  it("a response without room to a request that only reads is safe to retry", async () => {
    const text = await answer(64 * KIB, false, ({ exchanges }) => {
      for (const [id, exchange] of exchanges.entries()) exchange.respond(responseOf(id, 64 * KIB));
    });
    expect(JSON.parse(text)).toMatchObject([true, false, true].map((retrySafe) => ({ error: { data: { sent: true, retrySafe } } })));
  });

  it("a response without room begins a stream if the client reads one", async () => {
    const text = await answer(512 * KIB, true, ({ memory, exchanges }) => {
      for (const [id, exchange] of exchanges.entries()) {
        exchange.respond(responseOf(id, 150 * KIB));
        expect(memory.status.unread > 0).toBe(id === 0);
      }
    });
    const events = text.split("\n").filter((line) => line.startsWith("data: "));
    expect(events).toEqual(METHODS.map((_method, id) => `data: ${responseOf(id, 150 * KIB)}`));
  });

  it("responses are dropped when the client disconnects", async () => {
    await answer(1024 * KIB, false, async ({ memory, exchanges, response }) => {
      exchanges[0]?.respond(responseOf(0, 100 * KIB));
      expect(memory.status.unread).toBeGreaterThan(0);
      response.destroy();
      await once(response, "close");
      exchanges[1]?.respond(responseOf(1, 100 * KIB));
    });
  });
});
