import { describe, expect, it } from "vitest";
import { failures, outcomesAtEnd, runChaos } from "../../chaos/chaos-run.ts";
import { faultsOf } from "../../chaos/faults.ts";
import type { ServerEraOption } from "../../chaos/contract.ts";
import { SEED } from "../support/set-up.ts";

/** Enough for every kind of fault, although a crash loop takes several seconds of it. */
const DURATION_MS = 20_000;
const FEWEST_RIGHT_ANSWERS = 2000;
const TEST_TIMEOUT_MS = 900_000;

/** Defines the tests of a sidecar whose server has one of these eras. Two files have some of them each, so that two runs are at the same time. */
export function testChaos(eras: readonly ServerEraOption[]): void {
  describe.each(eras)("a sidecar of a %s server under every kind of fault at once", (era) => {
    it(
      "no response is lost or mixed up, nothing is left behind, and it always recovers",
      async () => {
        const result = await runChaos({
          era,
          seed: SEED,
          durationMs: DURATION_MS,
          kinds: faultsOf(era),
          fewestRight: FEWEST_RIGHT_ANSWERS,
        });
        const { verdicts, examples, errorsByCode } = result.ledger;
        expect({ failures: failures(result), examples: [...result.inspection.leftovers, ...examples] }).toEqual({
          failures: [],
          examples: [],
        });
        expect(verdicts.right).toBeGreaterThanOrEqual(FEWEST_RIGHT_ANSWERS);
        expect(errorsByCode.get("UPSTREAM_EXITED")).toBeGreaterThan(0);
        expect(outcomesAtEnd(result).get("right")).toBeGreaterThan(0);
      },
      TEST_TIMEOUT_MS,
    );
  });
}
