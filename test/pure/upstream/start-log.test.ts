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

const FIRST = ["mcp server started", "mcp server exited", "mcp server will be restarted"];

describe("the log of starts that fail alike", () => {
  it("lines and exits are logged once, then counted", () => {
    const starts = new Starts();
    expect(starts.fail(["connecting", "no database"])).toEqual(["connecting", "no database"]);
    expect(starts.shown).toEqual(FIRST);
    for (let start = 2; start <= 8; start++) expect(starts.fail(["connecting", "no database"])).toEqual([]);
    // The second start began before it was known to fail alike.
    expect(starts.shown.slice(3)).toEqual(["mcp server started", ...Array.from({ length: 3 }, () => "mcp server exited again")]);
    expect(starts.counts).toEqual([2, 4, 8]);
    const last = starts.log.lines.findLast(({ level }) => level === "warn");
    expect(last?.fields).toEqual({ ...CRASH, generation: 8, count: 8, since: expect.stringMatching(/^\d{4}-.*Z$/) as string });
  });

  it("all lines are logged at the level debug", () => {
    const starts = new Starts();
    for (let start = 1; start <= 3; start++) starts.fail(["no database"]);
    const debugged = starts.log.lines.filter(({ level }) => level === "debug").map(({ message }) => message);
    expect(debugged).toEqual(["mcp server exited", "mcp server will be restarted", ...FIRST]);
  });

  it("a new line is logged at once, and the exit with its tail", () => {
    const starts = new Starts();
    for (let start = 1; start <= 7; start++) starts.fail(["no database"]);
    expect(starts.fail(["no database", "disk full"], CRASH, true)).toEqual(["disk full"]);
    expect(starts.log.lines.slice(-3)).toMatchObject([
      { level: "warn", message: "mcp server exited again", fields: { generation: 7, count: 7 } },
      { level: "info", message: "mcp server exited", fields: { generation: 8, stderrTail: ["no database", "disk full"] } },
      { level: "info", message: "mcp server will be restarted" },
    ]);
  });

  it("an exit with another code is logged at once", () => {
    const starts = new Starts();
    for (let start = 1; start <= 5; start++) starts.fail(["no database"]);
    starts.fail(["no database"], { ...CRASH, exitCode: 2 });
    const exits = starts.log.lines.filter(({ level, message }) => level === "warn" && message === "mcp server exited");
    expect(exits.map(({ fields }) => [fields["generation"], fields["exitCode"]])).toEqual([
      [1, 1],
      [6, 2],
    ]);
  });

  it.each([
    ["a time", "2026-11-24T11:01:05.705Z no database", "2026-11-25T01:21:15.001Z no database"],
    ["a time of day", "[11:01:05] no database", "[11:01:19] no database"],
    [
      "npm's log file",
      "npm error A complete log: /tmp/_logs/2026-11-24T11_01_05_705Z-debug-0.log",
      "npm error A complete log: /tmp/_logs/2026-11-24T11_02_17_112Z-debug-0.log",
    ],
    ["a process id", "(node:4711) Warning: no database", "(node:815) Warning: no database"],
    ["a process id in brackets", "server[12]: no database", "server[3456]: no database"],
    ["a duration", "gave up after 1503 ms", "gave up after 1498 ms"],
    ["an address in memory", "<HTTPSConnection object at 0x7fbf95b78d10>", "<HTTPSConnection object at 0x7fbf95b79810>"],
    ["a UUID", "run 3f2b8c1e-0000-4000-8000-1234567890ab failed", "run 11111111-2222-4333-8444-555555555555 failed"],
  ])("lines that differ only in %s are alike", (_part, first, second) => {
    const starts = new Starts();
    starts.fail([first]);
    expect(starts.fail([second])).toEqual([]);
    expect(starts.counts).toEqual([2]);
  });

  it("lines that differ in a port or a name are not alike", () => {
    const starts = new Starts();
    starts.fail(["port 8080 is taken"]);
    expect(starts.fail(["port 8081 is taken"])).toEqual(["port 8081 is taken"]);
    expect(starts.counts).toEqual([]);
  });

  it("the count is logged once an hour at least", () => {
    const starts = new Starts();
    for (let start = 1; start <= 5; start++) starts.fail(["no database"]);
    starts.nowMs = HOUR_MS;
    for (let start = 6; start <= 7; start++) starts.fail(["no database"]);
    expect(starts.counts).toEqual([2, 4, 6]);
  });

  it("a start that becomes ready ends the repetition", () => {
    const starts = new Starts();
    for (let start = 1; start <= 3; start++) starts.fail(["no database"]);
    starts.starts.started({});
    starts.starts.ready();
    expect(starts.counts).toEqual([2, 3]);
    expect(starts.starts.isRepeated("no database")).toBe(false);
    starts.starts.exited({ fields: CRASH, stderrTail: [], isExpected: false });
    expect(starts.log.lines.at(-1)).toMatchObject({ level: "warn", message: "mcp server exited" });
    expect(starts.fail(["no database"])).toEqual(["no database"]);
  });

  it("exits of a server that was ready are never counted", () => {
    const starts = new Starts();
    for (let start = 1; start <= 3; start++) {
      starts.starts.started({});
      starts.starts.ready();
      starts.starts.exited({ fields: CRASH, stderrTail: ["same"], isExpected: false });
      starts.starts.willRestart({});
    }
    expect(starts.shown).toEqual([...FIRST, ...FIRST, ...FIRST]);
  });

  it("a thousand lines are remembered, and the first start is logged completely", () => {
    const starts = new Starts();
    const lines = Array.from({ length: 5000 }, (_, index) => `line number ${index}`);
    expect(starts.fail(lines)).toHaveLength(5000);
    expect(starts.fail(lines)).toEqual([]);
  });
});
