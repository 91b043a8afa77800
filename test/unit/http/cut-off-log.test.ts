import { expect, it } from "vitest";
import { CutOffLog } from "../../../src/http/output/cut-off-log.ts";
import { Counters } from "../../../src/observability/counters.ts";
import { RecordedLog } from "../../support/recorded-log.ts";

it("many connections that are cut off do not flood the log, and all are counted", () => {
  const log = new RecordedLog();
  const counters = new Counters();
  let nowMs = 0;
  const cuts = new CutOffLog(counters, log, () => nowMs);
  for (let count = 0; count < 100; count++) cuts.add(5, "the client does not read");
  expect(log.lines).toHaveLength(10);
  expect(log.lines[0]).toEqual({ level: "warn", fields: { bytes: 5, reason: "the client does not read" }, message: "connection cut off" });
  nowMs = 10_000;
  cuts.add(5, "the client does not read");
  expect([log.lines.length, counters.http.readersCutOff]).toEqual([11, 101]);
});
