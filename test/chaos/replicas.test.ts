import { beforeAll, describe, expect, it } from "vitest";
import { failures, offences, outcomesAtEnd, runChaos, type RunResult } from "../../chaos/chaos-run.ts";
import type { FaultKind } from "../../chaos/faults.ts";
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
    result = await runChaos({
      era: "legacy",
      seed: SEED,
      durationMs: DURATION_MS,
      kinds: KINDS,
      replicas: 3,
      fewestRight: FEWEST_RIGHT_ANSWERS,
    });
  }, 900_000);

  it("no response is lost or mixed up, and nothing is left behind", () => {
    const zeros = Object.fromEntries(Object.keys(offences(result)).map((what) => [what, 0]));
    expect({ ...offences(result), examples: result.ledger.examples }).toEqual({ ...zeros, examples: [] });
  });

  it("a session goes on at all replicas, and no call is executed twice", () => {
    expect(result.end.replicas).toMatchObject({ count: 3, sessionEnds: [], executedTwice: [], slowToLeave: 0 });
    expect(result.ledger.verdicts.right).toBeGreaterThanOrEqual(FEWEST_RIGHT_ANSWERS);
  });

  it("every kind of fault occurred, and every error has a known code", () => {
    expect(failures(result)).toEqual([]);
    expect(outcomesAtEnd(result).get("right")).toBeGreaterThan(0);
  });
});
