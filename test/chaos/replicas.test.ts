import { beforeAll, describe, expect, it } from "vitest";
import { ADAPTERS } from "../../chaos/adapters.ts";
import { runChaos } from "../../chaos/chaos-run.ts";
import type { FaultKind } from "../../chaos/faults/kinds.ts";
import { failures, offences, type RunResult } from "../../chaos/results.ts";
import { SEED } from "../support/seed.ts";

const DURATION_MS = 5000;
const FEWEST_RIGHT_ANSWERS = 500;
const KINDS: readonly FaultKind[] = [
  "replica_restart",
  "replica_kill",
  "crash",
  "sigkill",
  "hang",
  "disconnect_storm",
  "burst",
  "come_back",
  "delete_during_calls",
];

describe("three replicas with one key, under faults of replicas and servers", () => {
  let result: RunResult;

  beforeAll(async () => {
    const adapter = ADAPTERS.find(({ isSubject }) => isSubject);
    if (adapter === undefined) throw new Error("no subject");
    result = await runChaos({ adapter, seed: SEED, durationMs: DURATION_MS, kinds: KINDS, replicas: 3, fewestRight: FEWEST_RIGHT_ANSWERS });
  }, 900_000);

  it("no response is lost or mixed up, and nothing is left behind", () => {
    const zeros = Object.fromEntries(Object.keys(offences(result)).map((what) => [what, 0]));
    expect({ ...offences(result), examples: result.examples }).toEqual({ ...zeros, examples: [] });
  });

  it("a session goes on at all replicas, and no call is executed twice", () => {
    expect(result.replicas).toMatchObject({ count: 3, sessionEnds: [], executedTwice: [], slowToLeave: 0 });
    expect(result.verdicts.right).toBeGreaterThanOrEqual(FEWEST_RIGHT_ANSWERS);
  });

  it("every kind of fault occurred, and every error has a known code", () => {
    expect(failures(result)).toEqual([]);
    expect(result.inFlightAtEnd["right"]).toBeGreaterThan(0);
  });
});
