import { describe, expect, it } from "vitest";
import { upstreamNotReady } from "../../../src/server/failures.ts";
import type { UpstreamExit, UpstreamStatus } from "../../../src/process/port.ts";

const EXIT: UpstreamExit = {
  exitCode: 3,
  signal: undefined,
  generation: 2,
  reason: "exited with code 3",
  likelyCause: undefined,
  at: new Date(0),
  stderrTail: [],
  kind: "crash",
};

const STATUS: UpstreamStatus = {
  state: "backing-off",
  generation: 2,
  pid: undefined,
  readyAt: undefined,
  restarts: 1,
  lastExit: EXIT,
  nextRetryAt: new Date(4200),
  outputs: 0,
  isReading: false,
  inputs: 0,
};

describe("the pause that an error asks for", () => {
  it.each([
    [0, 5],
    [1000, 4],
    [4199, 1],
    [9000, 1],
  ])("the pause until the next start, seen at %d ms, is %d s", (nowMs, seconds) => {
    for (const state of ["backing-off", "failed"] as const) {
      expect(upstreamNotReady({ ...STATUS, state }, nowMs).details.retryAfterSeconds).toBe(seconds);
      expect(upstreamNotReady({ ...STATUS, state, nextRetryAt: undefined }, nowMs).details.retryAfterSeconds).toBe(1);
    }
  });
});

describe("an error of a server that ends again and again", () => {
  it("the error repeats the last five lines of stderr, each up to 300 characters", () => {
    const stderrTail = Array.from({ length: 20 }, (_, line) => `${line} `.padEnd(512, "x"));
    const { details } = upstreamNotReady({ ...STATUS, state: "failed", lastExit: { ...EXIT, stderrTail } }, 1000);
    expect(details.stderrTail).toEqual(stderrTail.slice(15).map((line) => `${line.slice(0, 300)}…`));
  });
});
