import { expect, it } from "vitest";
import { PooledLane } from "../../src/lane/pooled-lane.ts";
import { requestOfClient } from "./support/lane-bench.ts";
import { LanesBench } from "./support/lanes-bench.ts";

it("a lane in the pool is unused once its last user has left", () => {
  const { session, server } = new LanesBench().connected();
  let unusedCount = 0;
  const pooled = new PooledLane(server, () => unusedCount++);
  pooled.acquire();
  pooled.open(session, requestOfClient({ id: "i", method: "initialize" }));
  pooled.release();
  expect([unusedCount, [...pooled.sessions]]).toEqual([0, [session]]);
  pooled.release(session);
  expect([unusedCount, pooled.sessions.size]).toEqual([1, 0]);
});
