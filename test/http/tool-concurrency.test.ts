import { describe, expect, it } from "vitest";
import { GatedCalls, LET_THROUGH } from "../support/gated-calls.ts";
import { readResponse } from "../support/json-rpc.ts";
import { LANE_CLIENTS, LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

const ONE_AT_A_TIME = ["--tool-concurrency", "wait_for_*=1"];

async function readCounts(sidecar: RunningSidecar): Promise<{ accepted: number; endings: number; held: number }> {
  const { requests, answers } = (await readStatus(sidecar)).counters as unknown as {
    readonly requests: { readonly accepted: number; readonly held: number };
    readonly answers: { readonly failures: Readonly<Record<string, number>> } & Readonly<Record<string, number>>;
  };
  const { failures, ...kinds } = answers;
  const endings = [...Object.values(kinds), ...Object.values(failures)].reduce((sum, count) => sum + count, 0);
  return { accepted: requests.accepted, held: requests.held, endings };
}

describe.each(LANE_CLIENTS)("calls above TOOL_CONCURRENCY of a $lane server", ({ connect }) => {
  it("calls of the tool wait for each other, and other calls do not wait", async () => {
    await using sidecar = await HttpBench.start({ flags: ONE_AT_A_TIME });
    await using gated = await GatedCalls.create(sidecar);
    const client = await connect(sidecar);
    const replies = ["1", "2", "3"].map((name) => gated.post(client, name));
    await gated.waitForReached(1);
    expect(await client.toolText("echo", { text: "at once" })).toBe("at once");
    for (let count = 1; count <= 3; count++) {
      const reached = await gated.waitForReached(count);
      expect(reached).toHaveLength(count);
      await gated.letThrough(...reached);
    }
    expect((await Promise.all(replies)).map((reply) => readResponse(reply))).toEqual(
      ["1", "2", "3"].map((id) => ({ jsonrpc: "2.0", id, result: LET_THROUGH })),
    );
    const { accepted, endings } = await readCounts(sidecar);
    expect(accepted).toBe(endings);
  });
});

describe("calls above TOOL_CONCURRENCY", () => {
  it("a call is never sent after its cancellation, its client's disconnect or its session's end", async () => {
    await using sidecar = await HttpBench.start({ flags: ONE_AT_A_TIME });
    await using gated = await GatedCalls.create(sidecar);
    const [client, ending] = [await sidecar.client(), await sidecar.client()];
    const leaving = new AbortController();
    const running = gated.post(client, "running");
    await gated.waitForReached(1);
    const cancelled = gated.post(client, "cancelled");
    const left = gated.post(client, "left", { signal: leaving.signal }).catch(String);
    const ended = gated.post(ending, "ended");
    const last = gated.post(client, "last");
    await gated.waitForWaiting(4);
    await client.notify("notifications/cancelled", { requestId: "cancelled" });
    leaving.abort();
    await ending.end();
    expect([(await cancelled).status, await left]).toEqual([202, expect.stringContaining("abort")]);
    expect(readResponse(await ended).error?.data).toMatchObject({ code: "REQUEST_CANCELLED", sent: false });
    await gated.waitForWaiting(1);
    await gated.letThrough("running", "cancelled", "left", "ended", "last");
    expect([readResponse(await running).result, readResponse(await last).result]).toEqual([LET_THROUGH, LET_THROUGH]);
    expect(await gated.waitForReached(2)).toEqual(["running", "last"]);
    const { accepted, endings } = await readCounts(sidecar);
    expect(accepted).toBe(endings);
  });

  it("calls are counted for each server separately", async () => {
    await using sidecar = await HttpBench.start({ flags: ONE_AT_A_TIME });
    await using gated = await GatedCalls.create(sidecar);
    const clients = [await sidecar.client(), await LaneClient.connect(sidecar), await LaneClient.connect(sidecar, { roots: {} })];
    const replies = clients.map((client, index) => gated.post(client, String(index)));
    expect((await gated.waitForReached(3)).toSorted()).toEqual(["0", "1", "2"]);
    await gated.letThrough("0", "1", "2");
    expect((await Promise.all(replies)).map((reply) => readResponse(reply).result)).toEqual([LET_THROUGH, LET_THROUGH, LET_THROUGH]);
  });
});
