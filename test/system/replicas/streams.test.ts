import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { InteropClient, SDKS } from "../../support/sdk-clients.ts";
import { readStatus } from "../../support/status.ts";
import { ReplicaSet } from "./replica-set.ts";

const POLL_MS = 20;
const LIST_CHANGED = "notifications/tools/list_changed";

/** Waits until a replica has the only open stream. @returns the number of the replica. */
async function waitForStream(): Promise<number> {
  for (;;) {
    for (const [number, sidecar] of replicas.running) if ((await readStatus(sidecar)).openStreams === 1) return number;
    await delay(POLL_MS);
  }
}

let replicas: ReplicaSet;
beforeAll(async () => {
  replicas = await ReplicaSet.start();
});
afterAll(() => replicas[Symbol.asyncDispose]());

describe.each(SDKS)("the client of SDK %s", (sdk) => {
  it.each(["SIGTERM", "SIGKILL"] as const)("opens its stream again after %s for its replica", async (signal) => {
    await using client = await InteropClient.connect(sdk, replicas.url, { lane: "shared" });
    const { sessionId } = client;
    await replicas.restart(await waitForStream(), signal);
    const sidecar = replicas.running.get(await waitForStream());
    if (sidecar === undefined) throw new Error("the replica has ended");
    const other = await sidecar.client();
    await other.toolText("noise", { line: JSON.stringify({ jsonrpc: "2.0", method: LIST_CHANGED }) });
    await client.waitToHear(LIST_CHANGED);
    await expect(client.toolText("echo", { text: "goes on" })).resolves.toBe("goes on");
    expect(client.sessionId).toBe(sessionId);
  });
});
