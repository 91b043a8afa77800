import { describe, expect, it } from "vitest";
import { describeExit, isCommandUnusable } from "../../../src/upstream/run-end.ts";

const NOTHING = { exitCode: undefined, signal: undefined, spawnErrorCode: undefined };

describe("an exit that nobody has asked for", () => {
  it.each([
    { exit: { exitCode: 0 }, kind: "clean-exit", reason: "exited with code 0" },
    { exit: { exitCode: 3 }, kind: "crash", reason: "exited with code 3" },
    { exit: { signal: "SIGSEGV" }, kind: "signal", reason: "ended by SIGSEGV" },
    { exit: { spawnErrorCode: "EAGAIN" }, kind: "spawn-failed", reason: "could not be started (EAGAIN)" },
    { exit: {}, kind: "crash", reason: "exited with code unknown" },
  ])("is a $kind: $reason", ({ exit, kind, reason }) => {
    expect(describeExit({ ...NOTHING, ...exit })).toEqual({ kind, reason });
  });

  it("shows an unusable command where there is no program, not where the machine is short of something", () => {
    const codes = ["ENOENT", "EACCES", "ENOTDIR", "ENOEXEC", "EAGAIN", "ENOMEM", "EMFILE", undefined];
    expect(codes.filter((spawnErrorCode) => isCommandUnusable({ ...NOTHING, spawnErrorCode }))).toEqual([
      "ENOENT",
      "EACCES",
      "ENOTDIR",
      "ENOEXEC",
    ]);
  });
});
