import { describe, expect, it } from "vitest";
import { StartLog } from "../../../src/upstream/log/start-log.ts";
import { RecordedLog } from "../../support/recorded-log.ts";

const CRASH = { kind: "crash", exitCode: 1, reason: "exited with code 1" };
const HOUR_MS = 60 * 60 * 1000;

/** A log of starts, without the lines of the level `debug`. */
class Starts {
  readonly log = new RecordedLog();
  readonly starts: StartLog;
  nowMs = 0;
  generation = 0;

  constructor() {
    this.starts = new StartLog(this.log, () => this.nowMs);
  }

  /** A start that prints these lines and fails. @returns the lines that no earlier start had printed. */
  fail(lines: readonly string[], fields: object = CRASH, isExpected = false): string[] {
    this.starts.started({ generation: ++this.generation });
    const unknown = lines.filter((line) => !this.starts.isRepeated(line));
    this.starts.exited({ fields: { generation: this.generation, ...fields }, stderrTail: lines, isExpected });
    this.starts.willRestart({ restarts: this.generation });
    return unknown;
  }

  get shown(): string[] {
    return this.log.lines.filter(({ level }) => level !== "debug").map(({ message }) => message);
  }

  get counts(): unknown[] {
    return this.log.lines.filter(({ message }) => message === "mcp server exited again").map(({ fields }) => fields["count"]);
  }
}

describe("the log of starts that fail alike", () => {
  it("the count is logged once an hour at least", () => {
    const starts = new Starts();
    for (let start = 1; start <= 5; start++) starts.fail(["no database"]);
    starts.nowMs = HOUR_MS;
    for (let start = 6; start <= 7; start++) starts.fail(["no database"]);
    expect(starts.counts).toEqual([2, 4, 6]);
  });
});
