import { expect, it } from "vitest";
import { describeExit, isCommandUnusable } from "../../../src/process/exit.ts";

const NOTHING = { exitCode: undefined, signal: undefined, spawnErrorCode: undefined, hadMemoryKills: false };

it.each([
  { exit: { exitCode: 3 }, reason: "exited with code 3 before it answered initialize" },
  {
    exit: { exitCode: 0 },
    reason: "exited with code 0 before it answered initialize; is it an MCP server that speaks on stdin and stdout?",
  },
  { exit: { signal: "SIGSEGV" }, reason: "ended by SIGSEGV before it answered initialize" },
  { exit: { spawnErrorCode: "EAGAIN" }, reason: "could not be started (EAGAIN)" },
])("the reason names the missing response, unless the server did not start: $reason", ({ exit, reason }) => {
  expect(describeExit({ ...NOTHING, ...exit }, "initialize")).toMatchObject({ reason });
});

it.each([
  { exit: { signal: "SIGKILL" }, reason: "ended by SIGKILL: the kernel killed it for lack of memory" },
  { exit: { exitCode: 137 }, reason: "exited with code 137: the kernel killed it for lack of memory" },
])("the kernel's kill is a lack of memory, also of a server behind a shell: $reason", ({ exit, reason }) => {
  expect(describeExit({ ...NOTHING, ...exit, hadMemoryKills: true })).toEqual({ kind: "out-of-memory", reason });
  expect(describeExit({ ...NOTHING, ...exit })).not.toMatchObject({ kind: "out-of-memory" });
  const { reason: inHandshake } = describeExit({ ...NOTHING, ...exit, hadMemoryKills: true }, "initialize");
  expect(inHandshake).toBe(reason.replace(":", " before it answered initialize:"));
});

it.each([{ signal: "SIGTERM" }, { exitCode: 1 }, { exitCode: 0 }, { spawnErrorCode: "EAGAIN" }])(
  "another exit keeps its kind while the kernel kills for memory: %j",
  (exit) => {
    expect(describeExit({ ...NOTHING, ...exit, hadMemoryKills: true })).toEqual(describeExit({ ...NOTHING, ...exit }));
  },
);

it("an unusable program makes the command unusable, and a lack of resources does not", () => {
  const codes = ["ENOENT", "EACCES", "ENOTDIR", "ENOEXEC", "EAGAIN", "ENOMEM", "EMFILE", undefined];
  expect(codes.filter((spawnErrorCode) => isCommandUnusable({ ...NOTHING, spawnErrorCode }))).toEqual([
    "ENOENT",
    "EACCES",
    "ENOTDIR",
    "ENOEXEC",
  ]);
});
