import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ModernClient } from "../../support/modern-client.ts";
import { InteropClient, SDKS } from "../../support/sdk-clients.ts";
import { type Status, readStatus } from "../../support/status.ts";
import { ReplicaSet } from "./replica-set.ts";

const POLL_MS = 20;
const LIST_CHANGED = "notifications/tools/list_changed";

let replicas: ReplicaSet;
beforeAll(async () => {
  replicas = await ReplicaSet.start();
});
afterAll(() => replicas[Symbol.asyncDispose]());

/** Waits until all replicas together have this number of something. @returns the number of a replica that has one. */
async function waitForCount(count: number, read: (status: Status) => number): Promise<number> {
  for (;;) {
    const counts = new Map<number, number>();
    for (const [number, sidecar] of replicas.running) counts.set(number, read(await readStatus(sidecar)));
    if ([...counts.values()].reduce((sum, each) => sum + each, 0) === count)
      return [...counts.keys()].find((key) => counts.get(key) !== 0) ?? 0;
    await delay(POLL_MS);
  }
}

const openStreams = (status: Status): number => status.openStreams;
const inFlight = ({ lanes: { shared, modern } }: Status): number => shared.requestsInFlight + modern.requestsInFlight;

it.each(["SIGTERM", "SIGKILL"] as const)("SDK clients open their streams again after %s for their replicas", async (signal) => {
  for (const sdk of SDKS) {
    await using client = await InteropClient.connect(sdk, replicas.url, { lane: "shared" });
    const { sessionId } = client;
    await replicas.restart(await waitForCount(1, openStreams), signal);
    const sidecar = replicas.running.get(await waitForCount(1, openStreams));
    if (sidecar === undefined) throw new Error("the replica has ended");
    const other = await sidecar.client();
    await other.toolText("noise", { line: JSON.stringify({ jsonrpc: "2.0", method: LIST_CHANGED }) });
    await client.waitToHear(LIST_CHANGED);
    await expect(client.toolText("echo", { text: "goes on" })).resolves.toBe("goes on");
    expect(client.sessionId).toBe(sessionId);
  }
});

it("the end of a client's connection cancels its request at the replica", async () => {
  const leaving = new AbortController();
  const call = new ModernClient(replicas.url).callTool("hang", {}, { signal: leaving.signal });
  await waitForCount(1, inFlight);
  leaving.abort();
  await expect(call).rejects.toThrow("aborted");
  await waitForCount(0, inFlight);
});

it("events are sent one by one, not in groups", async () => {
  const steps = 40;
  const params = { name: "slow_progress", arguments: { steps, intervalMs: 30 }, _meta: { progressToken: "steps" } };
  using stream = await new ModernClient(replicas.url).begin("tools/call", params);
  // Events that are read at once arrive in one turn of the event loop.
  let turns = 0;
  let isSameTurn = false;
  stream.response.on("data", () => {
    if (isSameTurn) return;
    isSameTurn = true;
    turns++;
    setImmediate(() => (isSameTurn = false));
  });
  await expect(stream.rest()).resolves.toHaveLength(steps + 1);
  // A slow machine may join a few. Without `option http-no-delay`, it would be seven at a time.
  expect(turns).toBeGreaterThan(steps / 2);
});
