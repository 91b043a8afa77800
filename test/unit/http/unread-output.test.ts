import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { UnreadOutput } from "../../../src/http/output/unread-output.ts";
import { MemoryBudget } from "../../../src/memory/memory-budget.ts";
import { listen } from "../support/http-server.ts";

/** More than the operating system buffers for one connection. */
const LENGTH = 32 * 1024 * 1024;

class Bench {
  nowMs = 0;
  readonly memory = new MemoryBudget(4 * LENGTH);
  readonly cuts: number[] = [];
  readonly unread = new UnreadOutput({ nowMs: () => this.nowMs, onCut: (length) => this.cuts.push(length) });

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

describe("unread output", () => {
  it("the text of a destroyed response counts no more, before the connection has closed", async () => {
    await withUnread((bench, response) => {
      expect(bench.memory.status.unread).toBeGreaterThan(LENGTH);
      response.destroy();
      bench.count(response);
      expect(bench.memory.usedBytes).toBe(0);
    });
  });

  it("a connection is not cut off before its client has had a second to read", async () => {
    await withUnread((bench, response) => {
      bench.nowMs = 999;
      bench.unread.cutOffSlow(1);
      expect([response.destroyed, bench.cuts]).toEqual([false, []]);
      bench.nowMs = 1000;
      bench.unread.cutOffSlow(1);
      expect([response.destroyed, bench.cuts.length, bench.memory.usedBytes]).toEqual([true, 1, 0]);
    });
  });
});
