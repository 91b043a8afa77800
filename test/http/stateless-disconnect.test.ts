import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { GatedCalls } from "../support/gated-calls.ts";
import { readSeen, waitForHanging, waitForSeen } from "../support/in-flight.ts";
import { LaneClient } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

/** Returns the number of dropped messages. */
async function dropped(sidecar: RunningSidecar): Promise<number> {
  const counts: readonly number[] = Object.values((await readStatus(sidecar)).counters.dropped);
  return counts.reduce((sum, count) => sum + count, 0);
}

describe("a client without a session that disconnects during its call", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();
  const control = await LaneClient.connectShared(sidecar);

  /** Makes a call that is not answered, and leaves as soon as the server has it. @returns the id that the server knows. */
  async function callAndLeave(accept: string): Promise<number> {
    const leaving = new AbortController();
    const before = await waitForHanging(control, 0);
    const left = client.callTool("hang", {}, { headers: { Accept: accept }, signal: leaving.signal }).catch(String);
    const wireIds = await waitForHanging(control, before.length + 1);
    leaving.abort();
    expect(await left).toContain("aborted");
    return wireIds.at(-1) ?? -1;
  }

  it("progress and response after the cancellation are dropped and counted", async () => {
    const wireId = await callAndLeave("application/json");
    await waitForSeen(control, `notifications/cancelled ${wireId}`);
    const before = await dropped(sidecar);
    await control.write({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: wireId, progress: 1 } });
    await control.write({ jsonrpc: "2.0", id: wireId, result: {} });
    expect(await client.toolText("echo", { text: "on" })).toBe("on");
    expect((await dropped(sidecar)) - before).toBe(2);
  });
});

describe("a client that disconnects while its stream is silent", () => {
  it("the call is cancelled at once, without a time to come back", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--stream-after-ms", "1"] });
    const control = await LaneClient.connectShared(sidecar);
    const stream = await sidecar.modernClient().beginTool("hang");
    expect(stream.isStream).toBe(true);
    const [wireId] = await waitForHanging(control, 1);
    stream.close();
    await waitForSeen(control, `notifications/cancelled ${wireId}`);
    expect((await readStatus(sidecar)).lanes.shared.requestsInFlight).toBe(0);
  });
});

describe("a client that disconnects while its request waits", () => {
  it("a call that waits for a slot never reaches the server", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-in-flight", "1"] });
    await using calls = await GatedCalls.create(sidecar);
    const control = await LaneClient.connectShared(sidecar);
    const first = calls.post(control, "first");
    await calls.waitForReached(1);
    const leaving = new AbortController();
    const left = sidecar.modernClient().callTool("echo", { text: "x-left" }, { signal: leaving.signal }).catch(String);
    await calls.waitForWaiting(1);
    leaving.abort();
    expect(await left).toContain("aborted");
    await calls.waitForWaiting(0);
    await calls.letThrough("first");
    expect((await first).status).toBe(200);
    expect(await control.toolText("lines")).not.toContain("x-left");
    expect((await readSeen(control)).filter((method) => method.startsWith("notifications/cancelled"))).toEqual([]);
  });
});
