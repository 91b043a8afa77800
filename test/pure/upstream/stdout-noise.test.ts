import { describe, expect, it } from "vitest";
import { Counters } from "../../../src/observability/counters.ts";
import { StdoutNoise } from "../../../src/upstream/log/stdout-noise.ts";
import { RecordedLog } from "../../support/recorded-log.ts";

const SKIPPED = "stdout line skipped: not json-rpc";
const MORE_SKIPPED = "more stdout lines skipped: not json-rpc";

function noiseAt(clock: { nowMs: number }): { log: RecordedLog; noise: StdoutNoise; counters: Counters } {
  const log = new RecordedLog();
  const counters = new Counters();
  return {
    log,
    counters,
    noise: new StdoutNoise({
      counters,
      log,
      fields: { childPid: 12, generation: 3 },
      redact: (text) => text.replaceAll("s3cret", "***"),
      nowMs: () => clock.nowMs,
      isRepeated: (line) => line.startsWith("known"),
    }),
  };
}

describe("StdoutNoise", () => {
  it("ten lines in ten seconds are logged, then only the number of the others", () => {
    const clock = { nowMs: 1000 };
    const { log, noise } = noiseAt(clock);
    for (let index = 0; index < 25; index++) noise.report(`line ${index}`, "not JSON");
    clock.nowMs = 10_999;
    noise.report("line 25", "not JSON");
    expect(log.lines.map(({ fields }) => fields["line"])).toEqual(Array.from({ length: 10 }, (_, index) => `line ${index}`));
    clock.nowMs = 11_000;
    noise.report("line 26", "not JSON");
    expect(log.lines.slice(10).map(({ message, fields }) => [message, fields["count"], fields["line"]])).toEqual([
      [MORE_SKIPPED, 16, undefined],
      [SKIPPED, undefined, "line 26"],
    ]);
  });

  it("lines that an earlier start had printed too do not hide new ones", () => {
    const { log, noise } = noiseAt({ nowMs: 0 });
    for (let index = 0; index < 25; index++) noise.report(`known ${index}`, "not JSON");
    noise.report("new", "not JSON");
    expect(log.lines.at(-1)).toMatchObject({ level: "warn", fields: { line: "new" } });
  });
});
