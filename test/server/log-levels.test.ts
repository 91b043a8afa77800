import { LoggingLevelSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LaneBench } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

/** Most verbose first. */
const LEVELS = LoggingLevelSchema.options;

useFakeClock();

describe("the log level of a shared server", () => {
  it("the server is told the most verbose level that a session wants, and never twice", () => {
    const step = fc.record({ index: fc.nat({ max: 2 }), level: fc.option(fc.constantFrom(...LEVELS)), isLost: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const bench = LaneBench.ready();
        const sessions = [0, 1, 2].map(() => bench.join());
        const chosen = new Map<number, number>();
        let told: unknown;
        for (const { index, level, isLost } of steps) {
          const session = sessions[index];
          if (session === undefined) continue;
          if (level === null) {
            bench.lane.endCaller(session);
            sessions[index] = bench.join();
            chosen.delete(index);
          } else {
            bench.request(session, { method: "logging/setLevel", params: { level } });
            chosen.set(index, LEVELS.indexOf(level));
          }
          for (const { id, params } of bench.heard()) {
            expect(params).not.toEqual({ level: told });
            told = (params as { readonly level: string }).level;
            bench.say({ id, result: {} });
          }
          // If no session wants logs, the level stays unchanged.
          expect(told).toBe(chosen.size === 0 ? told : LEVELS[Math.min(...chosen.values())]);
          if (!isLost) continue;
          bench.lose();
          bench.start();
          const [again] = bench.heard();
          expect(again?.["params"]).toEqual(chosen.size === 0 ? undefined : { level: told });
          if (again === undefined) told = undefined;
          else bench.say({ id: again["id"], result: {} });
        }
      }),
    );
  });
});
