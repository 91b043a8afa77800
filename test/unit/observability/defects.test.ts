import { expect, it } from "vitest";
import { Counters } from "../../../src/observability/counters.ts";
import { Defects } from "../../../src/observability/defects.ts";
import { RecordedLog } from "../../support/recorded-log.ts";
import { LaneBench } from "../../server/support/lane-bench.ts";

function fail(): never {
  throw new Error("a defect");
}

it("a guard logs and counts a defect, and then recovers from it", () => {
  const [log, counters] = [new RecordedLog(), new Counters()];
  const defects = new Defects(log, counters);
  let recovered = 0;
  defects.guard("test", fail, () => recovered++);
  expect([counters.defects, recovered]).toEqual([1, 1]);
  expect(log.lines).toMatchObject([{ level: "error", message: "defect of the sidecar", fields: { kind: "test", reason: "a defect" } }]);
});

it("a guard survives a recovery that fails as well", () => {
  const counters = new Counters();
  new Defects(new RecordedLog(), counters).guard("test", fail, fail);
  expect(counters.defects).toBe(2);
});

it("a request whose answer cannot be given fails alone", () => {
  const bench = LaneBench.ready();
  const session = bench.join();
  const broken = bench.request(session, { method: "x/first" });
  const whole = bench.request(session, { method: "x/second" });
  broken.respond = fail;
  for (const { id } of bench.heard().filter((message) => message["id"] !== undefined)) bench.say({ id, result: {} });
  expect([broken.outcome, whole.outcome, bench.counters.defects]).toEqual(["INTERNAL_ERROR", {}, 1]);
});
