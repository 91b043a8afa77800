import { expect, it } from "vitest";
import { OwnedResources } from "../../support/owned-resources.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { openCallers } from "./callers.ts";
import type { LoggedRequest } from "./haproxy.ts";
import { type FailedCall, Load, readLedger } from "./load.ts";
import { ReplicaSet, type Stop } from "./replica-set.ts";

const CALLS = 6000;
/** 50 clients. */
const CLIENTS = { raw: 36, sdk: 3, stateless: 8 };
/** Each replica is restarted, and each session has then had requests at a new process of each. */
const ORDER = [1, 2, 3];

interface Run {
  readonly load: Load;
  readonly replicas: ReplicaSet;
  readonly stops: readonly Stop[];
  /** Requests that failed on a replica other than the one that was restarted at that time. */
  readonly failuresElsewhere: readonly LoggedRequest[];
  /** How often each text was executed. */
  readonly executions: Map<string, number>;
}

/** Restarts the replicas under load, one after the other, each after the same number of calls. */
async function restartUnderLoad(owned: OwnedResources, signal: "SIGTERM" | "SIGKILL"): Promise<Run> {
  const folder = owned.use(await TempDir.create());
  const ledger = folder.file("ledger");
  const replicas = owned.use(await ReplicaSet.start({ env: { FIXTURE_LEDGER: ledger } }));
  const load = owned.use(new Load(await openCallers(replicas.url, CLIENTS)));
  const stops: Stop[] = [];
  const failuresElsewhere: LoggedRequest[] = [];
  for (const [index, number] of ORDER.entries()) {
    await load.waitForCalls((CALLS * index) / ORDER.length);
    const logLength = replicas.haproxy.log.length;
    stops.push(await replicas.restart(number, signal));
    const failures = replicas.haproxy.troubles(logLength).filter(({ isFailure }) => isFailure);
    failuresElsewhere.push(...failures.filter(({ replica }) => replica !== `replica-${number}`));
  }
  await load.waitForCalls(CALLS);
  await load.stop();
  return { load, replicas, stops, failuresElsewhere, executions: await readLedger(ledger) };
}

function wasInFlightAt({ sentAtMs, failedAtMs }: FailedCall, { fromMs, untilMs }: Stop): boolean {
  return sentAtMs <= untilMs && failedAtMs >= fromMs;
}

it("no call fails while each replica is restarted by SIGTERM", async () => {
  await using owned = new OwnedResources();
  const { load, replicas, executions } = await restartUnderLoad(owned, "SIGTERM");
  expect(load.failed).toEqual([]);
  expect(load.wrong).toEqual([]);
  expect(replicas.haproxy.troubles()).toEqual([]);
  expect([...executions].filter(([, count]) => count !== 1)).toEqual([]);
  expect(new Set(executions.keys())).toEqual(load.right);
});

it("only calls in flight fail when each replica is killed", async () => {
  await using owned = new OwnedResources();
  const { load, stops, failuresElsewhere, executions } = await restartUnderLoad(owned, "SIGKILL");
  expect([...executions].filter(([, count]) => count !== 1)).toEqual([]);
  expect(load.wrong).toEqual([]);
  expect(failuresElsewhere).toEqual([]);
  expect(load.failed.filter((call) => !stops.some((stop) => wasInFlightAt(call, stop)))).toEqual([]);
  // Otherwise nothing was in flight, and nothing was tested.
  expect(load.failed.length).toBeGreaterThan(0);
  const executed = new Set(executions.keys());
  expect(load.right.difference(executed)).toEqual(new Set());
  expect(executed.difference(load.right).difference(new Set(load.failed.map(({ text }) => text)))).toEqual(new Set());
});
