import { beforeAll, describe, expect, it } from "vitest";
import { failures, faultsMissing, offences, outcomesAtEnd, runChaos, type RunResult } from "../../chaos/chaos-run.ts";
import { faultsOf } from "../../chaos/faults.ts";
import type { ServerEraOption } from "../../chaos/contract.ts";
import { SEED } from "../support/seed.ts";

/** Enough for every kind of fault, although a crash loop takes several seconds of it. */
const DURATION_MS = 20_000;
const FEWEST_RIGHT_ANSWERS = 2000;

/** Servers that speak the revisions of one era. The others have another file, so that two runs are at the same time. */
export const ONE_ERA: readonly ServerEraOption[] = ["legacy", "modern"];

/** Defines the tests of a sidecar whose server has one of these eras. */
export function testChaos(eras: readonly ServerEraOption[]): void {
  describe.each(eras)("a sidecar of a %s server under every kind of fault at once", (era) => {
    let result: RunResult;

    beforeAll(async () => {
      result = await runChaos({
        era,
        seed: SEED,
        durationMs: DURATION_MS,
        kinds: faultsOf(era),
        fewestRight: FEWEST_RIGHT_ANSWERS,
      });
    }, 900_000);

    it("no response is lost or mixed up, and nothing is left behind", () => {
      const zeros = Object.fromEntries(Object.keys(offences(result)).map((what) => [what, 0]));
      expect({ ...offences(result), examples: result.ledger.examples }).toEqual({ ...zeros, examples: [] });
    });

    it("thousands of responses are right, and the sidecar always recovers", () => {
      expect(result.ledger.verdicts.right).toBeGreaterThanOrEqual(FEWEST_RIGHT_ANSWERS);
      expect(result.recovery.neverRecovered).toBe(0);
    });

    it("every kind of fault occurred", () => {
      expect(faultsMissing(result)).toEqual([]);
    });

    it("every error has a known code, and the sidecar exits in time with code 0", () => {
      expect(failures(result)).toEqual([]);
      expect(result.ledger.errorsByCode.get("UPSTREAM_EXITED")).toBeGreaterThan(0);
      expect(outcomesAtEnd(result).get("right")).toBeGreaterThan(0);
    });
  });
}
