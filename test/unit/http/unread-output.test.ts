import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { UnreadOutput } from "../../../src/http/output/unread-output.ts";
import { MemoryBudget } from "../../../src/memory/memory-budget.ts";
import { getBytes } from "../../support/mcp-request-bytes.ts";
import { openUnread } from "../../support/open-sockets.ts";
import { UNGUARDED } from "../../support/defects.ts";
import { listen } from "../support/http-server.ts";

const REQUEST = getBytes("/", {});
/** More than the operating system buffers for one connection. */
const LENGTH = 32 * 1024 * 1024;

class Bench {
  nowMs = 0;
  readonly memory = new MemoryBudget(4 * LENGTH);
  readonly cuts: number[] = [];
  relieve = (): void => undefined;
  readonly unread = new UnreadOutput({
    defects: UNGUARDED,
    nowMs: () => this.nowMs,
    relieve: () => this.relieve(),
    onCut: (length) => this.cuts.push(length),
  });

  count(response: ServerResponse): void {
    this.unread.count(response, this.memory.account("client"));
  }
}

/** Answers a request with more than its client reads. */
async function withUnread(run: (bench: Bench, response: ServerResponse) => void): Promise<void> {
  const bench = new Bench();
  const done = Promise.withResolvers<void>();
  await using server = await listen((_request, response) => {
    response.write("x".repeat(LENGTH));
    bench.count(response);
    try {
      run(bench, response);
      done.resolve();
    } catch (error) {
      done.reject(error instanceof Error ? error : new Error(String(error)));
    }
    response.destroy();
  });
  await fetch(server.url)
    .then((response) => response.text())
    .catch(() => undefined);
  await done.promise;
}

interface Readers extends AsyncDisposable {
  readonly bench: Bench;
  /** The response of a client that has read a quarter of it. It was written in two parts. */
  readonly reading: ServerResponse;
  /** Makes that client read another half. */
  readonly readMore: () => Promise<void>;
  /** The response of a client that reads nothing. It began a second later. */
  readonly deaf: ServerResponse;
}

/** Reads at least this many bytes. */
async function readPart(client: Socket, bytes: number): Promise<void> {
  for (let length = 0; length < bytes;) {
    const part = client.read() as Buffer | null;
    if (part === null) await once(client, "readable");
    else length += part.length;
  }
}

async function withReader(): Promise<Readers> {
  const bench = new Bench();
  const responses: ServerResponse[] = [];
  const server = await listen((_request, response) => {
    responses.push(response);
    response.write("x".repeat(LENGTH / 2));
    bench.count(response);
    // Texts of one turn are one write.
    setImmediate(() => {
      response.write("x".repeat(LENGTH / 2));
      bench.count(response);
    });
  });
  const reader = await openUnread(server.url, REQUEST);
  while (bench.memory.usedBytes < 2 * LENGTH) await new Promise((resolve) => setImmediate(resolve));
  bench.nowMs = 1000;
  const deafReader = await openUnread(server.url, REQUEST);
  while (bench.memory.usedBytes < 4 * LENGTH) await new Promise((resolve) => setImmediate(resolve));
  // Meanwhile the operating system fills its buffers.
  await readPart(reader, LENGTH / 4);
  bench.nowMs = 1500;
  bench.unread.cutOffSlow(0);
  const [reading, deaf] = responses;
  if (reading === undefined || deaf === undefined) throw new Error("two responses were expected");
  return {
    bench,
    reading,
    deaf,
    readMore: () => readPart(reader, LENGTH / 2),
    [Symbol.asyncDispose]: async () => {
      for (const each of [...responses, reader, deafReader]) each.destroy();
      await server[Symbol.asyncDispose]();
    },
  };
}

describe("unread output", () => {
  it("the text of a destroyed response counts no more, before the connection has closed", async () => {
    await withUnread((bench, response) => {
      expect(bench.memory.status.unread).toBeGreaterThan(LENGTH);
      response.destroy();
      bench.count(response);
      expect(bench.memory.usedBytes).toBe(0);
    });
  });

  it("a response that is read late many times keeps no listeners", async () => {
    await withUnread((bench, response) => {
      const counts = (): number[] => ["drain", "close"].map((event) => response.listenerCount(event));
      response.emit("drain");
      const before = counts();
      for (let cycle = 0; cycle < 20; cycle++) {
        bench.count(response);
        expect(bench.memory.usedBytes).toBeGreaterThan(0);
        response.emit("drain");
      }
      expect([counts(), bench.memory.usedBytes]).toEqual([before, 0]);
    });
  });

  it("a connection is not cut off before its client has had a second to read", async () => {
    await withUnread((bench, response) => {
      bench.nowMs = 970;
      bench.unread.cutOffSlow(1);
      expect([response.destroyed, bench.cuts]).toEqual([false, []]);
      bench.nowMs = 1000;
      bench.unread.cutOffSlow(1);
      expect([response.destroyed, bench.cuts.length, bench.memory.usedBytes]).toEqual([true, 1, 0]);
    });
  });

  it("slow clients make room even if no other one asks for it", async () => {
    await using readers = await withReader();
    const { bench, deaf, readMore } = readers;
    await readMore();
    bench.memory.account("other").hold("requests", 2 * LENGTH);
    bench.memory.addRelief((bytes) => bench.unread.cutOffSlow(bytes));
    bench.relieve = () => bench.memory.relieve();
    bench.nowMs = 2000;
    await once(deaf, "close");
    expect(bench.cuts).toHaveLength(1);
  });

  it("a client that reads keeps its connection, though another one waits for less time", async () => {
    await using two = await withReader();
    const { bench, reading, deaf, readMore } = two;
    await readMore();
    bench.nowMs = 2000;
    bench.unread.cutOffSlow(Number.MAX_SAFE_INTEGER);
    expect([reading.destroyed, deaf.destroyed, bench.cuts.length]).toEqual([false, true, 1]);
  });

  it("short responses count if they wait for an earlier one on their connection", async () => {
    const bench = new Bench();
    await using server = await listen((_request, response) => {
      response.write("x".repeat(1000));
      bench.count(response);
    });
    const client = await openUnread(server.url, REQUEST.repeat(5));
    while (bench.memory.usedBytes < 4 * 2000) await new Promise((resolve) => setImmediate(resolve));
    expect(bench.memory.usedBytes).toBeLessThan(4 * 2 * 1500);
    client.destroy();
  });

  it("the part that a client has read counts no more, before it has read everything", async () => {
    await using two = await withReader();
    const { bench, readMore } = two;
    expect(bench.memory.usedBytes).toBeGreaterThan(4 * LENGTH);
    await readMore();
    bench.nowMs = 1600;
    bench.unread.cutOffSlow(0);
    expect(bench.memory.usedBytes).toBeLessThan(3.1 * LENGTH);
    expect(bench.cuts).toEqual([]);
  });

  it("clients that read are cut off after a second of full memory, the oldest first", async () => {
    await using two = await withReader();
    const { bench, reading, deaf } = two;
    bench.nowMs = 2500;
    bench.unread.cutOffReading(1);
    bench.nowMs = 3499;
    bench.unread.cutOffReading(1);
    expect([reading.destroyed, deaf.destroyed]).toEqual([false, false]);
    bench.nowMs = 3500;
    bench.unread.cutOffReading(1);
    expect([reading.destroyed, deaf.destroyed]).toEqual([true, false]);
  });
});
