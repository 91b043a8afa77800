import { once } from "node:events";
import { PassThrough } from "node:stream";
import { describe, expect, it, vi } from "vitest";
import { MemoryBudget } from "../../src/memory.ts";
import { contextOf } from "../support/context.ts";
import { boundedReaders, OutputReader } from "../../src/process/stdio.ts";

const MIB = 1024 * 1024;

/** A server's stdout, and what was read from it: the id of each response, or the length and the id of a line that was discarded. */
class Bench {
  readonly stdout = new PassThrough();
  readonly told: string[] = [];
  readonly #reader: OutputReader;

  constructor(memory: MemoryBudget, readers = boundedReaders(memory), client?: string) {
    this.#reader = new OutputReader(this.stdout, contextOf({ maxLineBytes: 8 * MIB }, { memory }), readers, client, {
      onReading: (reading) => {
        if (reading.kind === "response") this.told.push(String(reading.id));
        else if (reading.kind === "invalid") this.told.push(reading.reason);
        else if (reading.kind !== "overlong") throw new Error("not expected", { cause: reading });
        else this.told.push(`${reading.bytes} bytes of ${reading.idText}${reading.isForMemory ? ", for memory" : ""}`);
      },
      onDefect: (error) => {
        throw error;
      },
    });
  }

  async ended(last = '"}}\n'): Promise<void> {
    this.stdout.end(last);
    while (!this.stdout.readableEnded) await new Promise((resolve) => setImmediate(resolve));
    this.#reader.end();
    await this.#reader.later;
  }
}

it("messages are read in the turn in which they arrive, and while memory is short within a second", async () => {
  const memory = new MemoryBudget(1000);
  const bench = new Bench(memory);
  const lines = (ids: readonly number[]): string => ids.map((id) => `{"jsonrpc":"2.0","id":${id},"result":{}}\n`).join("");
  const toldWithChunk = async (text: string): Promise<string[]> => {
    const arrived = once(bench.stdout, "data");
    bench.stdout.write(text);
    await arrived;
    return [...bench.told];
  };
  // On a busy machine, a turn may end after the first line.
  const clock = vi.spyOn(performance, "now").mockReturnValue(0);
  expect(await toldWithChunk(lines([1, 2]))).toEqual(["1", "2"]);
  clock.mockRestore();
  memory.account("client").hold("unread", 1000);
  expect(await toldWithChunk(lines([3, 4, 5]))).toEqual(["1", "2", "3"]);
  await expect.poll(() => bench.told).toEqual(["1", "2", "3", "4", "5"]);
});

it("each of the first 1000 messages of a batch is read, and any other element is reported", async () => {
  const bench = new Bench(new MemoryBudget(Number.MAX_SAFE_INTEGER));
  const message = '{"jsonrpc":"2.0","id":1,"result":{}}';
  await bench.ended(`[${message},7]\n[]\n[${Array(1001).fill(message).join(",")}]\n`);
  expect(bench.told.slice(0, 3)).toEqual(["1", "the message must be a JSON object", "the batch is empty"]);
  expect([bench.told.length, bench.told.at(-1)]).toEqual([1004, "only 1000 messages of the batch are read"]);
});

describe("output of servers while memory is short", () => {
  it("if incomplete lines of several servers fill the memory, the longest is discarded, and the others are read", async () => {
    const memory = new MemoryBudget(16 * MIB);
    const readers = boundedReaders(memory);
    const benches = [3 * MIB, 5 * MIB, 3 * MIB, 3 * MIB].map((length, id) => {
      const bench = new Bench(memory, readers);
      bench.stdout.write(`{"jsonrpc":"2.0","id":${id},"result":{"text":"${"x".repeat(length)}`);
      return bench;
    });
    while (memory.usedBytes > memory.calmBytes || benches.some(({ stdout }) => stdout.isPaused())) {
      await new Promise((resolve) => setImmediate(resolve));
      // As any other use of memory would. On a busy machine, the readers may all have looked before the memory was short for long enough.
      memory.relieve();
    }
    for (const bench of benches) await bench.ended();
    expect(benches.map(({ told: [line] }) => line?.replace(/^\d+/, ""))).toEqual(["", " bytes of 1, for memory", "", ""]);
    expect(benches.map(({ told: [line] }) => Number.parseInt(line ?? ""))).toEqual([0, expect.closeTo(5 * MIB, -3), 2, 3]);
    expect(memory.usedBytes).toBe(0);
  });

  it("incomplete lines of a private server make room for another client that asks for its share", async () => {
    const memory = new MemoryBudget(16 * MIB);
    const readers = boundedReaders(memory);
    const benches = [3.6, 3.2, 2.8].map((megabytes, id) => {
      const bench = new Bench(memory, readers, "client");
      bench.stdout.write(`{"jsonrpc":"2.0","id":${id},"result":{"text":"${"x".repeat(megabytes * MIB)}`);
      return bench;
    });
    const held = memory.account("client").hold("requests", 4 * MIB);
    expect(memory.hasRoomFor("other", 4 * MIB)).toBe(true);
    held.release();
    for (const bench of benches) await bench.ended();
    expect(benches.map(({ told: [line] }) => line?.replace(/^\d+/, ""))).toEqual([" bytes of 0, for memory", "", ""]);
  });

  it("one incomplete line is read to its end, even if clients have filled the memory", async () => {
    const memory = new MemoryBudget(4 * MIB);
    memory.account("client").hold("requests", 4 * MIB);
    const bench = new Bench(memory);
    const paused = once(bench.stdout, "pause");
    bench.stdout.write(`{"jsonrpc":"2.0","id":1,"result":{"text":"${"x".repeat(MIB / 2)}`);
    await paused;
    await bench.ended();
    expect(bench.told).toEqual(["1"]);
  });
});
