import { describe, expect, it } from "vitest";
import { limitedLog } from "../../../src/observability/log-limiter.ts";
import { RecordedLog } from "../../support/recorded-log.ts";

describe("a log of lines that clients can cause at any rate", () => {
  it("100 lines in ten seconds are logged, and the others are counted before the next one", () => {
    let nowMs = 0;
    const log = new RecordedLog();
    const limited = limitedLog(log, () => nowMs);
    for (let index = 0; index < 250; index++) limited.info({ count: index }, "request given up");
    expect(log.lines).toHaveLength(100);
    nowMs = 10_000;
    limited.warn({ count: 250 }, "request given up");
    expect(log.lines.slice(100)).toEqual([
      { level: "warn", fields: { count: 150 }, message: "log lines suppressed: too many requests of clients caused them" },
      { level: "warn", fields: { count: 250 }, message: "request given up" },
    ]);
  });
});
