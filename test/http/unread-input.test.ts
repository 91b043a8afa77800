import { expect, it } from "vitest";
import { HttpBench } from "../support/http-bench.ts";
import { readSeen } from "../support/fixture-server.ts";
import { signalServer } from "../support/in-process-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { readStatus, waitForGeneration } from "../support/status.ts";

/** More than a pipe holds, and more than one write takes: while one is being written, no other is. */
const PADDING = "p".repeat(300_000);

it.each([
  { how: "reads again", signal: "SIGCONT", first: undefined, seen: ["x-vendor/1", "x-vendor/3"] },
  { how: "is killed", signal: "SIGKILL", first: "UPSTREAM_EXITED", seen: ["x-vendor/3"] },
] as const)("they reach the server once, and a cancelled one never, if it $how", async ({ signal, first, seen }) => {
  await using sidecar = await HttpBench.start({ flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "20"] });
  const client = await LaneClient.connectShared(sidecar);
  const pid = sidecar.childPid;
  const left = new AbortController();
  signalServer(pid, "SIGSTOP");
  const calls: Promise<unknown>[] = [];
  for (const id of [1, 2, 3]) {
    const reply = client.request(`x-vendor/${id}`, { PADDING }, id, id === 2 ? { signal: left.signal } : {});
    const code = reply.then(
      ({ error }) => error?.data?.["code"],
      () => "left",
    );
    calls.push(code);
    // One after another, so that their order is known.
    await expect.poll(async () => (await readStatus(sidecar)).lanes.shared.requestsInFlight).toBe(id);
  }
  left.abort();
  await expect.poll(async () => (await readStatus(sidecar)).lanes.shared.requestsInFlight).toBe(2);
  signalServer(pid, signal);
  if (signal === "SIGKILL") await waitForGeneration(sidecar, 2);
  expect(await Promise.all(calls)).toEqual([first, "left", undefined]);
  const requests = (await readSeen(client)).filter((method) => method.startsWith("x-vendor/"));
  expect(requests).toEqual(seen);
});
